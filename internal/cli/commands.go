// Package cli owns the commands of an operator, one file per command. They work beside running
// servers, on the database or the data folder; package main adds the commands that start an
// instance. It does not decide anything that a server does too: the domain packages do.
package cli

import (
	"errors"
	"io"
)

// Commands lists every command that does not start an instance.
type Commands struct {
	Migrate     migrateCommand     `cmd:"" help:"Bring the database's schema up to date, or back."`
	Code        codeCommand        `cmd:"" help:"Compute the codes that URLs get, without a database."`
	Block       blockCommand       `cmd:"" help:"Refuse links to hosts, and disable those that are there."`
	Stats       statsCommand       `cmd:"" help:"Compare the sums of clicks with the clicks, or make them anew."`
	Quotas      quotasCommand      `cmd:"" help:"List the workspaces that are near one of their quotas this month."`
	Reports     reportsCommand     `cmd:"" help:"List what people have reported of links."`
	Users       usersCommand       `cmd:"" help:"List accounts, and end their sessions."`
	Workspaces  workspacesCommand  `cmd:"" help:"List workspaces, limit, delete and restore them."`
	Links       linksCommand       `cmd:"" help:"Find links, disable and enable them."`
	Jobs        jobsCommand        `cmd:"" help:"List the jobs, and do one now."`
	Clicks      clicksCommand      `cmd:"" help:"Take over the clicks that a node has left behind."`
	Backup      backupCommand      `cmd:"" help:"Write an embedded instance into one file, beside its running server."`
	Restore     restoreCommand     `cmd:"" help:"Unpack such a file into an empty data folder."`
	Restored    restoredCommand    `cmd:"" name:"after-restore" help:"Make a database safe to serve after a restore."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Schema      schemaCommand      `cmd:"" help:"Print the GraphQL schema."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask the local server whether it is ready (for containers)."`
}

// IO is where a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// ErrSilent ends the program with exit status 1; everything has been said.
var ErrSilent = errors.New("exit status 1")

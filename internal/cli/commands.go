// Package cli owns the commands, one file per command. Those of an operator run next to running
// servers, on the database or the data folder, and open their stores by internal/stores. Those of a
// member embed Client, and use the API of a server. Package main adds the commands that start an
// instance. It contains no rules: they are in the domain packages.
package cli

import (
	"io"
	"os"
)

// Commands lists every command that does not start an instance.
type Commands struct {
	Users       usersCommand       `cmd:"" help:"List, create, disable and delete accounts, reset passwords, and end sessions."`
	Workspaces  workspacesCommand  `cmd:"" help:"List, create, limit, delete and restore workspaces."`
	Keys        keysCommand        `cmd:"" help:"List, create and revoke API keys of workspaces."`
	Links       linksCommand       `cmd:"" help:"Create, list, import and delete links, as a client of the API; find and disable them as the operator."`
	Tasks       tasksCommand       `cmd:"" help:"List, watch and cancel long operations, as a client of the API."`
	Backup      backupCommand      `cmd:"" help:"Back up an embedded instance into one file; its server may run."`
	Restore     restoreCommand     `cmd:"" help:"Restore a backup into an empty data folder."`
	Restored    restoredCommand    `cmd:"" name:"after-restore" help:"Prepare a restored PostgreSQL database for servers."`
	Migrate     migrateCommand     `cmd:"" help:"Migrate the database's schema up or down."`
	Code        codeCommand        `cmd:"" help:"Compute the codes of URLs, without a database."`
	QR          qrCommand          `cmd:"" name:"qr" help:"Render the QR code of a URL, without a database."`
	Block       blockCommand       `cmd:"" help:"Block hosts, and disable existing links to them."`
	Stats       statsCommand       `cmd:"" help:"Compare rollups with single clicks, or rebuild them."`
	Quotas      quotasCommand      `cmd:"" help:"List workspaces that are near a quota of this month."`
	Reports     reportsCommand     `cmd:"" help:"List reports of links."`
	Webhooks    webhooksCommand    `cmd:"" help:"List, disable and enable webhooks, and stop all of them."`
	Secrets     secretsCommand     `cmd:"" help:"Replace the key that encrypts secrets."`
	Jobs        jobsCommand        `cmd:"" help:"List the jobs, and run one now."`
	Clicks      clicksCommand      `cmd:"" help:"Adopt the click logs of a dead node, or copy clicks to ClickHouse."`
	GeoIP       geoipCommand       `cmd:"" name:"geoip" help:"Download the database of countries."`
	Completion  completionCommand  `cmd:"" help:"Print the script that completes commands in bash, zsh or fish."`
	Candidates  candidatesCommand  `cmd:"" hidden:"" help:"Print what completes a command line, for the scripts of completion."`
	Man         manCommand         `cmd:"" hidden:"" help:"Print the manual page."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Schema      schemaCommand      `cmd:"" help:"Print the GraphQL schema."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check that the local server is ready (for containers)."`
}

// IO is where a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is whether a person sees Out.
	Terminal bool
	// Getenv returns a variable of the environment. Secrets are there, and no flags.
	Getenv func(name string) string
}

// StandardIO returns those of the process.
func StandardIO() IO {
	return IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: isTerminal(os.Stdout), Getenv: os.Getenv}
}

// standardInput and standardOutput are the names of files that stand for them.
const standardInput, standardOutput = "-", "-"

// open opens a file, or standard input.
func (c IO) open(name string) (io.ReadCloser, error) {
	if name == standardInput {
		return io.NopCloser(c.In), nil
	}
	return os.Open(name)
}

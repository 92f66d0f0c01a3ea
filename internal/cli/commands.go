// Package cli owns the commands of an operator, one file per command. They run next to running
// servers, on the database or the data folder, and open their stores by internal/stores. Package
// main adds the commands that start an instance. It contains no rules: they are in the domain
// packages.
package cli

import (
	"io"
	"os"
)

// Commands lists every command that does not start an instance.
type Commands struct {
	Migrate     migrateCommand     `cmd:"" help:"Migrate the database's schema up or down."`
	Code        codeCommand        `cmd:"" help:"Compute the codes of URLs, without a database."`
	QR          qrCommand          `cmd:"" name:"qr" help:"Render the QR code of a URL, without a database."`
	Block       blockCommand       `cmd:"" help:"Block hosts, and disable existing links to them."`
	Stats       statsCommand       `cmd:"" help:"Compare rollups with single clicks, or rebuild them."`
	Quotas      quotasCommand      `cmd:"" help:"List workspaces that are near a quota of this month."`
	Reports     reportsCommand     `cmd:"" help:"List reports of links."`
	Users       usersCommand       `cmd:"" help:"List, create, disable and delete accounts, reset passwords, and end sessions."`
	Workspaces  workspacesCommand  `cmd:"" help:"List, limit, delete and restore workspaces."`
	Links       linksCommand       `cmd:"" help:"Find, disable, enable and import links."`
	Tasks       tasksCommand       `cmd:"" help:"List, watch and cancel long operations, as a client of the API."`
	Webhooks    webhooksCommand    `cmd:"" help:"List, disable and enable webhooks, and stop all of them."`
	Secrets     secretsCommand     `cmd:"" help:"Replace the key that encrypts secrets."`
	Jobs        jobsCommand        `cmd:"" help:"List the jobs, and run one now."`
	Clicks      clicksCommand      `cmd:"" help:"Adopt the click logs of a dead node, or copy clicks to ClickHouse."`
	Backup      backupCommand      `cmd:"" help:"Back up an embedded instance into one file; its server may run."`
	Restore     restoreCommand     `cmd:"" help:"Restore a backup into an empty data folder."`
	Restored    restoredCommand    `cmd:"" name:"after-restore" help:"Prepare a restored PostgreSQL database for servers."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Schema      schemaCommand      `cmd:"" help:"Print the GraphQL schema."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check that the local server is ready (for containers)."`
}

// IO is where a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
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

// Command server is Linkforge: the GraphQL endpoint, the redirects beside it, and the commands of an operator.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // stats are asked for in any zone, also where the system has none

	"github.com/alecthomas/kong"

	"github.com/linkforge/linkforge/internal/config"
)

// cli is the command line. Its flags are the server's configuration, which the environment fills too.
type cli struct {
	config.Flags `group:"Configuration"`

	Serve       serveCommand       `cmd:"" default:"withargs" help:"Serve GraphQL and redirects (the default)."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database's schema up to date, or back."`
	Code        codeCommand        `cmd:"" help:"Compute the codes that URLs get, without a database."`
	Demo        demoCommand        `cmd:"" help:"Run the main job once on a throw-away instance, and tell it."`
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
	Restored    restoredCommand    `cmd:"" name:"after-restore" help:"Make a database safe to serve that was restored by other means."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Schema      schemaCommand      `cmd:"" help:"Print the GraphQL schema."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask the local server whether it is ready (for containers)."`
}

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// errSilent ends the program with exit status 1; everything has been said.
var errSilent = errors.New("exit status 1")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	if err != nil && !errors.Is(err, errSilent) {
		fmt.Fprintln(os.Stderr, "linkforge:", err)
	}
	if err != nil {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, io stdio) error {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("linkforge"),
		kong.Description("The GraphQL backend of a multi-tenant link shortener."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(io.out, io.err),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(io, &c.Flags),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// Command server is Linkforge: it reads the settings, constructs the stores, listens, routes every URL
// (routes.go, shorturl.go) and shuts down. The commands of the operator are in internal/cli.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
)

// commandLine has the commands that start an instance, and the commands of package cli.
type commandLine struct {
	Serve    serveCommand    `cmd:"" default:"withargs" help:"Serve the console, the API and short URLs (the default)."`
	Help     helpCommand     `cmd:"" help:"Show the help of linkforge, or of a command."`
	Settings settingsCommand `cmd:"" hidden:"" help:"Settings are flags of serve, and variables of the environment."`
	Demo     demoCommand     `cmd:"" help:"Run an end-to-end demo on a temporary instance and print each step."`
	cli.Commands
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	std := cli.StandardIO()
	if status := report(run(ctx, os.Args[1:], std), std.Err); status != 0 {
		stop()
		os.Exit(status)
	}
}

// report prints an error and returns the exit status.
func report(err error, w io.Writer) (status int) {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[cli.ExitStatus](err); ok {
		return int(status)
	}
	fmt.Fprintln(w, "linkforge:", err)
	return 1
}

func run(ctx context.Context, args []string, std cli.IO) error {
	for i, arg := range args {
		if !utf8.ValidString(arg) {
			return fmt.Errorf("argument %d must be UTF-8", i+1)
		}
	}
	args, listsAll := asFlags(args)
	flags := config.NewFlags(os.Environ(), stores.Checks)
	parser, err := kong.New(&commandLine{},
		kong.Name("linkforge"),
		kong.Description("A link shortener: short URLs, statistics, a console and a GraphQL API."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(helpPrinter(listsAll)),
		kong.Vars{"scopes": cli.Scopes()},
		kong.Writers(std.Out, std.Err),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Embed(flags.Grammar(), `group:"`+cli.SettingsGroup+`"`),
		kong.Bind(std, flags),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return explainUsage(parser, args, err)
	}
	return command.Run()
}

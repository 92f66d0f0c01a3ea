package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/alecthomas/kong"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// helpCommand is `linkforge help`: asFlags makes it the flag --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command."`
	All     bool     `help:"List all commands."`
}

// Run is called when flags precede the command.
func (helpCommand) Run() error {
	return errors.New("help is the first argument, as in linkforge help users list")
}

// asFlags turns "help users" into "users --help", and "--version" into the command. "help --all"
// lists all commands.
func asFlags(args []string) (_ []string, listsAll bool) {
	switch {
	case slices.Equal(args, []string{"help", "--all"}):
		return []string{"--help"}, true
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help"), false
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}, false
	}
	return args, false
}

// common are the commands that a person needs.
var common = []string{"serve", "users create", "workspaces create", "keys create", "links create", "links list",
	"links stats", "links import", "backup", "migrate up"}

// helpPrinter lists the settings for "help settings" only, because they are longer than everything
// else, and all commands for "help --all" only.
func helpPrinter(listsAll bool) kong.HelpPrinter {
	return func(options kong.HelpOptions, c *kong.Context) error {
		ofSettings := slices.ContainsFunc(c.Path, func(p *kong.Path) bool {
			return p.Command != nil && p.Command.Name == settingsTopic
		})
		for _, flag := range c.Model.Flags {
			flag.Hidden = flag.Hidden || cli.IsSetting(flag) != ofSettings
		}
		isOverview := c.Selected() == nil
		for _, command := range c.Model.Leaves(true) {
			command.Hidden = isOverview && !listsAll && !slices.Contains(common, command.Path())
		}
		if err := kong.DefaultHelpPrinter(options, c); err != nil || ofSettings {
			return err
		}
		if isOverview && !listsAll {
			fmt.Fprintln(c.Stdout, "\nAll commands are listed by: linkforge help --all")
		}
		_, err := fmt.Fprintln(c.Stdout,
			"\nSettings, such as LINKFORGE_DATABASE_URL, are listed by: linkforge help settings")
		return err
	}
}

// settingsTopic is a topic of help, and no command.
const settingsTopic = "settings"

// settingsCommand is there for "linkforge help settings".
type settingsCommand struct{}

// Run is called when the topic is given as a command.
func (settingsCommand) Run() error {
	return errors.New("settings is a topic of help: linkforge help settings")
}

// maxTypos is the maximum number of edits between a misspelt command and a suggestion.
const maxTypos = 2

// explainUsage names the command that an unknown one is near to.
func explainUsage(parser *kong.Kong, args []string, err error) error {
	word := ""
	if i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }); i >= 0 {
		word = args[i]
	}
	if word == "" || !strings.Contains(err.Error(), word) {
		return err
	}
	hint, fewest := "", maxTypos+1
	for _, command := range parser.Model.Children {
		if command.Name == word {
			return err
		}
		if n := levenshtein.ComputeDistance(word, command.Name); n < fewest {
			hint, fewest = fmt.Sprintf(": did you mean %s?", command.Name), n
		}
	}
	return fmt.Errorf("unknown command %s%s (linkforge help --all lists the commands)", validate.Quote(word), hint)
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/alecthomas/kong"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

// settingsGroup is the group of the flags that are settings.
const settingsGroup = "Configuration"

// helpCommand is `linkforge help`: asFlags makes it the flag --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

// Run is called when flags precede the command.
func (helpCommand) Run() error {
	return errors.New("help is the first argument, as in linkforge help users list")
}

// asFlags turns "help users" into "users --help", and "--version" into the command.
func asFlags(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// printHelp lists the settings for "help settings" only: they are longer than everything else, and
// would hide it.
func printHelp(options kong.HelpOptions, c *kong.Context) error {
	ofSettings := slices.ContainsFunc(c.Path, func(p *kong.Path) bool {
		return p.Command != nil && p.Command.Name == settingsTopic
	})
	for _, flag := range c.Model.Flags {
		isSetting := flag.Group != nil && flag.Group.Key == settingsGroup
		flag.Hidden = flag.Hidden || isSetting != ofSettings
	}
	err := kong.DefaultHelpPrinter(options, c)
	if err == nil && !ofSettings {
		_, err = fmt.Fprintln(c.Stdout,
			"\nSettings, such as LINKFORGE_DATABASE_URL, are listed by: linkforge help settings")
	}
	return err
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
	return fmt.Errorf("unknown command %s%s (linkforge help lists the commands)", validate.Quote(word), hint)
}

package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// manCommand is `linkforge man`.
type manCommand struct{}

// Run prints the manual page, which is the same for equal versions.
func (manCommand) Run(k *kong.Context, io IO) error {
	p := manPage{}
	p.line(`.TH LINKFORGE 1 "" "linkforge %s" "Linkforge"`, Version())
	p.line(".SH NAME\nlinkforge \\- %s", firstLower(k.Model.Help))
	p.line(".SH SYNOPSIS\n.B linkforge\n.I command\n[\n.I flags\n]")
	p.line(".SH COMMANDS")
	for _, command := range k.Model.Leaves(true) {
		p.line(".SS %s", "linkforge "+command.Summary())
		p.line("%s", command.Help)
		for _, argument := range command.Positional {
			p.item(argument.Summary(), argument.Help)
		}
		for _, flag := range flagsOf(command) {
			if flag.Name != "help" {
				p.item(flag.Summary(), kong.DefaultHelpValueFormatter(flag.Value))
			}
		}
	}
	p.line(".SH ENVIRONMENT\nCommands that are clients of the API read")
	p.item("LINKFORGE", "The URL of the server, as in https://go.example.com.")
	p.item("LINKFORGE_API_KEY", "The API key.")
	p.item("LINKFORGE_WORKSPACE", "The workspace, if it is not that of the API key.")
	p.item(sourceToken, "The token of the API that links import reads.")
	p.line(".PP\nServers, and commands that work on their database, read the settings, which are flags, too:")
	for _, flag := range k.Model.Flags {
		if IsSetting(flag) {
			p.item(strings.Join(flag.Tag.Envs, ", "), flag.Help)
		}
	}
	p.line(".SH EXIT STATUS\n0, or 1 for a request that was refused and for errors, or 2 where a part was refused or " +
		"differs.")
	_, err := fmt.Fprint(io.Out, p.String())
	return err
}

// manPage is a text of roff.
type manPage struct{ strings.Builder }

// line writes lines. The arguments are plain text.
func (p *manPage) line(format string, args ...any) {
	for i, text := range args {
		args[i] = roff.Replace(fmt.Sprint(text))
	}
	fmt.Fprintf(p, format+"\n", args...)
}

// item writes a term and its description.
func (p *manPage) item(term, text string) { p.line(".TP\n.B \"%s\"\n\\&%s", term, text) }

// roff escapes plain text: no hyphen is one of typography, and no line is a request.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\n.", "\n\\&.", "\n'", "\n\\&'")

func firstLower(s string) string { return strings.ToLower(s[:1]) + strings.TrimSuffix(s[1:], ".") }

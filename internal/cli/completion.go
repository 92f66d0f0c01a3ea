package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// SettingsGroup is the group of the flags that are settings of a server.
const SettingsGroup = "Configuration"

// IsSetting reports whether a flag is a setting of a server, which commands do not list.
func IsSetting(flag *kong.Flag) bool { return flag.Group != nil && flag.Group.Key == SettingsGroup }

// completionCommand is `linkforge completion`.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts are the same for all versions: they call the hidden command candidates with the words up
// to the cursor. Where it has none, a shell completes names of files.
var scripts = map[string]string{
	"bash": `# Completion of linkforge for bash: source <(linkforge completion bash)
_linkforge() {
	local IFS=$'\n'
	COMPREPLY=($(linkforge candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _linkforge linkforge
`,
	"zsh": `#compdef linkforge
# Completion of linkforge for zsh: source <(linkforge completion zsh)
_linkforge() {
	local -a found
	found=("${(@f)$(linkforge candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
	if [[ -n $found ]]; then _describe linkforge found; else _files; fi
}
if [[ $funcstack[1] == _linkforge ]]; then _linkforge "$@"; else compdef _linkforge linkforge; fi
`,
	"fish": `# Completion of linkforge for fish: linkforge completion fish | source
function __linkforge
	set -l found (linkforge candidates -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
	if test (count $found) -gt 0
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c linkforge -f -a '(__linkforge)'
`,
}

// Run prints the script.
func (c completionCommand) Run(io IO) error {
	_, err := fmt.Fprint(io.Out, scripts[c.Shell])
	return err
}

// candidatesCommand is `linkforge candidates`, which the scripts call.
type candidatesCommand struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words up to the cursor, without the program."`
}

// Run prints a candidate and its description on each line, with a tab between them.
func (c candidatesCommand) Run(k *kong.Context, io IO) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, one := range candidates(k.Model.Node, words) {
		if _, err := fmt.Fprintf(io.Out, "%s\t%s\n", one.text, one.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a completion of the last word.
type candidate struct{ text, help string }

// candidates returns the completions of the last word.
func candidates(command *kong.Node, words []string) (found []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	var value *kong.Value // the flag whose value comes next
	for _, word := range words[:len(words)-1] {
		switch {
		case value != nil:
			value = nil
		case strings.HasPrefix(word, "-"):
			value = valueOf(command, word)
		default:
			i := slices.IndexFunc(command.Children, func(n *kong.Node) bool { return n.Name == word })
			if i >= 0 {
				command = command.Children[i]
			}
		}
	}
	last := words[len(words)-1]
	switch {
	case value != nil:
		found = choices(value)
	case strings.HasPrefix(last, "-"):
		for _, flag := range flagsOf(command) {
			found = append(found, candidate{"--" + flag.Name, flag.Help})
		}
	default:
		for _, child := range command.Children {
			if !child.Hidden {
				found = append(found, candidate{child.Name, child.Help})
			}
		}
		for _, argument := range command.Positional {
			found = append(found, choices(argument)...)
		}
	}
	return slices.DeleteFunc(found, func(c candidate) bool { return !strings.HasPrefix(c.text, last) })
}

// choices are the values that a flag or an argument is limited to.
func choices(v *kong.Value) (found []candidate) {
	if v.Enum == "" {
		return nil
	}
	for _, one := range v.EnumSlice() {
		found = append(found, candidate{text: one})
	}
	return found
}

// flagsOf returns the flags of a command and of those above it, without settings.
func flagsOf(command *kong.Node) (flags []*kong.Flag) {
	for _, group := range command.AllFlags(true) {
		for _, flag := range group {
			if !IsSetting(flag) {
				flags = append(flags, flag)
			}
		}
	}
	slices.SortFunc(flags, func(a, b *kong.Flag) int { return cmp.Compare(a.Name, b.Name) })
	return flags
}

// valueOf returns the flag that a word names if the next word is its value.
func valueOf(command *kong.Node, word string) *kong.Value {
	for _, flag := range flagsOf(command) {
		if !flag.IsBool() && (word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)) {
			return flag.Value
		}
	}
	return nil
}

package config

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed config.go
var source string

var variable = regexp.MustCompile("`env:\"([A-Z_]+)\"")

// help returns the help texts by environment variable: the first paragraphs of the comments in
// config.go. Struct tags would need lines of 200 columns for them.
func help() map[string]string {
	texts := map[string]string{}
	var comment []string
	for line := range strings.Lines(source) {
		text, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if isComment {
			comment = append(comment, strings.TrimSpace(text))
			continue
		}
		if found := variable.FindStringSubmatch(line); found != nil {
			paragraph, _, _ := strings.Cut(strings.Join(comment, "\n"), "\n\n")
			texts[found[1]] = strings.ReplaceAll(paragraph, "\n", " ")
		}
		comment = nil
	}
	return texts
}

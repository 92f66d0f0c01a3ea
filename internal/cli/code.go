package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// maxLine bounds a line of URLs: one of the greatest length, every byte of it escaped.
const maxLine = 1 << 20

// slugForm is that of slugs, which no id has. Without a database the command cannot resolve them. A
// number is the id of a workspace of another implementation.
var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,46}[a-z0-9]$`)

// codeCommand is `linkforge code`.
type codeCommand struct {
	Workspace string   `required:"" placeholder:"ID" help:"The workspace's id; its slug does not determine codes."`
	Salts     int      `default:"10" help:"Number of candidates to print, 1 to 10."`
	URLs      []string `arg:"" optional:"" name:"url" help:"The URLs; without any, lines of standard input."`
}

// codeLine is the output for one URL.
type codeLine struct {
	URL       string   `json:"url"`
	Canonical string   `json:"canonical,omitempty"`
	Codes     []string `json:"codes,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// Run prints a JSON object a URL. It ends in exit status 1 when a URL has no code.
func (c codeCommand) Run(io IO) error {
	if c.Salts < 1 || c.Salts > shortcode.Salts {
		return fmt.Errorf("--salts must be from 1 to %d", shortcode.Salts)
	}
	if c.Workspace == "" {
		return errors.New("--workspace must be the workspace's id")
	}
	if slugForm.MatchString(c.Workspace) && strings.Trim(c.Workspace, "0123456789") != "" {
		return fmt.Errorf("--workspace must be the id of the workspace, ws_ and 26 characters, because codes depend "+
			"on it: linkforge workspaces list has the id of the slug %s", quoted(c.Workspace))
	}
	results := c.arguments()
	if len(c.URLs) == 0 {
		results = c.input(io.In)
	}
	out := json.NewEncoder(io.Out)
	out.SetEscapeHTML(false)
	failed := false
	for line, err := range results {
		if err != nil {
			return err
		}
		failed = failed || line.Error != ""
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("writing the codes: %w", err)
		}
	}
	if failed {
		return ExitStatus(1)
	}
	return nil
}

func (c codeCommand) arguments() iter.Seq2[codeLine, error] {
	return func(yield func(codeLine, error) bool) {
		for _, raw := range c.URLs {
			if !yield(c.codes(raw), nil) {
				return
			}
		}
	}
}

func (c codeCommand) input(in io.Reader) iter.Seq2[codeLine, error] {
	return func(yield func(codeLine, error) bool) {
		for text, err := range lines(in) {
			if err != nil {
				yield(codeLine{}, fmt.Errorf("reading URLs: %w", err))
				return
			}
			if !yield(c.line(text), nil) {
				return
			}
		}
	}
}

// lines reads lines of up to maxLine bytes, without their ends and without a byte order mark.
func lines(in io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		all := bufio.NewScanner(in)
		all.Buffer(nil, maxLine)
		for first := true; all.Scan(); first = false {
			text := all.Bytes()
			if first {
				text = validate.WithoutMark(text)
			}
			if !yield(text, nil) {
				return
			}
		}
		if err := all.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func (c codeCommand) line(text []byte) codeLine {
	if !bytes.HasPrefix(text, []byte(`"`)) {
		return c.codes(string(text))
	}
	var raw string
	if !validate.IsJSONText(text) {
		return codeLine{URL: string(text),
			Error: `The line must be UTF-8, without one surrogate alone, such as \ud83d.`}
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return codeLine{URL: string(text), Error: "The line starts with \" and is not a JSON string."}
	}
	return c.codes(raw)
}

func (c codeCommand) codes(raw string) codeLine {
	u, err := urlnorm.Canonical(raw)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return codeLine{URL: raw, Error: refused.Reason}
	}
	line := codeLine{URL: raw, Canonical: u.String()}
	for salt := range c.Salts {
		line.Codes = append(line.Codes, shortcode.Deterministic(u.String(), c.Workspace, salt))
	}
	return line
}

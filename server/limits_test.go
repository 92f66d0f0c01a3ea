package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rateNames are the variables of rates and their rows in the guide.
var rateNames = map[string]string{
	"wrongFromAddress":        "wrong passwords of an account from an address network | 10 in 15 minutes",
	"wrongOfAccount":          "wrong passwords of an account from all addresses | 100 in 15 minutes",
	"lastFromAddress":         "then 1 from each address",
	"wrongOfSession":          "wrong passwords of a logged-in session | 10 in 15 minutes",
	"wrongPerAddress":         "wrong passwords from an address network | 100 in 15 minutes",
	"rightOfAccount":          "correct passwords of an account | 60 in 15 minutes",
	"rightPerAddress":         "correct passwords from an address network | 600 in 15 minutes",
	"registersPerAddress":     "registrations from an address network | 200 in an hour",
	"verificationsPerAccount": "mails to verify an address, for an account | 5 in an hour",
	"requestsPerEmail":        "mails to reset a password, for an e-mail address | 3 in an hour",
	"requestsPerAddress":      "requests to reset a password from an address network | 20 in an hour",
	"resetsPerAddress":        "password resets with a token from an address network | 100 in an hour",
	"invitationsPerWorkspace": "invitations of a workspace | 100 in an hour",
	"invitationsPerAccount":   "invitations of an account | 50 in an hour",
	"invitationsPerRecipient": "invitations of a recipient | 5 in a day",
}

// windows are the durations of rates in the code and in the guide.
var windows = map[string]string{"15 * time.Minute": "15 minutes", "time.Hour": "an hour", "24 * time.Hour": "a day"}

// TestLimits_AreDocumented compares the rates of accounts and invitations in the guide with the code:
// each row has the number and the window of its variable, and each variable has a row.
func TestLimits_AreDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, folder := range []string{"../internal/account", "../internal/workspace"} {
		for variable, rate := range ratesIn(t, folder) {
			row, ok := rateNames[variable]
			if !ok {
				t.Errorf("the rate %s is not in the guide", variable)
				continue
			}
			found[variable] = true
			if !strings.Contains(string(guide), row) {
				t.Errorf("the guide has no %q", row)
			}
			number, window, inRow := rate[0], windows[rate[1]], regexp.MustCompile(`\b\d+ (in|from)`).FindString(row)
			if !strings.HasPrefix(inRow, number+" ") || strings.HasSuffix(inRow, "in") && !strings.Contains(row, window) {
				t.Errorf("%s is %s in %s, the guide says %q", variable, number, window, row)
			}
		}
	}
	for variable := range rateNames {
		if !found[variable] {
			t.Errorf("the code has no rate %s", variable)
		}
	}
}

// ratesIn returns the attempts and the window, as they are written, of the ratelimit.Rate variables of
// a package.
func ratesIn(t *testing.T, folder string) map[string][2]string {
	t.Helper()
	rates := map[string][2]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			literal, ok := spec.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			var rate [2]string
			for _, e := range literal.Elts {
				pair, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				text := strings.TrimSpace(string(source[pair.Value.Pos()-parsed.FileStart : pair.Value.End()-parsed.FileStart]))
				switch pair.Key.(*ast.Ident).Name {
				case "Attempts":
					rate[0] = text
				case "Window":
					rate[1] = text
				}
			}
			if rate[0] != "" {
				rates[spec.Names[0].Name] = rate
			}
			return true
		})
	}
	return rates
}

package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	valid  = "version: 1\nowner: site\nlinks:\n"
	linked = valid + `- {key: a, url: "http://a.example", `
)

// TestParse_NamesThePositionOfErrors checks files whose fourth line is a link.
func TestParse_NamesThePositionOfErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"empty":              {"", "1:1: A manifest has the fields"},
		"no YAML":            {"version: [1\n", "1:10: sequence end token"},
		"two documents":      {"version: 1\n---\nowner: a\n", "2:1: A manifest is one document."},
		"nothing in it":      {"{}", "1:1: links is missing.\n1:1: owner is missing.\n1:1: version is missing."},
		"another version":    {"version: 2\nowner: a\nlinks: []\n", "1:10: version must be 1."},
		"unknown field":      {"version: 1\nowner: a\nlinks: []\nlink: 1\n", `4:1: unknown field "link"`},
		"slash in the owner": {"version: 1\nowner: a/b\nlinks: []\n", "2:8: owner must be a text without slashes."},
		"empty owner":        {"version: 1\nowner: \"\"\nlinks: []\n", "2:8: owner must be a text without slashes."},
		"links are no list":  {"version: 1\nowner: a\nlinks: {a: 1}\n", "3:8: links is a list."},
		"defaults are no fields": {"version: 1\nowner: a\ndefaults: 1\nlinks: []\n",
			"3:11: defaults has fields of links."},
		"default of a key": {"version: 1\nowner: a\ndefaults: {key: x}\nlinks: []\n", "3:17: key differs in each link"},
		"error in a default": {"version: 1\nowner: a\ndefaults: {tags: x}\nlinks:\n- {key: a, url: " +
			"\"http://a.example\"}\n- {key: b, url: \"http://b.example\"}\n",
			"3:18: string was used where sequence is expected"},
		"duplicate field": {linked + `key: b}`, `4:37: mapping key "key" already defined at [4:4]`},
		"anchor": {valid + `- {key: &a x, url: *a}`,
			"4:9: A manifest has no anchors, aliases or tags.\n4:20: A manifest has no anchors, aliases or tags."},
		"tag":                       {valid + `- {key: !!str a, url: b}`, "4:9: A manifest has no anchors"},
		"merge key":                 {valid + `- {<<: {key: a}}`, "4:4: A key is a plain name."},
		"null in a list":            {linked + `tags: [a, ~]}`, "4:47: An element of a list must not be null."},
		"spelling of a truth value": {linked + `title: TRUE}`, "4:44: A truth value must be true or false"},
		"octal":                     {linked + `code: 010}`, "4:43: A number must be a decimal integer"},
		"no link":                   {valid + `- a`, "4:3: A link has fields."},
		"no key":                    {valid + `- url: "http://a.example"`, "4:6: key is missing."},
		"no url":                    {valid + `- key: a`, "4:6: url is missing."},
		"empty key":                 {valid + `- {key: "", url: "http://a.example"}`, "4:9: key is empty."},
		"long key": {valid + `- {key: ` + strings.Repeat("k", 255) + `, url: "http://a.example"}`,
			"4:9: externalId must have"},
		"same key": {valid + "- {key: é, url: \"http://a.example\"}\n- {key: \"e\\u0301\", url: " +
			"\"http://b.example\"}", "5:9: The key is that of another link."},
		"unknown field of a link": {linked + `externalId: b}`, `4:37: unknown field "externalId"`},
		"control characters":      {linked + `"\x1b[31m\u202e": b}`, "4:37: unknown field \"\\u001b[31m\\u202e\""},
		"errors of two links": {valid + "- {key: a, url: b}\n- {key: b, url: \"http://b.example\", tags: 1}",
			"4:17: The URL must start with http:// or https://.\n5:43: "},
		"another type": {linked + `archived: 1}`, "4:47: cannot unmarshal"},
		"no time":      {linked + `startsAt: 2026-01-01}`, "4:47: startsAt must be a time"},
		"no time in a condition": {linked + `routing: {rules: [{when: [{during: {to: x}}], targets: [{}]}]}}`,
			"4:77: to must be a time"},
		"order of times": {linked + `startsAt: 2026-01-01T00:00:00Z, expiresAt: 2026-01-01T00:00:00Z}`,
			"4:47: startsAt must be before"},
		"status":  {linked + `redirectStatus: 303}`, "4:53: redirectStatus must be"},
		"maximum": {linked + `maxClicks: 0}`, "4:48: maxClicks must be at least 1."},
		"owner in the metadata": {linked + `metadata: [{key: owner, value: x}]}`,
			"4:47: The pair owner is that of the file."},
		"strategy": {linked + `strategy: FAST}`, "4:47: strategy must be"},
		"code of another strategy": {linked + `strategy: RANDOM, code: a}`,
			"4:47: A CUSTOM link must have a code"},
		"code":             {linked + `code: a/b}`, "4:43: A custom code may only contain"},
		"reserved code":    {linked + `code: graphql}`, "4:43: The server keeps this word"},
		"code of a domain": {linked + `code: a//b, domainId: d}`, "4:43: The code must not begin"},
		"invalid URL of a target": {linked + `routing: {rules: [{targets: [{url: b}]}]}}`,
			"4:72: The URL must start with"},
		"id of a rule":   {linked + `routing: {rules: [{ruleId: r, targets: [{}]}]}}`, "4:55: A file has no ids"},
		"id of a target": {linked + `routing: {rules: [{targets: [{targetId: t}]}]}}`, "4:55: A file has no ids"},
		"template":       {linked + `routing: {utm: {templateId: u}}}`, "4:65: Write the values"},
		"password":       {linked + `routing: {gate: {password: secret}}}`, "4:64: A file holds no password"},
		"Latin-1": {valid + "- {key: a, url: \"http://a.example\", title: Gr\xf6\xdfe}\n- {key: b, tags: [ü, \xfc]}",
			"4:46: The file must be UTF-8. Save it with that encoding.\n5:22: The file must be UTF-8."},
		"one surrogate alone": {linked + `tags: ["\udc00"]}`, "4:44: An escape of the text is no character"},
		"too many links": {valid + strings.Repeat("- {key: a, url: b}\n", 10_001),
			"10004:3: A manifest has at most 10,000 links."},
		"more errors than are shown": {valid + strings.Repeat("- 1\n", 25), "\nand 5 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(c.file))
			if _, ok := errors.AsType[Problems](err); !ok || !strings.Contains("\n"+err.Error(), "\n"+c.want) &&
				!strings.HasPrefix(c.want, "\n") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, want %s, got:\n%v", f, c.want, err)
			}
		})
	}
}

// TestParse_GivesFieldsTheStoredValues also those of the defaults.
func TestParse_GivesFieldsTheStoredValues(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte("\ufeff" + `version: 1
owner: site
defaults: {tags: [site], redirectStatus: 301, note: N}
links:
  - key: a
    url: " https://example.com/a "
    code: 10
    title: "  e` + "\u0301" + ` "
    tags: [b, a, b]
    note: null
    startsAt: 2026-01-02T03:04:05.1234567+02:00
    metadata: [{key: z, value: "1"}]
    routing: {query: {mode: "OFF"}, rules: [{targets: [{}]}], forwardPath: false, gate: {}}
  - {key: b, url: "https://example.com/b"}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, l := range f.Links {
		for _, field := range l.fields() {
			if string(field.value) != null {
				fmt.Fprintf(&got, "%s %s %s\n", l.Key, field.name, field.value)
			}
		}
	}
	const want = `a url "https://example.com/a"
a strategy "CUSTOM"
a code "10"
a title "é"
a tags ["a","b"]
a startsAt "2026-01-02T01:04:05.123456Z"
a redirectStatus 301
a metadata [{"key":"owner","value":"site"},{"key":"z","value":"1"}]
a routing.rules [{"enabled":true,"targets":[{"share":1}],"stickiness":"NONE"}]
b url "https://example.com/b"
b strategy "RANDOM"
b note "N"
b tags ["site"]
b redirectStatus 301
b metadata [{"key":"owner","value":"site"}]
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

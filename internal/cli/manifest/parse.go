package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Parse reads a manifest. It returns Problems: all errors of the file, or the first one that hides
// the others.
func Parse(text []byte) (*File, error) {
	text = validate.WithoutMark(text)
	if problems := invalidLines(text); len(problems) > 0 { // the library would replace the bytes
		return nil, problems
	}
	document, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, Problems{problemOf(err)}
	}
	p := &reader{}
	for i, d := range document.Docs {
		if i > 0 {
			p.add(d.Start, "A manifest is one document.")
		}
		if d.Body != nil {
			ast.Walk(p, d.Body)
		}
	}
	if len(p.problems) > 0 { // an alias is not decoded
		return nil, p.sorted()
	}
	root, ok := document.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, Problems{{1, 1, "A manifest has the fields version, owner, defaults and links."}}
	}
	f := p.file(root)
	if len(p.problems) > 0 {
		return nil, p.sorted()
	}
	return f, nil
}

// invalidLines returns the first place of each line that is not UTF-8.
func invalidLines(text []byte) (problems Problems) {
	number := 0
	for line := range bytes.Lines(text) {
		if number++; utf8.Valid(line) {
			continue
		}
		column := 1
		for rest := line; ; column++ {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				break
			}
			rest = rest[size:]
		}
		problems = append(problems, Problem{number, column, "The file must be UTF-8. Save it with that encoding."})
	}
	return problems
}

// reader collects the problems of a file.
type reader struct{ problems Problems }

func (p *reader) add(at *token.Token, text string) {
	one := Problem{1, 1, text}
	if at != nil {
		one.Line, one.Column = at.Position.Line, at.Position.Column
	}
	p.problems = append(p.problems, one)
}

// sorted returns the problems by position. One of the defaults is a problem of each link.
func (p *reader) sorted() Problems {
	slices.SortFunc(p.problems, byPosition)
	return slices.Compact(p.problems)
}

// problemOf returns an error of the library.
func problemOf(err error) Problem {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return Problem{e.GetToken().Position.Line, e.GetToken().Position.Column, e.GetMessage()}
	}
	return Problem{1, 1, err.Error()}
}

// Visit implements ast.Visitor. It refuses what makes a value depend on another place of the file,
// or on a program.
func (p *reader) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		p.add(n.GetToken(), "A manifest has no anchors, aliases or tags.")
		return nil
	case *ast.MergeKeyNode, *ast.MappingKeyNode:
		p.add(n.GetToken(), "A key is a plain name.")
	case *ast.MappingNode:
		p.checkTimes(n, "startsAt", "expiresAt", "at")
		if during, ok := valueAt(n, "during").(*ast.MappingNode); ok {
			p.checkTimes(during, "from", "to")
		}
	case *ast.IntegerNode:
		if fmt.Sprint(n.Value) != n.GetToken().Value { // 010 would be the text 8
			p.add(n.GetToken(), "A number must be a decimal integer; quote a text.")
		}
	case *ast.BoolNode:
		if text := n.GetToken().Value; text != "true" && text != "false" { // TRUE would be the text true
			p.add(n.GetToken(), "A truth value must be true or false; quote a text.")
		}
	case *ast.StringNode:
		if isReplaced(n.Value) && !isReplaced(n.GetToken().Origin) {
			p.add(n.GetToken(), "An escape of the text is no character, such as one surrogate alone.")
		}
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		p.add(n.GetToken(), "A number must be a decimal integer; quote a text.")
	case *ast.SequenceNode:
		for _, value := range n.Values {
			if value.Type() == ast.NullType {
				p.add(value.GetToken(), "An element of a list must not be null.")
			}
		}
	}
	return p
}

// isReplaced reports whether a text has the character that decoders write in place of others, or its
// escape.
func isReplaced(text string) bool {
	return strings.ContainsRune(text, utf8.RuneError) || strings.Contains(strings.ToLower(text), `\ufffd`)
}

// checkTimes refuses texts in fields for times that the API refuses: the library takes more, and
// reads others as no time.
func (p *reader) checkTimes(fields *ast.MappingNode, names ...string) {
	for _, name := range names {
		if n, ok := valueAt(fields, name).(*ast.StringNode); ok {
			if _, err := time.Parse(time.RFC3339, n.Value); err != nil {
				p.add(n.GetToken(), name+" must be a time as in 2006-01-02T15:04:05Z (RFC 3339).")
			}
		}
	}
}

// decode reads a node into a value, strictly. A pointer gets a new value, which the library would not
// give it.
func (p *reader) decode(n ast.Node, value any) bool {
	if at := reflect.ValueOf(value).Elem(); at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		value = at.Interface()
	}
	if err := yaml.NodeToValue(n, value, yaml.Strict()); err != nil {
		p.problems = append(p.problems, problemOf(err))
		return false
	}
	return true
}

// file reads the whole file.
func (p *reader) file(root *ast.MappingNode) *File {
	var f File
	var version int
	var links *ast.SequenceNode
	var defaults *ast.MappingNode
	for _, field := range root.Values {
		ok := true
		switch name := keyOf(field); name {
		case "version":
			if p.decode(field.Value, &version) && version != 1 {
				p.add(field.Value.GetToken(), "version must be 1.")
			}
		case "owner":
			if p.decode(field.Value, &f.Owner) {
				owner, err := CheckOwner(f.Owner)
				if err != nil {
					p.add(field.Value.GetToken(), errs.From(err).Message)
				}
				f.Owner = owner
			}
		case "defaults":
			if defaults, ok = field.Value.(*ast.MappingNode); !ok {
				p.add(field.Value.GetToken(), "defaults has fields of links.")
			}
		case "links":
			if links, ok = field.Value.(*ast.SequenceNode); !ok {
				p.add(field.Value.GetToken(), "links is a list.")
			}
		default:
			p.add(field.Key.GetToken(), `unknown field "`+name+`"`)
		}
	}
	for _, name := range []string{"version", "owner", "links"} {
		if !has(root, name) {
			p.add(nil, name+" is missing.")
		}
	}
	for _, name := range []string{"key", "url", "code"} {
		if defaults != nil && has(defaults, name) {
			p.add(valueAt(defaults, name).GetToken(), name+" differs in each link, so that it has no default.")
		}
	}
	if len(p.problems) > 0 {
		return nil
	}
	if len(links.Values) > maxLinks {
		p.add(links.Values[maxLinks].GetToken(), "A manifest has at most 10,000 links.")
		return nil
	}
	known := map[string]bool{}
	for _, n := range links.Values {
		p.link(&f, n, defaults, known)
	}
	return &f
}

// CheckOwner returns an owner as metadata has it. Without slashes, external ids of two owners are
// never equal. It returns InvalidInput.
func CheckOwner(owner string) (string, error) {
	if owner == "" || strings.Contains(owner, "/") {
		return "", errs.New(errs.InvalidInput, "owner must be a text without slashes.")
	}
	pair, err := linkfield.CheckPair(&linkfield.Pair{Key: ownerKey, Value: owner})
	if err != nil {
		return "", err
	}
	return pair.Value, nil
}

// link reads a link. Known are the external ids of those before.
func (p *reader) link(f *File, n ast.Node, defaults *ast.MappingNode, known map[string]bool) {
	fields, ok := n.(*ast.MappingNode)
	if !ok {
		p.add(n.GetToken(), "A link has fields.")
		return
	}
	for _, name := range []string{"key", "url"} {
		if !has(fields, name) {
			p.add(n.GetToken(), name+" is missing.")
			return
		}
	}
	if defaults != nil {
		for _, d := range defaults.Values {
			if !has(fields, keyOf(d)) {
				fields.Values = append(fields.Values, d)
			}
		}
	}
	if valueAt(fields, "routing", "gate", "password") != nil {
		p.add(valueAt(fields, "routing", "gate", "password").GetToken(),
			"A file holds no password: set it with updateLink, and write hasPassword: true.")
		return
	}
	l, change := &Link{}, &linkfield.Change{}
	if !p.fields(fields, l, change) {
		return
	}
	if err := l.set(f.Owner, change); err != nil {
		e := errs.From(err)
		p.add(nearest(fields, e.Field).GetToken(), e.Message)
		return
	}
	externalID, err := linkfield.CheckExternalID(l.externalID(f.Owner))
	key := valueAt(fields, "key").GetToken()
	switch {
	case err != nil:
		p.add(key, errs.From(err).Message)
	case l.Key == "":
		p.add(key, "key is empty.")
	case known[externalID]:
		p.add(key, "The key is that of another link.")
	}
	l.Key, known[externalID] = strings.TrimPrefix(externalID, f.Owner+"/"), true
	f.Links = append(f.Links, l)
}

// fields reads the fields of a link. Those that linkfield has are left in the change.
func (p *reader) fields(fields *ast.MappingNode, l *Link, change *linkfield.Change) (ok bool) {
	own := map[string]any{"key": &l.Key, "strategy": &l.Strategy, "code": &l.CustomCode, "domainId": &l.DomainID,
		"routing": &l.Routing}
	before := len(p.problems)
	for _, field := range fields.Values {
		name := keyOf(field)
		i := slices.IndexFunc(linkfield.Fields, func(f linkfield.Field) bool { return f.Name == name })
		switch {
		case own[name] == nil && (i < 0 || name == "externalId"):
			p.add(field.Key.GetToken(), `unknown field "`+name+`"`)
		case field.Value.Type() == ast.NullType:
		case own[name] != nil:
			p.decode(field.Value, own[name])
		default:
			_ = linkfield.Fields[i].Decode(change, func(to any) error {
				p.decode(field.Value, to)
				return nil
			})
		}
	}
	return len(p.problems) == before
}

func has(fields *ast.MappingNode, name string) bool { return valueAt(fields, name) != nil }

// valueAt returns the value at a path of names and indexes; nil if there is none.
func valueAt(n ast.Node, path ...string) ast.Node {
	for _, step := range path {
		var next ast.Node
		switch n := n.(type) {
		case *ast.MappingNode:
			for _, field := range n.Values {
				if keyOf(field) == step {
					next = field.Value
				}
			}
		case *ast.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i < len(n.Values) {
				next = n.Values[i]
			}
		}
		if n = next; n == nil {
			return nil
		}
	}
	return n
}

// nearest returns the deepest value on a path that the file has.
func nearest(n ast.Node, path []string) ast.Node {
	for end := len(path); end > 0; end-- {
		if found := valueAt(n, path[:end]...); found != nil {
			return found
		}
	}
	return n
}

// keyOf returns the name of a field.
func keyOf(field *ast.MappingValueNode) string {
	if s, ok := field.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return field.Key.String()
}

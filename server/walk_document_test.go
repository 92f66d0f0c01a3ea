package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// selection is a field in a document.
type selection struct {
	step
	// fragment means that the field is in a fragment, because its parent has an abstract type.
	fragment bool
	// aliased means that another type of the fragments has a field of the same name, maybe of another type.
	aliased bool
	// variables are the names of its arguments' variables.
	variables map[string]string
	children  []*selection
}

// name is the field's response name.
func (n *selection) name() string {
	if n.aliased {
		return n.parent.Name + "_" + n.field.Name
	}
	return n.field.Name
}

// document is an operation, ready to be sent.
type document struct {
	text string
	root *selection
	// fields are the keys of all that it selects.
	fields []string
	// constants are the variables of fields on the way and below.
	constants map[string]any
	// arguments are those of the last field on the way, with the variables' names.
	arguments map[string]*ast.ArgumentDefinition
}

// writer makes a document.
type writer struct {
	*schema
	constants map[string]any
	defined   []string
	// usual has the default value of a place.
	usual picker
}

// document is an operation that selects everything behind a path. Arguments of its last field are
// variables if given returns true.
func (s *schema) document(way []step, given func(a *ast.ArgumentDefinition) bool, usual picker) *document {
	w := &writer{schema: s, constants: map[string]any{}, usual: usual}
	d := &document{constants: w.constants, arguments: map[string]*ast.ArgumentDefinition{}}
	var last *selection
	for i, step := range way {
		next := &selection{step: step, variables: map[string]string{}}
		if last == nil {
			d.root = next
		} else {
			next.fragment = step.parent.Name != last.field.Type.Name()
			last.children = []*selection{next}
		}
		if last = next; i < len(way)-1 {
			w.supply(next)
		}
	}
	for _, a := range last.field.Arguments {
		if given(a) {
			d.arguments[w.define(last, a)] = a
		}
	}
	w.open(way, last)
	d.root.walk(func(n *selection) { d.fields = append(d.fields, n.key()) })
	kind := "query"
	switch d.root.parent.Name {
	case s.mutation:
		kind = "mutation"
	case s.subscription:
		kind = "subscription"
	}
	if len(w.defined) > 0 {
		kind += " (" + strings.Join(w.defined, ", ") + ")"
	}
	d.text = kind + " {" + d.root.write() + " }"
	return d
}

func (w *writer) define(n *selection, a *ast.ArgumentDefinition) string {
	name := fmt.Sprintf("v%d", len(w.defined))
	w.defined = append(w.defined, "$"+name+": "+a.Type.String())
	n.variables[a.Name] = name
	return name
}

// supply gives a field its usual arguments.
func (w *writer) supply(n *selection) {
	for _, a := range n.field.Arguments {
		if value, ok := w.fill(n.key()+"."+a.Name, a, w.usual, w.usual); ok {
			w.constants[w.define(n, a)] = value
		}
	}
}

// open selects everything behind a field, nearest first. Types that repeat, or that the path
// contains, are selected with their leaves only, because there would be no end. Mutations do not
// select connections, which queries cover. A subscription, which is charged for every event,
// selects leaves and links only. The routing of a link has more than the defaults of a workspace.
func (w *writer) open(way []step, root *selection) {
	opened := map[string]bool{}
	for _, step := range way {
		opened[step.parent.Name] = true
	}
	for queue := []*selection{root}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		// edges have the same objects
		repeated := n.field.Name == "nodes" && strings.HasSuffix(n.parent.Name, "Connection")
		defaults := n.key() == "Workspace.routingDefaults"
		types := w.possible(n.field.Type.Name())
		for _, d := range types {
			for _, f := range d.Fields {
				child := &selection{step: step{d, f}, fragment: d.Name != n.field.Type.Name(),
					variables: map[string]string{}}
				child.aliased = child.fragment && slices.ContainsFunc(types, func(other *ast.Definition) bool {
					return other != d && other.Fields.ForName(f.Name) != nil
				})
				kind := child.field.Type.Name()
				isLeaf := w.Types[kind].IsLeafType()
				if !isLeaf && (opened[d.Name] || defaults) && w.hasLeaves(d) || opened[w.mutation] &&
					strings.HasSuffix(kind, "Connection") || !isLeaf && opened[w.subscription] && kind != "Link" {
					continue
				}
				if repeated && (!isLeaf || len(n.children) > 0) {
					continue
				}
				if d.Name == "Link" && child.field.Name != "id" && slices.Contains(priced, root.key()) {
					continue
				}
				if kind == "PageInfo" && strings.HasPrefix(root.key(), "Query.node") ||
					child.key() == "Task.report" && root.key() != "Workspace.tasks" && !opened[w.mutation] {
					continue // the operation would be too large, and lists have the same
				}
				w.supply(child)
				n.children, queue = append(n.children, child), append(queue, child)
			}
			opened[d.Name] = opened[d.Name] || !defaults && !repeated
		}
	}
}

// possible returns a type and, for an interface, its implementations.
func (s *schema) possible(name string) []*ast.Definition {
	all := []*ast.Definition{s.Types[name]}
	if all[0].IsAbstractType() {
		all = append(all, s.PossibleTypes[name]...)
	}
	return all
}

func (s *schema) hasLeaves(d *ast.Definition) bool {
	return slices.ContainsFunc(d.Fields, func(f *ast.FieldDefinition) bool {
		return s.Types[f.Type.Name()].IsLeafType()
	})
}

func (n *selection) write() string {
	var text strings.Builder
	if text.WriteString(" "); n.name() != n.field.Name {
		text.WriteString(n.name() + ": ")
	}
	text.WriteString(n.field.Name)
	var arguments []string
	for _, a := range n.field.Arguments {
		if variable, ok := n.variables[a.Name]; ok {
			arguments = append(arguments, a.Name+": $"+variable)
		}
	}
	if len(arguments) > 0 {
		text.WriteString("(" + strings.Join(arguments, ", ") + ")")
	}
	if len(n.children) == 0 {
		return text.String()
	}
	text.WriteString(" {")
	on := "" // the type of the fragment that is open
	for _, child := range n.children {
		of := ""
		if child.fragment {
			of = child.parent.Name
		}
		if of != on && on != "" {
			text.WriteString(" }")
		}
		if of != on && of != "" {
			text.WriteString(" ... on " + of + " {")
		}
		on = of
		text.WriteString(child.write())
	}
	if on != "" {
		text.WriteString(" }")
	}
	return text.String() + " }"
}

// walk goes through the selection.
func (n *selection) walk(see func(n *selection)) {
	see(n)
	for _, child := range n.children {
		child.walk(see)
	}
}

// visit walks through the response of a selection: there receives each present field, and replace
// returns the new value of a field.
func (n *selection) visit(value any, there func(n *selection), replace func(n *selection, value any) any) any {
	there(n)
	switch value := value.(type) {
	case []any:
		all := make([]any, 0, len(value))
		for _, one := range value {
			all = append(all, n.visit(one, there, replace))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for _, child := range n.children {
			if below, ok := value[child.name()]; ok {
				all[child.name()] = child.visit(below, there, replace)
			}
		}
		return replace(n, all)
	}
	return replace(n, value)
}

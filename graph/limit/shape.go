package limit

import (
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
)

// shape is the size of a selection with its fragments spread.
type shape struct {
	fields, depth, aliases, fragments, directives int
	// top is the number of fields that are not within others, passwords that of Passwords.Fields.
	top, passwords int
	introspects    bool
}

// maxCount is larger than every bound. It keeps sums from overflowing.
const maxCount = 1 << 40

// plus returns the shape of both selections side by side.
func (s shape) plus(other shape) shape {
	return shape{
		top:         min(s.top+other.top, maxCount),
		fields:      min(s.fields+other.fields, maxCount),
		depth:       max(s.depth, other.depth),
		aliases:     min(s.aliases+other.aliases, maxCount),
		fragments:   min(s.fragments+other.fragments, maxCount),
		directives:  min(s.directives+other.directives, maxCount),
		introspects: s.introspects || other.introspects,
		passwords:   min(s.passwords+other.passwords, maxCount),
	}
}

// shapes measures selections. Each fragment is measured once, however often it is spread.
type shapes struct {
	doc            *ast.QueryDocument
	passwordFields []string
	known          map[string]shape
	// open are the fragments that are being measured; circular is one that is spread within itself.
	open     map[string]bool
	circular string
}

// measure returns the shapes of the operations and fragments of the document.
func (s *shapes) measure() (operations, fragments []shape) {
	for _, operation := range s.doc.Operations {
		got := s.of(operation.SelectionSet)
		got.directives += len(operation.Directives)
		for _, variable := range operation.VariableDefinitions {
			got.directives += len(variable.Directives)
		}
		operations = append(operations, got)
	}
	for _, fragment := range s.doc.Fragments {
		fragments = append(fragments, s.ofFragment(fragment.Name))
	}
	return operations, fragments
}

func (s *shapes) of(selections ast.SelectionSet) shape {
	var all shape
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			all = all.plus(s.ofField(selection))
		case *ast.InlineFragment:
			one := s.of(selection.SelectionSet)
			one.fragments++
			one.directives += len(selection.Directives)
			all = all.plus(one)
		case *ast.FragmentSpread:
			one := s.ofFragment(selection.Name)
			one.fragments++
			one.directives += len(selection.Directives)
			all = all.plus(one)
		}
	}
	return all
}

func (s *shapes) ofField(f *ast.Field) shape {
	one := s.of(f.SelectionSet)
	one.fields++
	one.depth++
	one.top = 1
	one.directives += len(f.Directives)
	if f.Alias != f.Name {
		one.aliases++
	}
	if slices.Contains(s.passwordFields, f.Name) {
		one.passwords++
	}
	one.introspects = one.introspects || f.Name == "__schema" || f.Name == "__type"
	return one
}

func (s *shapes) ofFragment(name string) shape {
	if s.open[name] {
		s.circular = name
		return shape{}
	}
	got, ok := s.known[name]
	fragment := s.doc.Fragments.ForName(name)
	if ok || fragment == nil { // validation reports the missing fragment
		return got
	}
	s.open[name] = true
	got = s.of(fragment.SelectionSet)
	got.directives += len(fragment.Directives)
	delete(s.open, name)
	s.known[name] = got
	return got
}

// places counts the fields that are merged into one place of the response, with fragments spread.
// It walks every spread: the selection must have been measured before.
type places struct {
	doc *ast.QueryDocument
	// max is the largest number of fields with one name in one place.
	max int
}

// visit merges the selections of one place, and then those of the places below it.
func (p *places) visit(selections ...ast.SelectionSet) {
	below := map[string][]ast.SelectionSet{}
	for _, one := range selections {
		p.collect(one, below)
	}
	for _, all := range below {
		p.max = max(p.max, len(all))
		p.visit(all...)
	}
}

func (p *places) collect(selections ast.SelectionSet, below map[string][]ast.SelectionSet) {
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			below[selection.Alias] = append(below[selection.Alias], selection.SelectionSet)
		case *ast.InlineFragment:
			p.collect(selection.SelectionSet, below)
		case *ast.FragmentSpread:
			if fragment := p.doc.Fragments.ForName(selection.Name); fragment != nil {
				p.collect(fragment.SelectionSet, below)
			}
		}
	}
}

package graph

import "github.com/vektah/gqlparser/v2/ast"

// shape is how much a selection is with its fragments spread, and what is special in it.
type shape struct {
	fields, depth, aliases, fragments, directives int
	// top is how many of the fields are not within others.
	top         int
	introspects bool
	// passwords is how many of its fields hash a password, which is as dear as a thousand others.
	passwords int
}

// beyond is more than any bound: of a number that would not fit, only that it is too large matters.
const beyond = 1 << 40

// with is both shapes beside each other.
func (s shape) with(other shape) shape {
	return shape{
		top:         min(s.top+other.top, beyond),
		fields:      min(s.fields+other.fields, beyond),
		depth:       max(s.depth, other.depth),
		aliases:     min(s.aliases+other.aliases, beyond),
		fragments:   min(s.fragments+other.fragments, beyond),
		directives:  min(s.directives+other.directives, beyond),
		introspects: s.introspects || other.introspects,
		passwords:   min(s.passwords+other.passwords, beyond),
	}
}

// shapes measures selections. Each fragment is measured once, however often it is spread.
type shapes struct {
	doc   *ast.QueryDocument
	known map[string]shape
	// open are the fragments that are being measured; circular is one that was spread within itself.
	open     map[string]bool
	circular string
}

// measureAll measures the operations and the fragments of a document.
func measureAll(doc *ast.QueryDocument) (s *shapes, operations, fragments []shape) {
	s = &shapes{doc: doc, known: map[string]shape{}, open: map[string]bool{}}
	for _, operation := range doc.Operations {
		got := s.of(operation.SelectionSet)
		got.directives += len(operation.Directives)
		for _, variable := range operation.VariableDefinitions {
			got.directives += len(variable.Directives)
		}
		operations = append(operations, got)
	}
	for _, fragment := range doc.Fragments {
		fragments = append(fragments, s.ofFragment(fragment.Name))
	}
	return s, operations, fragments
}

func (s *shapes) of(selections ast.SelectionSet) shape {
	var all shape
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			all = all.with(s.ofField(selection))
		case *ast.InlineFragment:
			one := s.of(selection.SelectionSet)
			one.fragments++
			one.directives += len(selection.Directives)
			all = all.with(one)
		case *ast.FragmentSpread:
			one := s.ofFragment(selection.Name)
			one.fragments++
			one.directives += len(selection.Directives)
			all = all.with(one)
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
	switch f.Name {
	case "login", "register", "changePassword", "resetPassword", "exportMyData", "deleteMyAccount":
		one.passwords++
	case "__schema", "__type":
		one.introspects = true
	}
	return one
}

func (s *shapes) ofFragment(name string) shape {
	if s.open[name] {
		s.circular = name
		return shape{}
	}
	got, ok := s.known[name]
	fragment := s.doc.Fragments.ForName(name)
	if ok || fragment == nil { // validation says that there is none
		return got
	}
	s.open[name] = true
	got = s.of(fragment.SelectionSet)
	got.directives += len(fragment.Directives)
	delete(s.open, name)
	s.known[name] = got
	return got
}

// places finds the fields that stand in one place of the answer, under each name, with fragments spread. It walks every
// spread: a selection must have been measured before.
type places struct {
	doc *ast.QueryDocument
	// most is the largest number of fields under one name.
	most int
}

// visit merges the selections of one place and goes on with what is below.
func (p *places) visit(selections ...ast.SelectionSet) {
	below := map[string][]ast.SelectionSet{}
	for _, one := range selections {
		p.collect(one, below)
	}
	for _, all := range below {
		p.most = max(p.most, len(all))
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

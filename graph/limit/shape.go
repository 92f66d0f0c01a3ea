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
		got := s.selectionSetShape(operation.SelectionSet)
		got.directives += len(operation.Directives)
		for _, variable := range operation.VariableDefinitions {
			got.directives += len(variable.Directives)
		}
		operations = append(operations, got)
	}
	for _, fragment := range s.doc.Fragments {
		fragments = append(fragments, s.fragmentShape(fragment.Name))
	}
	return operations, fragments
}

func (s *shapes) selectionSetShape(selections ast.SelectionSet) shape {
	var all shape
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			all = all.plus(s.fieldShape(selection))
		case *ast.InlineFragment:
			all = all.plus(s.selectionSetShape(selection.SelectionSet)).
				plus(shape{fragments: 1, directives: len(selection.Directives)})
		case *ast.FragmentSpread:
			all = all.plus(s.fragmentShape(selection.Name)).
				plus(shape{fragments: 1, directives: len(selection.Directives)})
		}
	}
	return all
}

func (s *shapes) fieldShape(f *ast.Field) shape {
	one := s.selectionSetShape(f.SelectionSet)
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
	one.introspects = one.introspects || slices.Contains([]string{"__schema", "__type", "_service"}, f.Name)
	return one
}

func (s *shapes) fragmentShape(name string) shape {
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
	got = s.selectionSetShape(fragment.SelectionSet)
	got.directives += len(fragment.Directives)
	delete(s.open, name)
	s.known[name] = got
	return got
}

// maxRepeats returns the largest number of fields with one name that are merged into one place of
// the response. It follows every spread: the selections must have been measured before.
func maxRepeats(fragments ast.FragmentDefinitionList, selections []ast.SelectionSet) (most int) {
	for _, fields := range collectFields(fragments, selections) {
		most = max(most, len(fields), maxRepeats(fragments, selectionsOf(fields)))
	}
	return most
}

// collectFields returns the fields of selections by their names in the response, with fragments
// spread. It includes fragments on other types than the value's: the response does not have their
// fields.
func collectFields(
	fragments ast.FragmentDefinitionList, selections []ast.SelectionSet,
) map[string][]*ast.Field {
	all := map[string][]*ast.Field{}
	var visit func(ast.SelectionSet)
	visit = func(one ast.SelectionSet) {
		for _, selection := range one {
			switch selection := selection.(type) {
			case *ast.Field:
				all[selection.Alias] = append(all[selection.Alias], selection)
			case *ast.InlineFragment:
				visit(selection.SelectionSet)
			case *ast.FragmentSpread:
				if fragment := fragments.ForName(selection.Name); fragment != nil {
					visit(fragment.SelectionSet)
				}
			}
		}
	}
	for _, one := range selections {
		visit(one)
	}
	return all
}

// selectionsOf returns the selections of the fields that have any.
func selectionsOf(fields []*ast.Field) (all []ast.SelectionSet) {
	for _, f := range fields {
		if len(f.SelectionSet) > 0 {
			all = append(all, f.SelectionSet)
		}
	}
	return all
}

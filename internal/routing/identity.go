package routing

import (
	"encoding/json"
	"strconv"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
)

// Identify gives the rules and targets their ids. An element keeps the id that it names; without one it
// takes the id of the previous element with the same name, else of an equal one, else a new one. So a
// caller that sends the same rules again changes nothing. It returns InvalidInput for an id that is not
// that of a previous element, or that two elements name.
func (r *Routing) Identify(previous *Routing) error {
	if previous == nil {
		previous = &Routing{}
	}
	match, at := matchElements(r.Rules, previous.Rules)
	if at >= 0 {
		return errUnknownID("rules", strconv.Itoa(at), "id")
	}
	for i, rule := range r.Rules {
		before := match[i]
		if before == nil {
			before = &Rule{ID: id.New(id.Rule)}
		}
		rule.ID = before.ID
		targets, at := matchElements(rule.Targets, before.Targets)
		if at >= 0 {
			return errUnknownID("rules", strconv.Itoa(i), "targets", strconv.Itoa(at), "id")
		}
		for j, target := range rule.Targets {
			if targets[j] == nil {
				targets[j] = &Target{ID: id.New(id.Target)}
			}
			target.ID = targets[j].ID
		}
	}
	return nil
}

func errUnknownID(field ...string) error {
	return errs.New(errs.InvalidInput,
		"The id is unknown, or used twice in this list. Omit it to create a new element.").At(field...)
}

// element is a rule or a target.
type element[T any] interface {
	*T
	identity() (elementID, name string)
	// withoutIDs returns a copy of the element, and of those below it.
	withoutIDs() *T
}

func (r *Rule) identity() (elementID, name string)   { return r.ID, optional.Value(r.Name) }
func (t *Target) identity() (elementID, name string) { return t.ID, optional.Value(t.Name) }

func (r *Rule) withoutIDs() *Rule {
	bare := *r
	bare.ID, bare.Targets = "", nil
	for _, t := range r.Targets {
		bare.Targets = append(bare.Targets, t.withoutIDs())
	}
	return &bare
}

func (t *Target) withoutIDs() *Target {
	bare := *t
	bare.ID = ""
	return &bare
}

// matchElements pairs each element with the previous one whose id it keeps, by id, then by name, then by
// content; nil for a new element. Refused is the index of an element whose id is unknown or was used
// before; -1 if there is none.
func matchElements[T any, E element[T]](elements, previous []E) (match []E, refused int) {
	match = make([]E, len(elements))
	taken := make([]bool, len(previous))
	claim := func(i int, isSame func(E) bool) bool {
		if match[i] != nil {
			return true
		}
		for j, before := range previous {
			if !taken[j] && isSame(before) {
				match[i], taken[j] = before, true
				return true
			}
		}
		return false
	}
	for i, e := range elements {
		elementID, _ := e.identity()
		if elementID == "" {
			continue
		}
		found := claim(i, func(before E) bool { id, _ := before.identity(); return id == elementID })
		if !found {
			return nil, i
		}
	}
	for i, e := range elements {
		_, name := e.identity()
		claim(i, func(before E) bool { _, n := before.identity(); return name != "" && n == name })
	}
	for i, e := range elements {
		text := textOf[T](e)
		claim(i, func(before E) bool { return textOf[T](before) == text })
	}
	return match, -1
}

// textOf returns an element as JSON, without ids.
func textOf[T any, E element[T]](e E) string {
	text, _ := json.Marshal(e.withoutIDs()) // plain data
	return string(text)
}

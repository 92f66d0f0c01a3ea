package check

import (
	"encoding/json"
	"strconv"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// identify gives the rules and targets their ids. An element keeps the id that it names; without
// one it takes the id of the previous element with the same name, else of an equal one, else a new
// one. So a caller that sends the same rules again changes nothing. It returns InvalidInput for an
// id that is not that of a previous element, or that two elements name.
func identify(r, previous *routing.Routing) error {
	if previous == nil {
		previous = &routing.Routing{}
	}
	match, at := matchElements(r.Rules, previous.Rules, ruleIdentity)
	if at >= 0 {
		return errUnknownID("rules", strconv.Itoa(at), "ruleId")
	}
	for i, rule := range r.Rules {
		before := match[i]
		if before == nil {
			before = &routing.Rule{ID: id.New(id.Rule)}
		}
		rule.ID = before.ID
		targets, at := matchElements(rule.Targets, before.Targets, targetIdentity)
		if at >= 0 {
			return errUnknownID("rules", strconv.Itoa(i), "targets", strconv.Itoa(at), "targetId")
		}
		for j, target := range rule.Targets {
			if targets[j] == nil {
				targets[j] = &routing.Target{ID: id.New(id.Target)}
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

// identity identifies a rule or a target across changes. The content is JSON without ids.
type identity struct{ id, name, content string }

func ruleIdentity(r *routing.Rule) identity {
	return identity{r.ID, optional.Value(r.Name), textOf(ruleWithoutIDs(r))}
}

func targetIdentity(t *routing.Target) identity {
	return identity{t.ID, optional.Value(t.Name), textOf(targetWithoutID(t))}
}

func ruleWithoutIDs(r *routing.Rule) *routing.Rule {
	bare := *r
	bare.ID, bare.Targets = "", nil
	for _, t := range r.Targets {
		bare.Targets = append(bare.Targets, targetWithoutID(t))
	}
	return &bare
}

func targetWithoutID(t *routing.Target) *routing.Target {
	bare := *t
	bare.ID = ""
	return &bare
}

func textOf(element any) string {
	text, _ := json.Marshal(element) // plain data
	return string(text)
}

// matchElements pairs each element with the previous one whose id it keeps, by id, then by name,
// then by content; nil for a new element. Refused is the index of an element whose id is unknown or
// was used before; -1 if there is none.
func matchElements[T any](elements, previous []*T, identityOf func(*T) identity) (match []*T, refused int) {
	match = make([]*T, len(elements))
	before := make([]identity, 0, len(previous))
	for _, e := range previous {
		before = append(before, identityOf(e))
	}
	taken := make([]bool, len(previous))
	for pass, key := range []func(identity) string{
		func(i identity) string { return i.id }, func(i identity) string { return i.name },
		func(i identity) string { return i.content },
	} {
		for i, e := range elements {
			wanted := key(identityOf(e))
			if wanted == "" || match[i] != nil {
				continue
			}
			for j, b := range before {
				if !taken[j] && key(b) == wanted {
					match[i], taken[j] = previous[j], true
					break
				}
			}
			if isUnknown := pass == 0 && match[i] == nil; isUnknown {
				return nil, i
			}
		}
	}
	return match, -1
}

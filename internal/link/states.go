package link

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/route/check"
)

// Changes returns the fields that it sets, with their values now and after it. The link has the
// tags now.
func (c *ScheduledChange) Changes(tags []string) []*audit.FieldChange {
	return audit.Pick(c.Link.snapshotWith(tags).Fields(), c.after.snapshotWith(tags).Fields(), c.Patch.Names()...)
}

// applyPatch changes the link as the patch says. The patch has been validated, so that it cannot
// fail.
func (l *Link) applyPatch(p *linkfield.Change, now time.Time) {
	before := l.OriginalURL
	p.Apply(&l.OriginalURL, &l.Settings)
	for _, f := range linkfield.Fields {
		_ = f.Set(&l.Values, p)
	}
	if l.OriginalURL != before {
		_ = l.SetDestination(l.OriginalURL)
		l.Check = Check{CheckAt: &now}
	}
}

// states returns copies of the pending changes, each with the link as it is once this change and
// all earlier ones have been applied.
func (l *Link) states() []*ScheduledChange {
	states, state := make([]*ScheduledChange, 0, len(l.pending)), l
	for _, c := range l.pending {
		after := *state
		after.applyPatch(&c.Patch, c.DueAt)
		state = &after
		copied := *c
		copied.Link, copied.after = l, state
		states = append(states, &copied)
	}
	return states
}

// Pending returns those of the changes that have not taken effect, with the link as it is now and
// will be.
func (l *Link) Pending(changes []*ScheduledChange, now time.Time) []*ScheduledChange {
	loaded := *l
	loaded.pending = slices.DeleteFunc(slices.Clone(changes), func(c *ScheduledChange) bool { return c.isDue(now) })
	return loaded.states()
}

// revalidate returns the error of the first state after a pending change of a link that an edit
// breaks.
func (s *Store) revalidate(ctx context.Context, before, after *Link) error {
	if len(after.pending) == 0 || after.OriginalURL == before.OriginalURL && after.Settings == before.Settings {
		return nil
	}
	_, err := s.validStates(ctx, after, after.Routing == before.Routing)
	return err
}

// validStates is states. It returns the error of the first one that is not valid. The link's own
// state is valid; if isRoutingSame, the routings of the others are known to be.
func (s *Store) validStates(ctx context.Context, l *Link, isRoutingSame bool) ([]*ScheduledChange, error) {
	states, previous := l.states(), l.Routing
	for _, c := range states {
		if err := ctx.Err(); err != nil { // the tests of routings take long
			return nil, err
		}
		if err := s.checkState(c.after, c.DueAt, isRoutingSame || c.after.Routing == previous); err != nil {
			return nil, c.errBroken(err)
		}
		previous = c.after.Routing
	}
	return states, nil
}

// checkState validates a state that begins at an instant. The routing may be known to be valid; its
// tests depend on the instant and on other fields.
func (s *Store) checkState(l *Link, at time.Time, isRoutingKnown bool) error {
	if err := linkfield.CheckPeriod(l.StartsAt, l.ExpiresAt); err != nil {
		return err
	}
	if !isRoutingKnown {
		if err := check.Routing(l.Routing); err != nil {
			return err
		}
	}
	return s.runTestsAt(l, at)
}

// errBroken is the error of an operation after which the state after the change is not valid.
func (c *ScheduledChange) errBroken(err error) error {
	e := errs.From(err)
	if !e.Kind.IsUserError() {
		return err
	}
	return errs.New(e.Kind, "This would break the scheduled change %s, due at %s: %s Cancel it first.", c.ID,
		c.DueAt.UTC().Format(time.RFC3339), e.Message)
}

// refuseStates returns an UnsafeURL error if one of the states has a URL that is refused by package
// destination. For the change ownID, the error names the field of the input.
func (s *Store) refuseStates(ctx context.Context, conn bun.IDB, states []*ScheduledChange, ownID string) error {
	links := make([]*Link, 0, len(states))
	for _, state := range states {
		links = append(links, state.after)
	}
	refused, err := s.refused(ctx, conn, links)
	if err != nil || len(refused) == 0 {
		return err
	}
	for _, state := range states {
		switch e := refused[state.after]; {
		case e == nil:
		case state.ID != ownID:
			return state.errBroken(e)
		case len(e.Field) == 0:
			return e.At("change", "url")
		default:
			return e.Under("change")
		}
	}
	return nil
}

// RefusePending returns an error if a state after a pending change of the link is not valid, or has
// a URL that is refused.
func (s *Store) RefusePending(ctx context.Context, conn bun.IDB, l *Link) error {
	states, err := s.validStates(ctx, l, false)
	if err != nil {
		return err
	}
	return s.refuseStates(ctx, conn, states, "")
}

// EffectiveTags returns the tags of a link that Complete has applied changes to; ok is false if
// they are as stored.
func (l *Link) EffectiveTags() (tags []string, ok bool) {
	return l.Tags, l.stored != nil && l.Tags != nil
}

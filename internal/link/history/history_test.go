package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// noon is when the tests begin.
var noon = dbtest.Noon

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

// randomChange returns a change of up to three fields, perhaps to their present values.
func randomChange(random *rand.Rand, l *link.Link) linkfield.Change {
	c := linkfield.Change{ID: l.ID}
	for range 1 + random.IntN(3) {
		text := new(fmt.Sprint("text ", random.IntN(3)))
		switch random.IntN(7) {
		case 0:
			c.Title = to(text)
		case 1:
			c.Note = to(text)
		case 2:
			c.Tags = to([]string{*text})
		case 3:
			c.URL = to(fmt.Sprint("https://example.com/", random.IntN(3)))
		case 4:
			c.Archived = to(random.IntN(2) == 0)
		case 5:
			c.MaxClicks = to(new(int64(1000 + random.IntN(2))))
		case 6:
			c.Routing = to(&routing.Change{EndedURL: optional.Set(new("https://example.com/" + (*text)[5:]))})
		}
	}
	return c
}

// TestStore_VersionsHaveNoGaps makes random changes: versions are numbered without gaps, each
// begins where its predecessor ends, each has one event, and each state can be read at its instant
// and restored.
func TestStore_VersionsHaveNoGaps(t *testing.T) {
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		random := rand.New(rand.NewPCG(28, 1))
		l := b.Make(t,
			creation.Input{URL: "https://example.com/0", Strategy: new(link.Random),
				Fields: linkfield.Change{Tags: optional.Set([]string{"text 0"})}})
		states := map[time.Time]link.Snapshot{}
		for range 40 {
			b.Tick()
			switch at := b.Reload(t, l); {
			case at.DeletedAt != nil:
				must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
			case random.IntN(10) == 0:
				must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
			default:
				b.Change(t, l, randomChange(random, l))
			}
			states[b.Now] = b.AllVersions(t, l)[0].Snapshot
		}
		all := b.AllVersions(t, l)
		for i, v := range all {
			if v.Number != len(all)-i || (v.To == nil) != (i == 0) || i > 0 && !v.To.Equal(all[i-1].From) {
				t.Errorf("version %d of %d from %s to %v", v.Number, len(all), v.From, v.To)
			}
			if v.Cause == link.CauseUpdated && len(v.Changes) == 0 {
				t.Errorf("version %d changes nothing", v.Number)
			}
		}
		now := b.Reload(t, l)
		now.In = b.Mine
		for at, want := range states {
			got := must.Value(b.History.AsOf(t.Context(), now, at))(t)
			wanttest.Equal(t, want, got.Snapshot, "at %s", at)
		}
		for i, e := range b.Events(t, len(all)) {
			if e.Version == nil || *e.Version != i+1 {
				t.Errorf("event %d is %s of version %v", i, e.Action, e.Version)
			}
		}
		b.ExpectConsistent(t)
	})
}

// TestStore_PurgeForgetsHistory deletes the versions and the values of events, but not the fact of
// each event; the link begins again with the first version.
func TestStore_PurgeForgetsHistory(t *testing.T) {
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		for _, strategy := range []link.Strategy{link.Random, link.Deterministic} {
			l := b.Make(t, creation.Input{URL: "https://example.com/secret", Strategy: new(strategy)})
			b.Change(t, l, linkfield.Change{Title: to(new("secret"))})
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		b.Now = b.Now.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		b.ExpectRows(t, 0, "link_versions", "TRUE")
		var events []*audit.Event
		must.NoError(t, b.DB.NewSelect().Model(&events).Where("action LIKE 'LINK_%'").Scan(db.AsSystem(t.Context())))
		actions := map[audit.Action]int{}
		for _, e := range events {
			actions[e.Action]++
			if e.Changes != nil {
				t.Errorf("%s has %s", e.Action, *e.Changes)
			}
		}
		wanttest.Equal(t, map[audit.Action]int{
			audit.LinkCreated: 2, audit.LinkUpdated: 2, audit.LinkDeleted: 2, audit.LinkPurged: 2,
		}, actions, "events")
		again := b.Make(t, creation.Input{URL: "https://example.com/secret", Strategy: new(link.Deterministic)})
		if all := b.AllVersions(t, again); len(all) != 1 || all[0].Number != 1 {
			t.Errorf("%d versions of a link that was purged before", len(all))
		}
		b.ExpectConsistent(t)
	})
}

// TestStore_AsOfReturnsIntervals: versions end where their successors begin, also before these are
// written. Due changes without effect write no version.
func TestStore_AsOfReturnsIntervals(t *testing.T) {
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		l := b.Make(t, creation.Input{URL: "https://example.com/1", Strategy: new(link.Random),
			Fields: linkfield.Change{Tags: optional.Set([]string{"a"})}})
		same := linkfield.Change{URL: to("https://example.com/1"), Tags: to([]string{"a"})}
		b.Plan(t, l, time.Hour, same)
		b.Plan(t, l, 2*time.Hour, linkfield.Change{URL: to("https://example.com/2")})
		b.Plan(t, l, 3*time.Hour, linkfield.Change{Title: to(new("changed"))})
		b.Plan(t, l, 4*time.Hour, linkfield.Change{Title: to(new("changed")), Tags: same.Tags})
		b.Now = b.Now.Add(5 * time.Hour)
		starts := []time.Time{noon, noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}
		for _, isWritten := range []bool{false, true} {
			for hour, want := range []int{1, 1, 2, 3, 3, 3} {
				v := must.Value(b.History.AsOf(t.Context(), b.Reload(t, l), noon.Add(time.Duration(hour)*time.Hour)))(t)
				var end *time.Time
				if want < len(starts) {
					end = &starts[want]
				}
				if v.Number != want || !v.From.Equal(starts[want-1]) || !linkfield.SameInstant(v.To, end) {
					t.Errorf("written: %t, after %d hours: version %d from %s to %v, want %d", isWritten, hour,
						v.Number, v.From, v.To, want)
				}
			}
			b.ApplyDue(t)
		}
		linktest.Refused(b.History.AsOf(t.Context(), l, b.Now.Add(time.Second)))(t, errs.InvalidInput, "the future")
	})
}

// TestStore_ByPastAddressKnowsWhenSlugsBegan: a slug answers from the instant on at which the
// workspace has it.
func TestStore_ByPastAddressKnowsWhenSlugsBegan(t *testing.T) {
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a", CustomCode: new("promo")})
		began := noon.Add(time.Hour)
		const add = "INSERT INTO slugs (slug, workspace_id, created_at) VALUES (?, ?, ?)"
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), add, "renamed", b.Mine.ID(), began))(t)
		a := resolve.Address{Slug: "renamed", Code: "promo"}
		linktest.Refused(b.History.ByPastAddress(t.Context(), a, began.Add(-time.Microsecond)))(t, errs.NotFound,
			"before the slug")
		if got, err := b.History.ByPastAddress(t.Context(), a, began); err != nil || got.ID != l.ID {
			t.Errorf("with the slug: %+v, %v", got, err)
		}
	})
}

// TestStore_ByPastAddressKnowsCodesOfDomains: a domain that was removed had codes of its own
// before.
func TestStore_ByPastAddressKnowsCodesOfDomains(t *testing.T) {
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		domains := &domain.Store{
			DB: b.DB, Own: must.Value(destination.NewOwnHosts("http://sho.rt"))(t), Resolver: everyRecord{},
			Limits: ratelimit.Limiter{Off: true}, Now: func() time.Time { return b.Now },
		}
		own := must.Value(domains.Add(t.Context(), b.Mine, "go.example.com",
			domain.Codes{Space: new(domain.Own), CaseSensitive: new(false)}))(t)
		shared := b.Make(t, creation.Input{URL: "https://example.com/shared", CustomCode: new("promo")})
		printed := b.Make(t,
			creation.Input{URL: "https://example.com/own", CustomCode: new("Promo"), DomainID: &own.ID})
		must.Value(domains.Verify(everyValue(t, own), b.Mine, own.ID))(t)
		b.Tick()
		before := b.Now
		b.Tick()
		b.Remove(t, printed.ID)
		must.Value(domains.Remove(t.Context(), b.Mine, own.ID))(t)
		again := must.Value(domains.Add(t.Context(), b.Mine, "go.example.com", domain.Codes{}))(t)
		must.Value(domains.Verify(everyValue(t, again), b.Mine, again.ID))(t)
		b.Tick()
		for _, shortURL := range []string{"https://go.example.com/PROMO", "http://go.example.com/PROMO-_"} {
			at := must.Value(b.Links.Resolver.ParseShortURL(shortURL))(t)
			if got, err := b.History.ByPastAddress(t.Context(), at, before); err != nil || got.ID != printed.ID {
				t.Errorf("%s with codes of its own: %+v, %v", shortURL, got, err)
			}
			if got, err := b.History.ByPastAddress(t.Context(), at, b.Now); err != nil || got.ID != shared.ID {
				t.Errorf("%s with those of the workspace: %+v, %v", shortURL, got, err)
			}
		}
	})
}

type valueKey struct{}

// everyValue returns a context with a value for everyRecord that proves a domain.
func everyValue(t *testing.T, d *domain.Domain) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), valueKey{}, d.RecordValue())
}

// everyRecord is a DNS with the record of the context's domain.
type everyRecord struct{}

func (everyRecord) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	value, _ := ctx.Value(valueKey{}).(string)
	return []string{value}, nil
}

// TestStore_VerifyFindsDifferences damages the history of a link in every way that Verify is for.
func TestStore_VerifyFindsDifferences(t *testing.T) {
	damages := []struct{ statement, want string }{
		{"DELETE FROM link_versions WHERE number = 2 AND link_id = ?", "version 2 is missing before 3"},
		{"DELETE FROM link_versions WHERE number = 1 AND link_id = ?", "the versions before 2 are missing"},
		{"DELETE FROM link_versions WHERE number = 3 AND link_id = ?", "version 3 is missing before 4"},
		{"UPDATE link_versions SET ends_at = starts_at WHERE number = 2 AND link_id = ?", "but 3 begins at"},
		{"UPDATE link_versions SET snapshot = '{\"url\":\"https://example.com/forged\"}' WHERE number = 2 AND " +
			"link_id = ?",
			"but the versions differ in"},
		{"UPDATE links SET title = 'Forged' WHERE id = ?", "of version 4 has the changes"},
		{"DELETE FROM link_tags WHERE link_id = ?", "of version 4 has the changes"},
		{"UPDATE links SET version = 5 WHERE id = ?", "version 4 is missing before 5"},
		{"DELETE FROM audit_events WHERE version = 3 AND target_id = ?", "version 3 has no event"},
		{"UPDATE audit_events SET version = 2 WHERE version = 3 AND target_id = ?", "version 2 has 2 events"},
		{"UPDATE audit_events SET version = 7 WHERE version = 3 AND target_id = ?", "names version 7 of 4"},
		{"UPDATE audit_events SET changes = NULL WHERE version = 3 AND target_id = ?", "but the versions differ in"},
	}
	creationtest.Each(t, func(t *testing.T, b *creationtest.World) {
		var links []*link.Link
		for i := range damages {
			l := b.Make(t, creation.Input{URL: fmt.Sprint("https://example.com/", i), Strategy: new(link.Random)})
			for _, c := range []linkfield.Change{
				{Title: to(new("First"))}, {Note: to(new("Second"))}, {Tags: to([]string{"third"})},
			} {
				b.Tick()
				b.Change(t, l, c)
			}
			links = append(links, l)
		}
		if got := b.Differences(t); len(got) > 0 {
			t.Fatalf("intact histories: %v", got)
		}
		for i, damage := range damages {
			must.Value(b.DB.NewRaw(damage.statement, links[i].ID).Exec(db.AsSystem(t.Context())))(t)
		}
		got := b.Differences(t)
		for i, damage := range damages {
			if found := strings.Join(got[links[i].ID], "\n"); !strings.Contains(found, damage.want) {
				t.Errorf("after %q: %q, want %q", damage.statement, found, damage.want)
			}
		}
	})
}

package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/domain"
)

// record is a TXT record that any name has.
type record struct{ text string }

func (r *record) LookupTXT(context.Context, string) ([]string, error) { return []string{r.text}, nil }

// resolvedURL returns the URL of resolvedAt, or the codes of errors.
func (b *bundle) resolvedURL(t *testing.T, token, shortURL string, at time.Time) string {
	t.Helper()
	const query = `query ($u: String!, $at: Time!) { resolvedAt(shortUrl: $u, at: $at) { originalUrl } }`
	r := b.ask(t, token, query, "u", shortURL, "at", at.UTC().Format(time.RFC3339Nano))
	var got struct{ ResolvedAt *struct{ OriginalURL string } }
	if err := json.Unmarshal(r.Data, &got); err != nil || r.codes() != "" {
		return r.codes()
	}
	if got.ResolvedAt == nil {
		return ""
	}
	return got.ResolvedAt.OriginalURL
}

// TestResolvedAt_AgreesWithRecord changes links of two workspaces, renames one of them, and moves a
// host from one to the other: at every instant, each member sees the responses of the own links.
func TestResolvedAt_AgreesWithRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dns := &record{}
		b := setup(t, d, func(c *Config) {
			c.Domains.Resolver, c.Domains.Limits = dns, ratelimit.Limiter{Off: true}
			c.Domains.Log = slog.New(slog.DiscardHandler)
		})
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		const host = "https://go.example.com/promo"
		addresses := []string{"http://sho.rt/ada/promo", "http://sho.rt/eve/promo", host}
		type moment struct {
			at   time.Time
			seen map[string]string // by the name of the caller and the address
		}
		var moments []moment
		note := func(adas, eves, hosts string) {
			seen := map[string]string{"ada " + addresses[0]: adas, "eve " + addresses[1]: eves}
			if strings.HasPrefix(hosts, "https://ada") {
				seen["ada "+host] = hosts
			} else if hosts != "" {
				seen["eve "+host] = hosts
			}
			moments = append(moments, moment{db.Instant(time.Now()), seen})
			polltest.Elapse(time.Millisecond) // instants are in microseconds
		}
		verify := func(p person) string {
			t.Helper()
			added := must.Value(b.Domains.Add(t.Context(), p.workspace, "go.example.com", domain.Codes{}))(t)
			dns.text = added.RecordValue()
			must.Value(b.Domains.Verify(t.Context(), p.workspace, added.ID))(t)
			return added.ID
		}
		update := func(p person, l *link.Link, url string) {
			t.Helper()
			must.Value(b.Edit.Update(t.Context(), p.workspace, link.Change{ID: l.ID, URL: optional.Set(url)}))(t)
		}
		note("", "", "")
		create := func(p person, url string) *link.Link {
			t.Helper()
			l, _, err := b.Creation.Create(t.Context(), p.workspace, creation.Input{URL: url, CustomCode: new("promo")})
			must.NoError(t, err)
			return l
		}
		adas, eves := create(ada, "https://ada.example/0"), create(eve, "https://eve.example/0")
		note("https://ada.example/0", "https://eve.example/0", "")
		domainID := verify(ada)
		note("https://ada.example/0", "https://eve.example/0", "https://ada.example/0")
		for i := 1; i <= 3; i++ {
			update(ada, adas, fmt.Sprint("https://ada.example/", i))
			note(fmt.Sprint("https://ada.example/", i), "https://eve.example/0", fmt.Sprint("https://ada.example/", i))
		}
		r := b.ask(t, ada.token, `mutation ($w: ID!) {
			updateWorkspace(input: {id: $w, slug: "renamed"}) { errors { message } } }`, "w", ada.workspace.ID())
		if !strings.Contains(r.text, `"errors":[]`) {
			t.Fatal(r.text)
		}
		must.Value(b.Domains.Remove(t.Context(), ada.workspace, domainID))(t)
		note("https://ada.example/3", "https://eve.example/0", "")
		verify(eve)
		for i := 1; i <= 3; i++ {
			update(eve, eves, fmt.Sprint("https://eve.example/", i))
			update(ada, adas, fmt.Sprint("https://ada.example/", 3+i))
			ofEve := fmt.Sprint("https://eve.example/", i)
			note(fmt.Sprint("https://ada.example/", 3+i), ofEve, ofEve)
		}
		for _, m := range moments {
			for name, p := range map[string]person{"ada": ada, "eve": eve} {
				for _, address := range addresses {
					if got, want := b.resolvedURL(t, p.token, address, m.at), m.seen[name+" "+address]; got != want {
						t.Errorf("%s for %s at %s: %q, want %q", address, name, m.at, got, want)
					}
				}
			}
		}
		last := moments[len(moments)-1].at
		if got := b.resolvedURL(t, ada.token, "http://sho.rt/renamed/promo?utm=1",
			last); got != "https://ada.example/6" {
			t.Errorf("below the new slug: %q", got)
		}
		for _, c := range []struct{ name, token, address, want string }{
			{"no URL", ada.token, "no URL", ""}, {"anonymous", "", addresses[0], "UNAUTHENTICATED"},
		} {
			if got := b.resolvedURL(t, c.token, c.address, last); got != c.want {
				t.Errorf("%s: %q", c.name, got)
			}
		}
		if got := b.resolvedURL(t, ada.token, addresses[0], time.Now().Add(time.Hour)); got != "INVALID_INPUT" {
			t.Errorf("in the future: %q", got)
		}
		must.Value(b.db.NewDelete().Table("link_versions").Where("number <= 2").Exec(db.AsSystem(t.Context())))(t)
		if got := b.resolvedURL(t, ada.token, addresses[0], moments[2].at); got != "EXPIRED" {
			t.Errorf("a version that was dropped: %q", got)
		}
	})
}

// failed is a part of a payload with an error.
func failed(code, field string) string {
	return fmt.Sprintf(`"errors":[{"code":%q,"field":[%q]}]`, code, field)
}

// TestScheduleLinkChange_OverTheAPI: payloads, pending changes, and their errors.
func TestScheduleLinkChange_OverTheAPI(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		l, _, err := b.Creation.Create(t.Context(), ada.workspace, creation.Input{
			URL: "https://example.com/a", Strategy: new(link.Random), Tags: []string{"old"},
		})
		must.NoError(t, err)
		const schedule = `mutation ($id: ID!, $at: Time!, $change: LinkChangeInput!) {
			scheduleLinkChange(input: {linkId: $id, at: $at, change: $change}) {
				scheduledChange { id at createdBy { name } changes { field before after } }
				link { scheduledChanges { id } } errors { code field } } }`
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
		change := map[string]any{"url": "https://example.com/b", "tags": []string{"new"}, "title": nil}
		var got struct {
			ScheduleLinkChange struct {
				ScheduledChange struct{ ID string }
			}
		}
		r := b.ask(t, ada.token, schedule, "id", l.ID, "at", at, "change", change)
		if err := json.Unmarshal(r.Data, &got); err != nil {
			t.Fatal(r.text)
		}
		changeID := got.ScheduleLinkChange.ScheduledChange.ID
		for _, part := range []string{
			`"at":"` + at + `"`, `"createdBy":{"name":"ada"}`, `"scheduledChanges":[{"id":"` + changeID + `"}]`,
			`{"field":"url","before":"\"https://example.com/a\"","after":"\"https://example.com/b\""}`,
			`{"field":"title","before":"null","after":"null"}`, `{"field":"tags","before":"[\"old\"]",` +
				`"after":"[\"new\"]"}`,
		} {
			if !strings.Contains(r.text, part) {
				t.Errorf("%s is missing: %s", part, r.text)
			}
		}
		for name, c := range map[string]struct {
			token, id, at string
			change        map[string]any
			want          string
		}{
			"another tenant's": {eve.token, l.ID, at, change, failed("NOT_FOUND", "linkId")},
			"unknown": {eve.token, "lnk_00000000000000000000000000", at, change,
				failed("NOT_FOUND", "linkId")},
			"in the past": {ada.token, l.ID, "2020-01-01T00:00:00Z", change, failed("INVALID_INPUT", "at")},
			"empty":       {ada.token, l.ID, at, map[string]any{}, failed("INVALID_INPUT", "change")},
			"no template": {ada.token, l.ID, at,
				map[string]any{"routing": map[string]any{"utm": map[string]any{"templateId": "utm_x"}}},
				`"errors":[{"code":"NOT_FOUND","field":["change","routing","utm","templateId"]}]`},
			"a bad URL": {ada.token, l.ID, at, map[string]any{"url": "x"},
				`"errors":[{"code":"INVALID_URL","field":["change","url"]}]`},
		} {
			if r := b.ask(t, c.token, schedule, "id", c.id, "at", c.at, "change", c.change); !strings.Contains(r.text,
				c.want) {
				t.Errorf("%s: %s", name, r.text)
			}
		}
		const cancel = `mutation ($id: ID!) { cancelLinkChange(input: {id: $id}) {
			link { scheduledChanges { id } } errors { code field } } }`
		for _, step := range []struct{ name, token, id, want string }{
			{"another tenant's", eve.token, changeID, `"errors":[{"code":"NOT_FOUND","field":["id"]}]`},
			{"no id", ada.token, "x", `"errors":[{"code":"NOT_FOUND","field":["id"]}]`},
			{"own", ada.token, changeID, `{"link":{"scheduledChanges":[]},"errors":[]}`},
			{"again", ada.token, changeID, `"errors":[{"code":"NOT_FOUND","field":["id"]}]`},
		} {
			if r := b.ask(t, step.token, cancel, "id", step.id); !strings.Contains(r.text, step.want) {
				t.Errorf("%s: %s", step.name, r.text)
			}
		}
	})
}

package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
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
	if err := json.Unmarshal(r.Data, &got); err != nil || r.Codes() != "" {
		return r.Codes()
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
		people := map[string]person{"ada": b.person(t, "ada"), "eve": b.person(t, "eve")}
		ada, eve := people["ada"], people["eve"]
		addresses := []string{"http://sho.rt/ada/promo", "http://sho.rt/eve/promo", "https://go.example.com/promo"}
		urls := map[string]string{}
		type moment struct {
			at         time.Time
			adas, eves []string // the URLs of the addresses
		}
		var moments []moment
		note := func(host string) {
			now := moment{db.Instant(time.Now()), []string{urls["ada"], "", ""}, []string{"", urls["eve"], ""}}
			switch host {
			case "ada":
				now.adas[2] = urls["ada"]
			case "eve":
				now.eves[2] = urls["eve"]
			}
			moments = append(moments, now)
			polltest.Elapse(time.Millisecond) // instants are in microseconds
		}
		verify := func(p person) string {
			t.Helper()
			added := must.Value(b.Domains.Add(t.Context(), p.workspace, "go.example.com", domain.Codes{}))(t)
			dns.text = added.RecordValue()
			must.Value(b.Domains.Verify(t.Context(), p.workspace, added.ID))(t)
			return added.ID
		}
		links := map[string]*link.Link{}
		update := func(of, url string) {
			t.Helper()
			urls[of] = url
			change := linkfield.Change{ID: links[of].ID, URL: optional.Set(url)}
			must.Value(b.Edit.Update(t.Context(), people[of].workspace, change))(t)
		}
		note("")
		for name, p := range people {
			urls[name] = "https://" + name + ".example/0"
			links[name] = b.create(t, p.workspace, creation.Input{URL: urls[name], CustomCode: new("promo")})
		}
		note("")
		domainID := verify(ada)
		note("ada")
		update("ada", "https://ada.example/1")
		note("ada")
		r := b.ask(t, ada.token, `mutation ($w: ID!) {
			updateWorkspace(input: {id: $w, slug: "renamed"}) { errors { message } } }`, "w", ada.workspace.ID())
		if !strings.Contains(r.Text, `"errors":[]`) {
			t.Fatal(r.Text)
		}
		must.Value(b.Domains.Remove(t.Context(), ada.workspace, domainID))(t)
		note("")
		verify(eve)
		update("eve", "https://eve.example/1")
		update("ada", "https://ada.example/2")
		note("eve")
		for _, m := range moments {
			for i, address := range addresses {
				got := []string{b.resolvedURL(t, ada.token, address, m.at), b.resolvedURL(t, eve.token, address, m.at)}
				if want := []string{m.adas[i], m.eves[i]}; !slices.Equal(got, want) {
					t.Errorf("%s for ada and eve at %s: %q, want %q", address, m.at, got, want)
				}
			}
		}
		last := moments[len(moments)-1].at
		for _, c := range []struct {
			token, address string
			at             time.Time
			want           string
		}{
			{ada.token, "http://sho.rt/renamed/promo?utm=1", last, "https://ada.example/2"},
			{ada.token, "no URL", last, ""}, {"", addresses[0], last, "UNAUTHENTICATED"},
			{ada.token, addresses[0], time.Now().Add(time.Hour), "INVALID_INPUT"},
		} {
			if got := b.resolvedURL(t, c.token, c.address, c.at); got != c.want {
				t.Errorf("%s at %s: %q, want %q", c.address, c.at, got, c.want)
			}
		}
		must.Value(b.db.NewDelete().Table("link_versions").Where("number = 1").Exec(db.AsSystem(t.Context())))(t)
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
		l := b.create(t, ada.workspace, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random),
			Fields: linkfield.Change{Tags: optional.Set([]string{"old"})}})
		const schedule = `mutation ($id: ID!, $at: Time!, $change: LinkChangeInput!) {
			scheduleLinkChange(input: {linkId: $id, at: $at, change: $change}) {
				scheduledChange { id at createdBy { name } changes { field before after } }
				link { scheduledChanges { id } } errors { code field } } }`
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
		change := map[string]any{"url": "https://example.com/b", "tags": []string{"new"}, "title": nil}
		r := b.ask(t, ada.token, schedule, "id", l.ID, "at", at, "change", change)
		changeID := regexp.MustCompile(`sch_\w{26}`).FindString(r.Text)
		for _, part := range []string{
			`"at":"` + at + `"`, `"createdBy":{"name":"ada"}`, `"scheduledChanges":[{"id":"` + changeID + `"}]`,
			`{"field":"url","before":"\"https://example.com/a\"","after":"\"https://example.com/b\""}`,
			`{"field":"title","before":"null","after":"null"}`, `{"field":"tags","before":"[\"old\"]",` +
				`"after":"[\"new\"]"}`,
		} {
			if !strings.Contains(r.Text, part) {
				t.Errorf("%s is missing: %s", part, r.Text)
			}
		}
		template := map[string]any{"routing": map[string]any{"utm": map[string]any{"templateId": "utm_x"}}}
		for name, c := range map[string]struct {
			token, id string
			change    map[string]any
			want      string
		}{
			"another tenant's": {eve.token, l.ID, change, failed("NOT_FOUND", "linkId")},
			"unknown":          {eve.token, "lnk_00000000000000000000000000", change, failed("NOT_FOUND", "linkId")},
			"no template": {ada.token, l.ID, template,
				`"errors":[{"code":"NOT_FOUND","field":["change","routing","utm","templateId"]}]`},
		} {
			r := b.ask(t, c.token, schedule, "id", c.id, "at", at, "change", c.change)
			if !strings.Contains(r.Text, c.want) {
				t.Errorf("%s: %s", name, r.Text)
			}
		}
		const cancel = `mutation ($id: ID!) { cancelLinkChange(input: {id: $id}) {
			link { scheduledChanges { id } } errors { code field } } }`
		for _, step := range []struct{ name, token, id, want string }{
			{"another tenant's", eve.token, changeID, failed("NOT_FOUND", "id")},
			{"no id", ada.token, "x", failed("NOT_FOUND", "id")},
			{"own", ada.token, changeID, `{"link":{"scheduledChanges":[]},"errors":[]}`},
		} {
			if r := b.ask(t, step.token, cancel, "id", step.id); !strings.Contains(r.Text, step.want) {
				t.Errorf("%s: %s", step.name, r.Text)
			}
		}
	})
}

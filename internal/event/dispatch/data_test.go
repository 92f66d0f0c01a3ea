package dispatch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// linkText has characters that package json escapes, and those that JSON requires to be escaped.
const linkText = "a<b>&\"\\\u2028\\u2028\u00e9"

// TestDispatcher_SendsEvents about a link, about one that is not there and about a domain, with the
// actor's id.
func TestDispatcher_SendsEvents(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.LinkPurged, audit.DomainLost)
		linkID := b.storeLink(t)
		at := dbtest.Noon.Add(time.Millisecond)
		events := []*audit.Event{
			audit.New(b.m.ID(), "usr_1", audit.LinkUpdated, linkID, nil, at).WithOperation(new("op_1")).
				WithChanges([]*audit.FieldChange{
					{Field: "title", Before: new("null"), After: new(`"<\u2028>"`)}, {Field: "url", Omitted: true},
				}),
			audit.New(b.m.ID(), "", audit.LinkPurged, newLinkID(), nil, at),
			audit.New(b.m.ID(), "", audit.DomainLost, "dom_1", nil, at),
		}
		b.writeEvents(t, events...)
		b.readEvents(t, w, 3)
		b.send(t, w)
		b.send(t, w) // of a new webhook, two deliveries are sent at once
		const empty = `"actorId":null,"operationId":null,"changes":[],"link":null`
		want := map[string]string{}
		for i, data := range []string{`"actorId":"usr_1","operationId":"op_1","changes":[` +
			`{"field":"title","before":"null","after":"\"<\\u2028>\"","omitted":false},` +
			`{"field":"url","before":null,"after":null,"omitted":true}],"link":` +
			strings.TrimSuffix(b.linkData(linkID), "}") + `,"version":1}`, empty, empty} {
			e, instant := events[i], at.Format(time.RFC3339Nano)
			want[e.ID] = fmt.Sprintf(`{"type":%q,"timestamp":%q,"workspaceId":%q,"data":`+
				`{"id":%q,"type":%q,"at":%q,%s}}`,
				strings.Replace(strings.ToLower(string(e.Action)), "_", ".", 1), instant, b.m.ID(),
				e.ID, e.Action, instant, data)
		}
		got := map[string]string{}
		for _, request := range r.got() {
			got[request.header.Get("webhook-id")] = request.body
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("bodies (-want +got):\n%s", diff)
		}
	})
}

// storeLink stores a link with linkText and returns its id.
func (b *bundle) storeLink(t *testing.T) string {
	t.Helper()
	linkID := newLinkID()
	b.insertLink(t, linkID)
	b.exec(t, "UPDATE links SET external_id = ?", linkText)
	return linkID
}

// linkData is the data of a link of storeLink.
func (b *bundle) linkData(linkID string) string {
	return fmt.Sprintf(`{"id":%q,"externalId":"a<b>&\"\\%s\\u2028%s","shortUrl":"http://sho.rt/%s"}`, linkID, "\u2028",
		"\u00e9", linkID)
}

// TestDispatcher_SendsClicks with all fields of the type Click, one without a link.
func TestDispatcher_SendsClicks(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		linkID, at := b.storeLink(t), b.clock.Now()
		clicks := clicktest.New(t, b.DB, b.clock.Now)
		clicktest.Run(t, clicks.Recorder)
		for _, c := range []*click.Click{
			{LinkID: linkID, Status: 302, RuleID: "rul_1", TargetID: "tgt_1", QRSource: "poster", Visit: visitor.Visit{
				Referrer: "ref.example", Country: "DE", Device: "mobile", Browser: "Chrome", OS: "iOS", Language: "de",
				Source: "s<", Medium: "m&", Campaign: "c", Term: "t\"", Content: "o", Bot: true,
			}}, {LinkID: newLinkID(), Status: 301},
		} {
			c.WorkspaceID, c.ClickedAt = b.m.ID(), at
			clicks.Record(c)
		}
		must.NoError(t, clicks.Flush(t.Context()))
		b.awaitFinal(t)
		b.readClicks(t, w, 1)
		b.send(t, w)
		var body struct {
			Data struct{ Clicks []json.RawMessage }
		}
		must.NoError(t, json.Unmarshal([]byte(b.last(t, r, 1).body), &body))
		got := []string{}
		for _, data := range body.Data.Clicks {
			var one map[string]any
			must.NoError(t, json.Unmarshal(data, &one))
			checkFields(t, one)
			got = append(got, strings.Replace(string(data), fmt.Sprintf("%q", one["id"]), `"clk"`, 1))
		}
		slices.Sort(got)
		start := fmt.Sprintf(`{"id":"clk","at":%q,"status":`, at.Format(time.RFC3339Nano))
		if diff := cmp.Diff([]string{
			start + `301,"bot":false,"country":null,"device":null,"browser":null,"os":null,"language":null,` +
				`"referrer":null,"utmSource":null,"utmMedium":null,"utmCampaign":null,"utmTerm":null,` +
				`"utmContent":null,"qrSource":null,"ruleId":null,"targetId":null,"link":null}`,
			start + `302,"bot":true,"country":"DE","device":"mobile","browser":"Chrome","os":"iOS","language":"de",` +
				`"referrer":"ref.example","utmSource":"s<","utmMedium":"m&","utmCampaign":"c","utmTerm":"t\"",` +
				`"utmContent":"o","qrSource":"poster","ruleId":"rul_1","targetId":"tgt_1","link":` +
				b.linkData(linkID) + "}",
		}, got); diff != "" {
			t.Errorf("clicks (-want +got):\n%s", diff)
		}
	})
}

// checkFields compares the names in a click's data with the fields of the type Click.
func checkFields(t *testing.T, data map[string]any) {
	t.Helper()
	schema := must.Value(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	for _, f := range schema.Types["Click"].Fields {
		if _, ok := data[f.Name]; !ok {
			t.Errorf("deliveries of clicks have no %s", f.Name)
		}
	}
}

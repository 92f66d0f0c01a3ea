package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

var costLeft = regexp.MustCompile(`"cost";r=(\d+)`)

// askBill sends an operation, and returns the points that it took from the caller's budget: what
// remains is in the headers of the response, and of one before it.
func (b *bundle) askBill(t *testing.T, token, query string, variables map[string]any) (int, reply) {
	t.Helper()
	left := func(r reply, otherwise int) int {
		if found := costLeft.FindStringSubmatch(strings.Join(r.Header.Values("RateLimit"), ", ")); found != nil {
			return must.Value(strconv.Atoi(found[1]))(t)
		}
		return otherwise
	}
	before := left(b.ask(t, token, "{ __typename }"), 0)
	body := must.Value(json.Marshal(map[string]any{"query": query, "variables": variables}))(t)
	r := b.send(t, token, http.MethodPost, "/", "application/json", string(body), mediaGraphQL)
	after := left(r, before)
	if after > before { // another minute
		before = int(b.CostRate)
	}
	return before - after, r
}

// TestCost_IsInTheHeaders compares what operations take from the budget.
func TestCost_IsInTheHeaders(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	for i := range 3 {
		b.link(t, ada, fmt.Sprintf("https://example.com/%d", i))
	}
	for name, c := range map[string]struct {
		query string
		want  int
	}{
		"a field":          {`{ __typename }`, 1},
		"what is left out": {`{ me { id name @skip(if: true) } }`, 2},
		"a repeated field": {`{ me { id } me { id } }`, 4},
		"null":             {`{ node(id: "x") { id __typename } }`, 5},
		"a page": {`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 50) { edges { node { id ` +
			`code } } } } }`, 1 + 1 + 50*4},
		"a page that is full": {`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 3) { edges { node { id } ` +
			`} } } }`, 1 + 1 + 3*3},
		"long texts": {`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 2) { edges { node { ` +
			`originalUrl } } } } }`, 1 + 1 + 2*7},
		"changes": {
			`query ($w: ID!) { workspace(by: {id: $w}) { events(first: 2) { edges { node { changes { before after ` +
				`} } } } } }`, 1 + 1 + 2*(1+1+1+3*10)},
		"of the right type": {`query ($w: ID!) { node(id: $w) { ... on Workspace { slug } ... on Link { code ` +
			`title } } }`, 7},
		"a batch": {`mutation ($w: ID!) { createLinks(input: {workspaceId: $w, links: [{url: ` +
			`"https://example.com/0"}, {url: "nothing"}]}) { results { created errors { code } } } }`, 1 + 2},
		"stats":                {`query ($w: ID!) { workspace(by: {id: $w}) { stats { clicks } } }`, 1 + 20 + 1},
		"what the schema says": {`{ __schema { queryType { name } } }`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, b.db, func(c *Config) { c.Introspection = true })
			variables := map[string]any{"w": ada.workspace.ID()}
			if !strings.Contains(c.query, "$w") {
				variables = nil
			}
			if got, r := b.askBill(t, ada.token, c.query, variables); got != c.want || len(r.Errors) > 0 {
				t.Errorf("%d points, want %d: %s", got, c.want, r.Text)
			}
		})
	}
}

// TestCost_IsTakenFromTheCallersBudget spends one caller's points, and none of another's.
func TestCost_IsTakenFromTheCallersBudget(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.CostRate = 20 })
	ada, eve := b.person(t, "ada").token, b.person(t, "eve").token
	const query = `{ rateLimit { limit cost remaining resetsAt } }`
	for left := int64(15); left >= 0; left -= 5 {
		r := b.ask(t, ada, query)
		var got struct {
			RateLimit struct {
				Limit, Cost, Remaining int64
				ResetsAt               time.Time
			}
		}
		must.NoError(t, json.Unmarshal(r.Data, &got))
		until := time.Until(got.RateLimit.ResetsAt)
		if got.RateLimit.Limit != 20 || got.RateLimit.Cost != 5 || got.RateLimit.Remaining != left ||
			until < 30*time.Second || until > 61*time.Second {
			t.Errorf("%d left: %s", left, r.Text)
		}
		policy, state := r.Header.Values("RateLimit-Policy"), r.Header.Values("RateLimit")
		if !slices.Contains(policy, `"cost";q=20;w=60`) ||
			!strings.HasPrefix(state[len(state)-1], fmt.Sprintf(`"cost";r=%d;t=`, left)) {
			t.Errorf("%d left: headers %v", left, r.Header)
		}
	}
	r := b.ask(t, ada, "{ __typename }")
	if r.Status != http.StatusTooManyRequests || r.Codes() != "RATE_LIMITED" ||
		!strings.Contains(r.Text, "20 points") ||
		!strings.Contains(r.Text, `"retryAfter":`+r.Header.Get("Retry-After")) || r.Data != nil {
		t.Errorf("one too many: %d %v %s", r.Status, r.Header, r.Text)
	}
	for _, token := range []string{eve, ""} {
		if r := b.ask(t, token, query); len(r.Errors) > 0 || !strings.Contains(r.Text, `"remaining":15`) {
			t.Errorf("another caller: %s", r.Text)
		}
	}
}

func TestCost_OfRefusedOperationsIsZero(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	for _, query := range []string{"{ nothing }",
		"{ me { workspaces(first: 100) { edges { node { links(first: 100) { edges { node { id } } } } } } } }", "{"} {
		if r := b.ask(t, "", query); len(r.Errors) == 0 {
			t.Errorf("%s: %s", query, r.Text)
		}
	}
	if r := b.ask(t, "", "{ rateLimit { remaining } }"); !strings.Contains(r.Text,
		fmt.Sprintf(`"remaining":%d}`, b.CostRate-2)) {
		t.Error(r.Text)
	}
}

func TestCost_WithoutLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) {
		c.CostRate, c.Meter = 1,
			ratelimit.NewMeter(ratelimit.Limiter{Off: true}, time.Now)
	})
	r := b.ask(t, "", `{ rateLimit { limit cost remaining resetsAt } }`)
	want := `{"data":{"rateLimit":{"limit":null,"cost":5,"remaining":null,"resetsAt":null}}}`
	if r.Text != want || r.Header.Get("RateLimit") != "" {
		t.Errorf("%v %s", r.Header, r.Text)
	}
}

// costs expects the cost of an operation whose variables are the link's id and the workspace's.
func (b *bundle) costs(t *testing.T, p person, id, operation string, want int) {
	t.Helper()
	variables := map[string]any{}
	for name, value := range map[string]string{"id": id, "w": p.workspace.ID()} {
		if strings.Contains(operation, "$"+name) {
			variables[name] = value
		}
	}
	if got, r := b.askBill(t, p.token, operation, variables); len(r.Errors) > 0 || got != want {
		t.Errorf("%s: %d points, want %d: %s", operation, got, want, r.Text)
	}
}

// TestCost_KeepsWhatIsDone: a budget that the lists of an answer exceed does not take the result of a
// mutation away.
func TestCost_KeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	links := []any{map[string]any{"url": "https://example.com/"},
		map[string]any{"url": "ftp://x", "customCode": "a b", "externalId": "", "redirectStatus": 999}}
	create := func(rate int64) (int, reply) {
		b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.CostRate = rate })
		ada := b.person(t, "ada")
		return b.askBill(t, ada.token, `mutation ($w: ID!, $links: [NewLinkInput!]!) {
			createLinks(input: {workspaceId: $w, links: $links}) { results { shortUrl errors { code message } } } }`,
			map[string]any{"w": ada.workspace.ID(), "links": links})
	}
	whole, _ := create(1000)
	_, r := create(int64(whole) - 1) // enough before it is executed
	if len(r.Errors) > 0 || !strings.Contains(r.Text, `"shortUrl":"http`) || !strings.Contains(r.Text, "INVALID_URL") {
		t.Errorf("of %d points: %s", whole, r.Text)
	}
}

// TestCost_ChargesPendingChanges: a change that could break them costs more for each.
func TestCost_ChargesPendingChanges(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	l := b.create(t, ada.workspace,
		creation.Input{URL: "https://example.com/", Strategy: new(link.Random),
			Fields: linkfield.Change{ExternalID: optional.Set(new("1"))}})
	for i := range 3 {
		at := time.Now().Add(time.Duration(i+1) * time.Hour)
		c := linkfield.Change{Title: optional.Set(new("a"))}
		must.Value(b.Schedule.Add(t.Context(), ada.workspace, l.ID, at, c))(t)
	}
	for _, c := range []struct {
		mutation string
		want     int
	}{
		{`($id: ID!) { updateLink(input: {id: $id, title: "b"}) { link { id } } }`, 12},
		{`($id: ID!) { updateLink(input: {id: $id, url: "https://example.com/b"}) { link { id } } }`,
			12 + 3*pendingCost},
		{`($id: ID!, $w: ID!) { updateLinks(input: {workspaceId: $w, links: [{id: $id, redirectStatus: 301}]}) {
			operationId } }`, 2 + 3*pendingCost},
		{`($w: ID!) { upsertLinks(input: {workspaceId: $w, links: [{externalId: "1",
			url: "https://example.com/b", maxClicks: 3}]}) { operationId } }`, 2 + 3*pendingCost},
		{`($id: ID!) { revertLink(input: {id: $id, version: 1}) { link { id } } }`, 12 + 3*pendingCost},
	} {
		b.costs(t, ada, l.ID, "mutation "+c.mutation, c.want)
	}
}

// TestCost_ChargesStoredRoutings: reading or changing links with large routings costs more, by their stored size.
func TestCost_ChargesStoredRoutings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.Links.Passwords = account.NewLinkPasswords(bcrypt.MinCost)
		ada := b.person(t, "ada")
		w := ada.workspace.ID()
		r := b.ask(t, ada.token, createAll, "in", map[string]any{"workspaceId": w, "links": []any{
			map[string]any{"url": "https://example.com/", "externalId": "1",
				"routing": map[string]any{"rules": rules(40, 1, 25, "country")}}}})
		routed := linkID.FindString(r.Text)
		size := must.Value(b.LinkList.SizeOf(t.Context(), ada.workspace, linklist.Keys{IDs: []string{routed}},
			linklist.Keys{}))(t)
		read, changed := 40*(valuesPerTarget+1+25)/workPerReadPoint, int(size.RoutingBytes)/storedBytesPerPoint
		if read == 0 || changed == 0 {
			t.Fatalf("%s: %+v", r.Text, size)
		}
		for _, c := range []struct {
			operation string
			want      int
		}{
			{`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 1) { edges { node { code } } } } }`,
				5 + read},
			{`query ($id: ID!) { node(id: $id) { ... on Link { code } } }`, 5 + read},
			{
				`query ($id: ID!) { node(id: $id) { ... on Link { versions(first: 1) { edges { node { number } }
				} } } }`, 18 + 2*read},
			{`mutation ($id: ID!) { updateLink(input: {id: $id, title: "b"}) { link { code } } }`,
				12 + changed},
			{
				`mutation ($id: ID!) { updateLink(input: {id: $id, routing: {gate: {password: "correct horse"}}}) {
				link { code } } }`, 12 + changed + passwordCost},
			{
				`query ($id: ID!) { explainRedirect(by: {id: $id}, routing: {gate: {password: "correct horse"}}) {
				status } }`,
				1 + 25},
			{
				`mutation ($id: ID!, $w: ID!) { updateLinks(input: {workspaceId: $w, links: [{id: $id, note: "n"}]}) {
				operationId } }`, 2 + changed},
			{`mutation ($w: ID!) { upsertLinks(input: {workspaceId: $w, links: [{externalId: "1",
				url: "https://example.com/"}]}) { operationId } }`, 2 + changed},
		} {
			b.costs(t, ada, routed, c.operation, c.want)
		}
	})
}

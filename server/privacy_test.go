package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/kv"
)

// everything is what the database holds, a row a line.
func everything(t *testing.T, b backend) (rows []string) {
	t.Helper()
	d, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tables := map[db.Kind]string{
		db.Postgres: "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'migrations'",
		db.SQLite:   "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'link_search%'",
	}[d.Kind]
	var names []string
	if err := d.NewRaw(tables).Scan(t.Context(), &names); err != nil {
		t.Fatal(err)
	}
	for _, table := range names {
		ctx := db.AsSystem(t.Context())
		if table == "instance" || table == "counters" {
			ctx = t.Context() // of which the system needs nothing
		}
		var all []map[string]any
		if err := d.NewSelect().Table(table).ColumnExpr("*").Scan(ctx, &all); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		for _, row := range all {
			rows = append(rows, fmt.Sprintf("%s %s", table, row))
		}
	}
	return rows
}

// inRedis is what Redis holds, keys and values.
func inRedis(t *testing.T) (all []string) {
	t.Helper()
	k, err := kv.Open(os.Getenv(dbtest.RedisURL), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	keys, err := k.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		value, _ := k.Get(t.Context(), key).Result() // one may have ended
		all = append(all, key+" "+value)
	}
	return all
}

// TestAnAccountGoesForGood: what is personal is nowhere any more, in no table, log or cache, and what was made for others
// stays with them.
func TestAnAccountGoesForGood(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LOG_LEVEL=debug")
		host, who := s.tenant(t, "hostess"), s.tenant(t, "leaving")
		const agent = "VeryOwnBrowser/1.0"
		if a, err := (client{server: s}).post([]byte(fmt.Sprintf(`{"query":"mutation { login(input: {email: \"%s\", password: \"%s\"}) { token } }"}`,
			who.email, who.password)), "User-Agent", agent); err != nil || a.status != http.StatusOK {
			t.Fatalf("%+v, %v", a, err)
		}
		// They are invited by somebody, and invite others, and make a link and a key.
		var invited struct{ InviteMember struct{ Token string } }
		const invite = `mutation ($w: ID!, $e: EmailAddress!, $r: Role!) { inviteMember(input: {workspaceId: $w, email: $e, role: $r}) { token errors { code } } }`
		host.must(t, &invited, invite, map[string]any{"w": host.workspaceID, "e": who.email, "r": "ADMIN"})
		who.must(t, &struct{}{}, `mutation ($t: String!) { acceptInvitation(input: {token: $t}) { errors { code } } }`, map[string]any{"t": invited.InviteMember.Token})
		guest := who
		guest.workspaceID = host.workspaceID
		l := guest.shorten(t, "https://example.com/by-a-guest")
		key, _ := guest.key(t, "LINKS_READ")
		who.must(t, &invited, invite, map[string]any{"w": host.workspaceID, "e": "friend@example.com", "r": "VIEWER"})
		who.must(t, &struct{}{}, `mutation ($e: EmailAddress!) { requestPasswordReset(input: {email: $e}) { requested } }`, map[string]any{"e": who.email})

		var export struct {
			ExportMyData struct {
				Data   string
				Next   *string
				Errors []mend
			}
		}
		var data strings.Builder
		variables := map[string]any{"p": who.password, "a": nil}
		for parts := 0; ; parts++ {
			who.must(t, &export, `mutation ($p: String!, $a: String) { exportMyData(input: {password: $p, after: $a}) { data next errors { code } } }`, variables)
			if !json.Valid([]byte(export.ExportMyData.Data)) || parts > 5 {
				t.Fatalf("%+v", export)
			}
			data.WriteString(export.ExportMyData.Data)
			if export.ExportMyData.Next == nil {
				break
			}
			variables["a"], export.ExportMyData.Next = *export.ExportMyData.Next, nil
		}
		for _, own := range []string{who.email, who.id, agent, "leaving", "hostess", l.Link.ID, "https://example.com/by-a-guest", "friend@example.com", "LINK_CREATED", `"name":"CI"`} {
			if !strings.Contains(data.String(), own) {
				t.Errorf("the export lacks %s", own)
			}
		}
		if strings.Contains(data.String(), host.email) || strings.Contains(data.String(), "$2") {
			t.Errorf("the export has what is not theirs: %s", data.String())
		}

		remove := func(password string) (got struct {
			DeleteMyAccount struct {
				Deleted bool
				Errors  []mend
			}
		}) {
			who.must(t, &got, `mutation ($p: String!) { deleteMyAccount(input: {password: $p}) { deleted errors { code message field } } }`, map[string]any{"p": password})
			return got
		}
		if got := remove("not the password").DeleteMyAccount; got.Deleted || len(got.Errors) != 1 || got.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("with a wrong password: %+v", got)
		}
		if got := remove(who.password).DeleteMyAccount; got.Deleted || len(got.Errors) != 1 || got.Errors[0].Code != "LAST_OWNER" || !strings.Contains(got.Errors[0].Message, "leaving") {
			t.Errorf("the last owner: %+v", got)
		}
		who.must(t, &struct{}{}, `mutation ($w: ID!) { deleteWorkspace(input: {id: $w}) { errors { code } } }`, map[string]any{"w": who.workspaceID})
		if got := remove(who.password).DeleteMyAccount; !got.Deleted {
			t.Fatalf("%+v", got)
		}

		places := everything(t, b)
		if b.nodes > 1 {
			places = append(places, inRedis(t)...)
		}
		places = append(places, "the log "+content(t, s.err))
		for _, place := range places {
			for _, personal := range []string{who.email, agent, "Person of leaving", "friend@example.com"} {
				if strings.Contains(strings.ToLower(place), strings.ToLower(personal)) {
					t.Errorf("%s is left in %.600s", personal, place)
				}
			}
		}
		if a, err := who.run(`{ me { id } }`, nil); err != nil || a.status != http.StatusUnauthorized {
			t.Errorf("the token: %+v, %v", a, err)
		}
		if got := s.login(t, who); len(got.Errors) != 1 || got.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("the log-in: %+v", got)
		}
		s.expect(t, http.StatusFound, http.MethodGet, l.Link.path(s))
		key.must(t, &struct{}{}, `{ __typename }`, nil)
		var after struct {
			Link struct{ CreatedBy *struct{ ID string } }
		}
		host.must(t, &after, `query ($id: ID!) { link(by: {id: $id}) { createdBy { id } } }`, map[string]any{"id": l.Link.ID})
		if after.Link.CreatedBy != nil {
			t.Errorf("the link is still %+v's", after.Link.CreatedBy)
		}
	})
}

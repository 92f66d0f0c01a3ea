package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

const (
	slackbot  = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"
	browserOK = "text/html,application/xhtml+xml"
	formType  = "application/x-www-form-urlencoded"
)

// submit sends a form as a browser does.
func (s *server) submit(t *testing.T, path, form string, headers ...string) answer {
	t.Helper()
	a := must.Value(s.request("POST", path, form, slices.Concat(
		[]string{"Content-Type", formType, "User-Agent", desktopChrome, "Accept", browserOK, "Origin", s.public},
		headers)...))(t)
	return a
}

func wantStatus(t *testing.T, what string, a answer, status int) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %.300s", what, a.status, status, a.body)
	}
}

// pass returns the Cookie header of a response that has set a pass.
func pass(t *testing.T, a answer) string {
	t.Helper()
	cookie, attributes, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if !strings.HasPrefix(cookie, "lf_g=") || !strings.Contains(attributes, "HttpOnly") ||
		!strings.Contains(attributes, "SameSite=Lax") || !strings.Contains(attributes, "Max-Age=3600") {
		t.Errorf("Set-Cookie: %q", a.header.Get("Set-Cookie"))
	}
	return cookie
}

// TestGate_RevealsNothingBeforeThePass looks for each part of the destination in all responses before the
// pass, and passes in each way.
func TestGate_RevealsNothingBeforeThePass(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "gated")
		const target, password = "https://zebra-host.example/zebra-path?zebra-query", "correct horse ü"
		gated := map[string]any{
			"gate":        map[string]any{"password": password, "notice": "For <b>staff</b> only."},
			"rules":       []any{map[string]any{"targets": []any{map[string]any{"url": target}}}},
			"forwardPath": true,
		}
		l := who.shorten(t, "https://zebra-own.example/", "title", "zebra title", "customCode", "gated", "routing",
			gated).Link
		other := who.shorten(t, "https://other.example/", "customCode", "other", "routing",
			gatedBy(password)).Link
		path, form := l.path(s), url.Values{"password": {password}}.Encode()

		before := map[string]answer{
			"GET":                  s.expect(t, 200, "GET", path, "User-Agent", desktopChrome, "Accept", browserOK),
			"GET of a program":     s.expect(t, 200, "GET", path),
			"GET of a preview":     s.expect(t, 200, "GET", path, "User-Agent", slackbot),
			"GET with a query":     s.expect(t, 200, "GET", path+"/a?password="+url.QueryEscape(password)+"&pw=x"),
			"HEAD":                 s.expect(t, 200, "HEAD", path, "X-Link-Password", password),
			"POST of nothing":      s.submit(t, path, ""),
			"POST of confirm":      s.submit(t, path, "confirm=1"),
			"POST of another page": s.submit(t, path, form, "Origin", "https://evil.example"),
			"POST of no page":      s.submit(t, path, form, "Origin", "null"),
			"POST of too much":     s.submit(t, path, form+"&x="+strings.Repeat("x", 5000)),
			"POST of JSON": s.submit(t, path, `{"password": "`+password+`"}`, "Content-Type",
				"application/json"),
		}
		for what, a := range before {
			wantStatus(t, what, a, 200)
		}
		before["a wrong password"] = s.submit(t, path, "password=wrong-horse")
		before["a wrong header"], _ = s.get(path, "X-Link-Password", "wrong-horse")
		wantStatus(t, "a wrong password", before["a wrong password"], 403)
		wantStatus(t, "a wrong header", before["a wrong header"], 403)
		for what, a := range before {
			shown := fmt.Sprint(a.header, a.body)
			if strings.Contains(shown, "zebra") || a.header.Get("Location") != "" || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s reveals the destination: %s", what, shown)
			}
		}
		page := before["GET"]
		policy := page.header.Get("Content-Security-Policy")
		if !strings.Contains(page.body, "For &lt;b&gt;staff&lt;/b&gt; only.") ||
			page.header.Get("Cache-Control") != "no-store" ||
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "form-action") {
			t.Errorf("the page: %v %s", page.header, page.body)
		}

		passed := s.submit(t, path+"/x", form)
		wantStatus(t, "the form", passed, 303)
		if got := passed.header.Get("Location"); got != "https://zebra-host.example/zebra-path/x?zebra-query" {
			t.Errorf("Location %q", got)
		}
		cookie := pass(t, passed)
		wantStatus(t, "the cookie", s.expect(t, 302, "GET", path, "Cookie", cookie), 302)
		program := s.expect(t, 302, "GET", path, "X-Link-Password", password)
		private := s.submit(t, path, form, "DNT", "1")
		wantStatus(t, "a private visitor", private, 303)
		if program.header.Get("Set-Cookie")+private.header.Get("Set-Cookie") != "" {
			t.Error("a program or a private visitor gets a cookie")
		}
		if head := s.expect(t, 302, "HEAD", path, "Cookie", cookie); head.header.Get("Location") != "" {
			t.Error("HEAD reveals the destination")
		}
		s.expect(t, 200, "GET", other.path(s), "Cookie", cookie)
		s.expect(t, 200, "GET", path, "Cookie", cookie+"x")

		who.route(t, l.ID, gatedBy(password)) // no change
		s.expect(t, 302, "GET", path, "Cookie", cookie)
		who.route(t, l.ID, gatedBy("another horse"))
		s.expect(t, 200, "GET", path, "Cookie", cookie)
		s.expect(t, 403, "GET", path, "X-Link-Password", password)
		cookie = pass(t, s.submit(t, path, "password=another+horse"))
		who.route(t, l.ID, map[string]any{"gate": map[string]any{"notice": "For all."}})
		s.expect(t, 200, "GET", path, "Cookie", cookie)
		who.route(t, l.ID, map[string]any{"gate": map[string]any{"password": nil}})
		s.expect(t, 303, "POST", path, "X-Link-Password", "any") // passes a notice
		who.route(t, l.ID, map[string]any{"gate": map[string]any{"notice": nil}})
		s.expect(t, 302, "GET", path)
		s.expect(t, 405, "POST", path)
	})
}

// TestGate_LimitsWrongPasswords guesses on all nodes in turn.
func TestGate_LimitsWrongPasswords(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.alone(t), b.nodes, "LINKFORGE_RATE_LIMITS=on")
		who := nodes[0].tenant(t, "guessed")
		gate := gatedBy("correct horse")
		l := who.shorten(t, "https://example.com/", "customCode", "guessed", "routing", gate).Link
		other := who.shorten(t, "https://example.com/other", "customCode", "spared", "routing", gate).Link
		path := l.path(nodes[0])
		cookie := pass(t, nodes[0].submit(t, path, "password=correct+horse"))
		for i := range 5 {
			wantStatus(t, "a wrong password", nodes[i%len(nodes)].submit(t, path, "password=wrong+horse"), 403)
		}
		for _, s := range nodes {
			for _, password := range []string{"wrong", "correct"} {
				a := s.submit(t, path, "password="+password+"+horse")
				wantStatus(t, "a "+password+" password beyond the limit", a, 429)
				if a.header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			s.expect(t, 302, "GET", path, "Cookie", cookie)
			wantStatus(t, "another link", s.submit(t, other.path(s), "password=correct+horse"), 303)
		}
	})
}

// TestLimitedLink_IsNotUsedUpByPreviews requests links with maxClicks 1 as previews and prefetches do, before the
// visitor.
func TestLimitedLink_IsNotUsedUpByPreviews(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "limited")
		path := who.shorten(t, "https://example.com/once", "customCode", "once", "maxClicks", 1).Link.path(s)
		preview := s.expect(t, 200, "GET", path, "User-Agent", slackbot, "Accept", browserOK)
		if strings.Contains(preview.body, "example.com/once") || !strings.Contains(preview.body, `name="confirm"`) {
			t.Errorf("a preview is shown %s", preview.body)
		}
		if a := s.expect(t, 403, "GET", path, "User-Agent", desktopChrome, "Purpose", "prefetch"); a.body != "" {
			t.Errorf("a prefetch is answered %q", a.body)
		}
		if head := s.expect(t, 302, "HEAD", path); head.header.Get("Location") != "" {
			t.Error("HEAD reveals the destination")
		}
		s.expect(t, 302, "GET", path, "User-Agent", desktopChrome)
		s.expect(t, 410, "GET", path, "User-Agent", slackbot) // an exhausted link shows no form
		wantStatus(t, "a form", s.submit(t, path, "confirm=1"), 410)

		l := who.shorten(t, "https://example.com/preview", "customCode", "previewed", "maxClicks", 1).Link
		path = l.path(s)
		s.expect(t, 200, "HEAD", path, "User-Agent", slackbot)
		wantStatus(t, "the form of a preview", s.submit(t, path, "confirm=1", "User-Agent", slackbot), 303)
		polltest.Until(t, "the click has the status 303", func() bool {
			return who.getLink(t, l.ID).ClickCount == 1
		})
	})
}

// TestGate_PassesBeyondTheQuota: who has given the password need not give it again next month.
func TestGate_PassesBeyondTheQuota(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_HIT_QUOTA=1")
	l := s.tenant(t, "hard").shorten(t, "https://example.com/", "customCode", "quota", "routing",
		gatedBy("correct horse")).Link
	for _, status := range []int{303, 429} {
		a := s.submit(t, l.path(s), "password=correct+horse")
		wantStatus(t, "the password", a, status)
		pass(t, a)
	}
}

// TestGate_PasswordIsNowhereElse changes passwords in each way, and looks for the passwords and their hashes in
// what members and the operator read.
func TestGate_PasswordIsNowhereElse(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "secretive")
		l := who.shorten(t, "https://example.com/", "customCode", "secret", "idempotencyKey", "1",
			"routing", gatedBy("hunter22-one")).Link
		again, err := who.create("https://example.com/", "customCode", "secret", "idempotencyKey", "1", "routing",
			gatedBy("hunter22-two"))
		if err != nil || len(again.Errors) != 1 || again.Errors[0].Code != "IDEMPOTENCY_CONFLICT" {
			t.Errorf("another password under the same key: %+v, %v", again, err)
		}
		who.route(t, l.ID, gatedBy("hunter22-two"))
		history := func() (version int, text string) {
			var data struct {
				Link struct {
					Version  int
					Versions any
				}
			}
			who.must(t, &data,
				`query ($id: ID!) { link(by: {id: $id}) { version versions(first: 50) { edges { node { number
				routing { gate { hasPassword notice } } changes { field before after } } } } } }`,
				map[string]any{"id": l.ID})
			return data.Link.Version, fmt.Sprint(data)
		}
		version, _ := history()
		who.route(t, l.ID, gatedBy("hunter22-two"))
		if after, _ := history(); after != version {
			t.Errorf("the same password is version %d after %d", after, version)
		}
		who.revert(t, l.ID, 1, "") // keeps the password
		s.expect(t, 302, "GET", l.path(s), "X-Link-Password", "hunter22-two")
		who.route(t, l.ID, map[string]any{"gate": nil})
		s.expect(t, 302, "GET", l.path(s))
		who.revert(t, l.ID, 1, "CONFLICT")
		s.expect(t, 302, "GET", l.path(s))
		who.route(t, l.ID, gatedBy("hunter22-six"))

		rows := func(query string) (found []string) {
			d := must.Value(b.open())(t)
			defer d.Close()
			if err := d.NewRaw(query).Scan(db.AsSystem(t.Context()), &found); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			return found
		}
		_, shown := history()
		all := []string{shown}
		for _, query := range []string{
			"SELECT snapshot FROM link_versions", "SELECT CAST(details AS TEXT) FROM audit_events WHERE details IS " +
				"NOT NULL",
			"SELECT answer FROM idempotency_keys", "SELECT CAST(routing AS TEXT) FROM links WHERE routing IS NOT NULL",
			"SELECT CAST(changes AS TEXT) FROM audit_events WHERE changes IS NOT NULL",
		} {
			all = append(all, rows(query)...)
		}
		all = append(all, content(t, s.err), content(t, s.out))
		for _, text := range all {
			if strings.Contains(text, "hunter22") || strings.Contains(text, "$2a$") {
				t.Errorf("a password or its hash is in %.600s", text)
			}
		}
		if len(rows("SELECT password_hash FROM links WHERE password_hash LIKE '$2a$%'")) != 1 || len(all) < 10 {
			t.Errorf("the test found no hash, or too few texts: %d", len(all))
		}
	})
}

// revert reverts a link to a version, and expects an error code or none.
func (w tenant) revert(t *testing.T, linkID string, version int, code string) {
	t.Helper()
	var data struct{ RevertLink struct{ Errors []userError } }
	w.must(t, &data, `mutation ($id: ID!, $v: Int!) { revertLink(input: {id: $id, version: $v}) {
		errors { code message field } } }`, map[string]any{"id": linkID, "v": version})
	got := ""
	if found := data.RevertLink.Errors; len(found) > 0 {
		got = found[0].Code
	}
	if got != code {
		t.Errorf("reverting to version %d: %+v, want %q", version, data.RevertLink.Errors, code)
	}
}

// TestGate_PasswordIsSetByEachMutation sets a password by each mutation that writes a routing.
func TestGate_PasswordIsSetByEachMutation(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "setters")
		l := who.shorten(t, "https://example.com/", "strategy", "RANDOM", "externalId", "set").Link
		opens := func(what, password string) {
			t.Helper()
			polltest.Until(t, what+" sets the password", func() bool {
				a, err := s.get(l.path(s), "X-Link-Password", password)
				return err == nil && a.status == http.StatusFound
			})
			s.expect(t, 403, "GET", l.path(s), "X-Link-Password", password+"x")
		}
		upserted := func(password string) map[string]any {
			return map[string]any{"externalId": "set", "url": "https://example.com/", "routing": gatedBy(password)}
		}
		var got struct {
			UpsertLink, UpsertLinks, UpdateLinks, RevertOperation struct {
				OperationID string
				Outcome     string
				Results     []struct{ Errors []userError }
				Errors      []userError
			}
		}
		mutate := func(name, input, selection string, in map[string]any) {
			t.Helper()
			in["workspaceId"] = who.workspaceID
			who.must(t, &got, fmt.Sprintf(`mutation ($in: %s!) { %s(input: $in) { %s errors { code message field } } }`,
				input, name, selection), map[string]any{"in": in})
			if shown := fmt.Sprintf("%+v", got); strings.Contains(shown, "Code:") {
				t.Errorf("%s: %s", name, shown)
			}
		}
		const results = "results { errors { code message field } }"
		mutate("upsertLink", "UpsertLinkInput", "outcome", map[string]any{"link": upserted("password of one")})
		opens("upsertLink", "password of one")
		mutate("upsertLink", "UpsertLinkInput", "outcome", map[string]any{"link": upserted("password of one")})
		if got.UpsertLink.Outcome != "UNCHANGED" {
			t.Errorf("the same password: %+v", got.UpsertLink)
		}
		mutate("upsertLinks", "UpsertLinksInput", results, map[string]any{"links": []any{upserted("password of many")}})
		opens("upsertLinks", "password of many")
		who.schedule(t, l.ID, time.Now().Add(6*time.Second), map[string]any{"routing": gatedBy("password of later")})
		opens("a scheduled change", "password of later")
		mutate("updateLinks", "UpdateLinksInput", "operationId "+results,
			map[string]any{
				"links": []any{map[string]any{"id": l.ID, "title": "titled", "routing": gatedBy("password of all")}}})
		opens("updateLinks", "password of all")
		mutate("revertOperation", "RevertOperationInput", results,
			map[string]any{"operationId": got.UpdateLinks.OperationID})
		opens("revertOperation keeps the password, and", "password of all")
	})
}

// TestGate_LimitsPasswordsOfACall sets 20 passwords, and 21.
func TestGate_LimitsPasswordsOfACall(t *testing.T) {
	t.Parallel()
	who := start(t, embedded(t)).tenant(t, "many")
	for n, want := range map[int]string{20: `"errors":[]`, 21: `"code":"INVALID_INPUT"`} {
		var links []any
		for i := range n {
			links = append(links, map[string]any{"url": fmt.Sprint("https://example.com/", i), "strategy": "RANDOM",
				"routing": gatedBy(fmt.Sprint("password ", i))})
		}
		a := must.Value(who.run(`mutation ($in: CreateLinksInput!) { createLinks(input: $in) {
			results { created } errors { code } } }`,
			map[string]any{"in": map[string]any{"workspaceId": who.workspaceID, "links": links}}))(t)
		if !strings.Contains(a.body, want) || strings.Count(a.body, `"created":true`) != n && n == 20 {
			t.Errorf("%d passwords: %s", n, a.body)
		}
	}
	short, err := who.create("https://example.com/", "routing", gatedBy("seven77"))
	if err != nil || len(short.Errors) != 1 || strings.Join(short.Errors[0].Field, ".") != "routing.gate.password" {
		t.Errorf("a short password: %+v, %v", short, err)
	}
}

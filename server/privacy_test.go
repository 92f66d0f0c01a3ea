package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// everything returns all rows of the database, one per line.
func everything(t *testing.T, b backend) (rows []string) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	tables := map[db.Kind]string{
		db.Postgres: "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND " +
			"relname <> 'migrations'",
		db.SQLite: "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'link_search%'",
	}[d.Kind]
	var names []string
	must.NoError(t, d.NewRaw(tables).Scan(t.Context(), &names))
	for _, table := range names {
		ctx := db.AsSystem(t.Context())
		if table == "instance" || table == "counters" {
			ctx = t.Context() // which the system does not read
		}
		var all []map[string]any
		must.NoError(t, d.NewSelect().Table(table).ColumnExpr("*").Scan(ctx, &all))
		for _, row := range all {
			rows = append(rows, fmt.Sprintf("%s %s", table, row))
		}
	}
	return rows
}

// inRedis is what Redis holds, keys and values.
func inRedis(t *testing.T) (all []string) {
	t.Helper()
	k := must.Value(redisx.Open(patient(os.Getenv(dbtest.RedisURL)), 2))(t)
	defer k.Close()
	keys := must.Value(k.Keys(t.Context(), "*").Result())(t)
	for _, key := range keys {
		value, _ := k.Get(t.Context(), key).Result() // one may have ended
		all = append(all, key+" "+value)
	}
	return all
}

// TestAccount_IsErased: no table, log or cache contains personal data any more, and objects in
// shared workspaces remain.
func TestAccount_IsErased(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LOG_LEVEL=debug")
		host, who := s.tenant(t, "hostess"), s.tenant(t, "leaving")
		const agent = "VeryOwnBrowser/1.0"
		login := fmt.Sprintf(`{"query":"mutation { login(input: {email: \"%s\", password: \"%s\"}) { token } }"}`,
			who.email, who.password)
		wantStatus(t, "a log-in", must.Value(client{server: s}.post([]byte(login), "User-Agent", agent))(t), 200)
		// The user is invited, invites others, and creates a link and a key.
		host.admit(t, who, "ADMIN")
		guest := who
		guest.workspaceID = host.workspaceID
		l := guest.shorten(t, "https://example.com/by-a-guest")
		key, _ := guest.key(t, "LINKS_READ")
		who.do(t, "inviteMember",
			map[string]any{"workspaceId": host.workspaceID, "email": "friend@example.com", "role": "VIEWER"})
		who.do(t, "requestPasswordReset", map[string]any{"email": who.email})
		export := ""
		for after, hasNext := any(nil), true; hasNext; hasNext = after != nil {
			part := who.ask(t, `mutation ($p: String!, $a: String) { exportMyData(input: {password: $p, after: $a}) {
				data next errors { code } } }`, map[string]any{"p": who.password, "a": after})
			export += part.text("exportMyData.data")
			after = part.at("exportMyData.next")
		}
		hasTexts(t, "the export", export, who.email, agent, l.Link.ID, "friend@example.com", "LINK_CREATED")
		if strings.Contains(export, host.email) || strings.Contains(export, "$2") {
			t.Errorf("the export has what is not theirs: %s", export)
		}
		refuses(t, "a wrong password", who.refusal(t, "deleteMyAccount", "DeleteMyAccountInput",
			map[string]any{"password": "not the password"}), "BAD_CREDENTIALS")
		who.do(t, "deleteWorkspace", map[string]any{"id": who.workspaceID})
		who.do(t, "deleteMyAccount", map[string]any{"password": who.password})

		places := append(everything(t, b), "the log "+content(t, s.err))
		if b.nodes > 1 {
			places = append(places, inRedis(t)...)
		}
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
		s.expect(t, http.StatusFound, http.MethodGet, l.Link.path(s))
		key.ask(t, `{ __typename }`, nil)
		after := host.ask(t, `query ($id: ID!) { link(by: {id: $id}) { id createdBy { id } } }`,
			map[string]any{"id": l.Link.ID})
		if after.at("link.id") == nil || after.at("link.createdBy") != nil {
			t.Errorf("the link is %v", after)
		}
	})
}

// onDisk returns the files in a server's folder: the embedded database with its log, and the click
// logs.
func onDisk(t *testing.T, b backend) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	must.NoError(t, filepath.WalkDir(folderOf(b.env), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

// forgetAsOf runs the server's jobs as of some days later.
func forgetAsOf(t *testing.T, b backend, later time.Duration) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	must.NoError(t, (&clickstore.Ledger{DB: d}).ForgetVisitors(t.Context(), time.Now().Add(later)))
}

// TestVisitor_IsNotIdentifiable: no table, file, log or cache contains a visitor's address
// or user agent, and on the next day nothing allows a test of whether a given visitor followed a
// link.
func TestVisitor_IsNotIdentifiable(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LOG_LEVEL=debug")
		who := s.tenant(t, "discreet")
		l := who.shorten(t, "https://example.com/discreet").Link
		const from = "127.66.77.88"
		planted := []string{
			from, "203.0.113.77", "198.51.100.66", "PlantedEngine", "planted-path", "planted-query", "planted-user",
			"planted-fragment", "planted-cookie", "planted-own", "planted-region", "planted-bearer", "planted-tag",
		}
		headers := []string{
			"User-Agent", chromeOnWindows + " PlantedEngine/7.7.7", "Referer",
			"https://planted-user:planted-user@news.example/planted-path?q=planted-query#planted-fragment",
			"X-Forwarded-For", "203.0.113.77, 198.51.100.66", "Forwarded", "for=203.0.113.77", "X-Real-IP",
			"198.51.100.66", "Cookie", "id=planted-cookie", "Accept-Language", "de-planted-region,de;q=0.5",
			"Authorization", "Basic planted-bearer", "If-None-Match", `"planted-tag"`,
		}
		s.visit(t, http.MethodGet, l.path(s)+"?utm_source=kept&token=planted-own", from, headers...)
		s.visit(t, http.MethodHead, l.path(s)+"?token=planted-own", from, headers...)
		s.visit(t, http.MethodGet, l.path(s), from, append(headers, "DNT", "1")...)
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 2 })

		raw := netip.MustParseAddr(from).As16()
		inside := append(planted, hex.EncodeToString(raw[12:]), string(raw[:]))
		look := func(when string) {
			t.Helper()
			places := everything(t, b)
			if b.nodes > 1 {
				places = append(places, inRedis(t)...)
			}
			places = append(places, "stdout "+content(t, s.out), "stderr "+content(t, s.err))
			for path, file := range onDisk(t, b) {
				places = append(places, filepath.Base(path)+" "+string(file))
			}
			found := false
			for _, place := range places {
				found = found || strings.Contains(place, "news.example")
				for _, personal := range inside {
					if at := strings.Index(strings.ToLower(place), strings.ToLower(personal)); at >= 0 {
						t.Errorf("%s: %s is left: %.30q ... %.300q", when, personal, place, place[max(0, at-100):])
					}
				}
			}
			if !found {
				t.Errorf("%s: not even what is kept is found", when)
			}
		}
		look("on the day")
		if numberOf(t, b, "SELECT count(*) FROM visitor_keys") == 0 {
			t.Error("there is no key to forget")
		}
		forgetAsOf(t, b, 48*time.Hour)
		look("two days later")
		forgetAsOf(t, b, 96*time.Hour)
		same(t, "keys", numberOf(t, b, "SELECT count(*) FROM visitor_keys"), 0)
		same(t, "visitors", numberOf(t, b, "SELECT count(*) FROM visitors"), 0)
		s.stop() // after which the log of clicks is gone, too
		for path := range onDisk(t, b) {
			if strings.Contains(path, "log_") {
				t.Errorf("the click log is left: %s", path)
			}
		}
	})
}

// TestVisitorKey_IsErasedFromTheFile: deleted rows of the embedded database are not in its file.
func TestVisitorKey_IsErasedFromTheFile(t *testing.T) {
	t.Parallel()
	b := embedded(t)
	s := start(t, b)
	var keys [][]byte
	polltest.Until(t, "there is a key", func() bool {
		d := must.Value(b.open())(t)
		defer d.Close()
		must.NoError(t, d.NewSelect().Table("visitor_keys").Column("key").Scan(db.AsSystem(t.Context()), &keys))
		return len(keys) > 0
	})
	holds := func() (paths []string) {
		for path, file := range onDisk(t, b) {
			if slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Contains(file, key) }) {
				paths = append(paths, filepath.Base(path))
			}
		}
		return paths
	}
	if len(holds()) == 0 {
		t.Fatal("the key is looked for where it never was")
	}
	forgetAsOf(t, b, 48*time.Hour)
	s.stop()
	if paths := holds(); len(paths) > 0 {
		t.Errorf("the key is left in %s", paths)
	}
}

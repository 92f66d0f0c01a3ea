package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/stores"
)

// folderOf is the data folder of an embedded backend.
func folderOf(env []string) (folder string) {
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name == "LINKFORGE_DATA_DIR" {
			folder = value // the last one holds
		}
	}
	return folder
}

// must runs a command that must succeed, and returns its output.
func succeed(t testing.TB, env []string, args ...string) string {
	t.Helper()
	out, stderr, status := command(t, env, "", args...)
	if status != 0 {
		t.Fatalf("%q: exit status %d, %q, %q", args, status, out, stderr)
	}
	return out
}

// declined runs a command that must fail with words that say this.
func declined(t testing.TB, env []string, says string, args ...string) {
	t.Helper()
	out, stderr, status := command(t, env, "", args...)
	if status != 1 || !strings.Contains(stderr, says) || strings.Contains(stderr, "goroutine") {
		t.Errorf("%q: exit status %d, want words about %q: %q, %q", args, status, says, out, stderr)
	}
}

// TestBackup_IsConsistentUnderLoad backs up a server under load, and continues with the copy elsewhere.
func TestBackup_IsConsistentUnderLoad(t *testing.T) {
	t.Parallel()
	nextMonth(t)
	s := start(t, embedded(t), "LINKFORGE_LINK_QUOTA=10000000", "LINKFORGE_HIT_QUOTA=10000000",
		"LINKFORGE_CLICK_LOG_BYTES=8388608")
	who := s.tenant(t, "kept")
	links := []linkView{
		who.shorten(t, "https://example.com/a?b=1").Link,
		who.shorten(t, "https://example.com/promoted", "customCode", "promo").Link,
		who.shorten(t, "https://example.com/limited", "maxClicks", 100_000_000).Link,
	}
	file := filepath.Join(t.TempDir(), "kept.tar.gz")
	var crowds []*crowd
	for _, l := range links {
		crowds = append(crowds, gather(t, s, l.path(s), 1, breath))
	}
	ctx, stop := context.WithCancel(t.Context())
	var creating sync.WaitGroup
	codes, made := map[string]bool{}, atomic.Int64{}
	creating.Go(func() {
		for ctx.Err() == nil {
			l, err := who.create(fmt.Sprintf("https://example.com/counted/%d", made.Add(1)), "strategy", "COUNTER")
			if codes[l.Link.Code] = true; err != nil || len(l.Errors) > 0 {
				t.Errorf("%+v: %v", l.Errors, err)
				return
			}
			polltest.Elapse(breath)
		}
	})
	polltest.Until(t, "some links were followed and made", func() bool {
		return crowds[2].seen.Load() > 150 && made.Load() > 50
	})
	var before, after []int64
	for _, v := range crowds {
		before = append(before, v.seen.Load())
	}
	out := succeed(t, s.env, "backup", file)
	for _, v := range crowds {
		after = append(after, v.seen.Load()+1) // and one on its way
	}
	if !strings.HasPrefix(out, "wrote "+file+", ") {
		t.Errorf("backup: %q", out)
	}
	given := made.Load()
	polltest.Until(t, "codes were given out after the backup", func() bool { return made.Load() > given+50 })
	stop()
	creating.Wait()
	for _, v := range crowds {
		v.end()
	}
	var number atomic.Int64
	who.newCodes(t, codes, &number, 4) // more than a block of counters
	s.stop()
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup: %v: %v", info, err)
	}
	if left := filesIn(t, filepath.Dir(file)); len(left) != 1 {
		t.Errorf("there are %q", left)
	}

	elsewhere := filepath.Join(t.TempDir(), "deep", "data")
	s.env = append(s.env, "LINKFORGE_DATA_DIR="+elsewhere)
	if out := succeed(t, s.env, "restore", file); !strings.Contains(out, "restored into "+elsewhere) {
		t.Errorf("restore: %q", out)
	}
	wantNoVisitors(t, elsewhere)
	s.again()
	for i, link := range links {
		got := who.getLink(t, link.ID) // by the token of before
		if got.ClickCount < before[i] || got.ClickCount > after[i] || got.HitQuota.Used != got.ClickCount {
			t.Errorf("%s: %d clicks, want from %d, which were answered before the backup, to %d; %d hits are used",
				link.Code, got.ClickCount, before[i], after[i], got.HitQuota.Used)
		}
	}
	loggedIn(t, who)
	if again := who.shorten(t, "https://EXAMPLE.com/a?b=1"); again.Created || again.Link.Code != links[0].Code {
		t.Errorf("the same URL: %+v", again)
	}
	if got := who.search(t, "PROMOTED"); !slices.Equal(got, []string{links[1].ID}) {
		t.Errorf("found %q", got)
	}
	who.newCodes(t, codes, &number, 4)
	used := who.getLink(t, links[0].ID).HitQuota.Used
	s.expect(t, http.StatusFound, http.MethodGet, links[0].path(s))
	polltest.Until(t, "the next click is counted", func() bool {
		return who.getLink(t, links[0].ID).HitQuota.Used == used+1
	})
	granted := numberOf(t, onSQLite(elsewhere), grantsOf, links[2].ID)
	if clicks := who.getLink(t, links[2].ID).ClickCount; granted != clicks {
		t.Errorf("the limited link has granted %d redirects, and has had %d", granted, clicks)
	}
	succeed(t, s.env, "stats", "verify")
	s.stop()
}

// newCodes creates batches of COUNTER links, whose codes must be new.
func (w tenant) newCodes(t *testing.T, given map[string]bool, number *atomic.Int64, batches int) {
	t.Helper()
	for range batches {
		codes := must.Value(w.createCounters(number))(t)
		for _, code := range codes {
			if given[code] {
				t.Fatalf("%s was given out before", code)
			}
			given[code] = true
		}
	}
}

// listed is the ids of the workspace's links, up to 50.
func (w tenant) listed(t *testing.T) []string {
	t.Helper()
	return w.search(t, "")
}

// search is the ids of the workspace's links that have the words.
func (w tenant) search(t *testing.T, words string) (ids []string) {
	t.Helper()
	filter := map[string]any{}
	if words != "" {
		filter["search"] = words
	}
	got := w.ask(t, `query ($w: ID!, $f: LinkFilter) { workspace(by: {id: $w}) { links(first: 50, filter: $f) {
		nodes { id } } } }`, map[string]any{"w": w.workspaceID, "f": filter})
	for _, l := range got.at("workspace.links.nodes").([]any) {
		ids = append(ids, l.(map[string]any)["id"].(string))
	}
	return ids
}

const grantsOf = "SELECT granted FROM grants WHERE subject_id = ?"

// wantNoVisitors checks that a backup contains no visitor keys.
func wantNoVisitors(t *testing.T, folder string) {
	t.Helper()
	for table, most := range map[string]int64{"visitor_keys": 0, "visitors": 0, "click_logs": 1} {
		if n := numberOf(t, onSQLite(folder), "SELECT count(*) FROM "+table); n > most {
			t.Errorf("%s has %d rows", table, n)
		}
	}
	for _, name := range []string{stores.DatabaseName, stores.JWTSecretName, stores.CodeSecretName} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v: %v", name, info, err)
		}
	}
}

// smallBackup is one of an instance with one link, and the environment of its server, which has
// ended.
func smallBackup(t *testing.T) (file string, s *server, who tenant, l linkView) {
	t.Helper()
	s = start(t, embedded(t))
	who = s.tenant(t, "kept")
	l = who.shorten(t, "https://example.com/a").Link
	file = filepath.Join(t.TempDir(), "kept.tar.gz")
	succeed(t, s.env, "backup", file)
	s.stop()
	return file, s, who, l
}

// hasRestored starts the server on a restored data folder, and looks for the link.
func hasRestored(t *testing.T, s *server, env []string, who tenant, l linkView) {
	t.Helper()
	s.env = env
	s.again()
	if got := who.getLink(t, l.ID); got.Code != l.Code {
		t.Errorf("the link is %+v", got)
	}
	s.stop()
}

func TestBackup_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	file, s, _, _ := smallBackup(t)
	kept := readFile(t, file)
	declined(t, s.env, "exists, and backups are not overwritten", "backup", file)
	same(t, "the backup", readFile(t, file), kept)
	another := filepath.Join(t.TempDir(), "another.tar.gz")
	declined(t, s.env, "no such file", "backup", filepath.Join(t.TempDir(), "nowhere", "b.tar.gz"))
	declined(t, []string{"LINKFORGE_DATA_DIR=" + t.TempDir()}, "there is no database yet", "backup", another)
	elsewhere := []string{"LINKFORGE_DATABASE_URL=postgres://nobody@127.0.0.1:1/nothing"}
	declined(t, elsewhere, "pg_dump", "backup", another)
	declined(t, elsewhere, "after-restore", "restore", file)

	for _, end := range []string{".partial", ".partial.db", ".partial.db-wal"} { // as one leaves it that was killed
		must.NoError(t, os.WriteFile(another+end, bytes.Repeat([]byte("left behind"), 100_000), 0o644))
	}
	succeed(t, s.env, "backup", another)
	if left := filesIn(t, filepath.Dir(another)); !slices.Equal(left, []string{filepath.Base(another)}) {
		t.Errorf("there are %q", left)
	}
	succeed(t, []string{"LINKFORGE_DATA_DIR=" + filepath.Join(t.TempDir(), "data")}, "restore", another)
	if info, err := os.Stat(another); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup: %v: %v", info, err)
	}
}

// entry is a member of an archive.
type entry struct {
	tar.Header
	content []byte
}

func entriesOf(t *testing.T, file []byte) (all []entry) {
	t.Helper()
	archive := tar.NewReader(must.Value(gzip.NewReader(bytes.NewReader(file)))(t))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.NoError(t, err)
		all = append(all, entry{*h, must.Value(io.ReadAll(archive))(t)})
	}
}

func archiveOf(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		must.NoError(t, archive.WriteHeader(&e.Header))
		must.Value(archive.Write(e.content))(t)
	}
	must.NoError(t, errors.Join(archive.Close(), compressed.Close()))
	return out.Bytes()
}

// TestRestore_RefusesBadArguments gives files that are no backups, or are damaged: nothing of them stays.
func TestRestore_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	file, s, _, _ := smallBackup(t)
	whole := []byte(readFile(t, file))
	entries := entriesOf(t, whole)
	plain := func(name, content string) entry {
		return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600}, []byte(content)}
	}
	with := func(more ...entry) []byte { return archiveOf(t, append(slices.Clone(entries), more...)) }
	replaced := func(name string, change func([]byte) []byte) []byte {
		all := slices.Clone(entries)
		for i, e := range all {
			if e.Name == name {
				all[i].content = change(slices.Clone(e.content))
			}
		}
		return archiveOf(t, all)
	}
	by := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	const no, not = "was not written by linkforge backup", "is not part of a backup"
	for what, c := range map[string]struct {
		file []byte
		says string
	}{
		"an empty file":   {nil, no},
		"another file":    {[]byte("hello"), no},
		"another archive": {archiveOf(t, []entry{plain("a.txt", "a")}), no},
		"a later format": {replaced(cli.BackupHeadName, by(`{"linkforgeBackup":2,"version":"9"}`)),
			"later version"},
		"a file cut short": {whole[:len(whole)-100], "damaged"},
		"a damaged file": {slices.Concat(whole[:len(whole)/2], []byte("xxxxx"), whole[len(whole)/2+5:]),
			"is not restored"},
		"a way out":           {with(plain("../evil", "a")), not},
		"a way out of clicks": {with(plain("clicks/../../evil.log", "a")), not},
		"a path from root":    {with(plain("/tmp/evil", "a")), not},
		"another name":        {with(plain("linkforge.db-wal", "a")), not},
		"a link": {with(entry{tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd",
			Name: "clicks/log_00000000000000000000000000/00000000000000000000.log"}, nil}), "is not a regular file"},
		"a database twice": {with(plain(stores.DatabaseName, "a")), "exists"},
		"a long secret":    {replaced(stores.JWTSecretName, by(strings.Repeat("s", 1<<20))), "too long"},
		"no database": {archiveOf(t, slices.DeleteFunc(slices.Clone(entries),
			func(e entry) bool { return e.Name == stores.DatabaseName })), "no database"},
		"no SQLite": {replaced(stores.DatabaseName, by("hello")), "is not restored"},
		"a secret of another": {replaced(stores.CodeSecretName, func(b []byte) []byte { b[0] ^= 1; return b }),
			"LINKFORGE_CODE_SECRET"},
		"a database with a damage": {replaced(stores.DatabaseName, damage), "is not restored"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bad, folder := filepath.Join(t.TempDir(), "bad.tar.gz"), filepath.Join(t.TempDir(), "data")
			keepFile(t, bad, c.file)
			declined(t, []string{"LINKFORGE_DATA_DIR=" + folder}, c.says, "restore", bad)
			if left := filesIn(t, folder); !slices.Equal(left, []string{"lock"}) {
				t.Errorf("left in the data folder: %q", left)
			}
		})
	}
	declined(t, s.env, "is not empty", "restore", file)
	declined(t, []string{"LINKFORGE_DATA_DIR=" + t.TempDir()}, "no such file", "restore", file+"x")
	for _, name := range []string{stores.JWTSecretName, stores.CodeSecretName, stores.DatabaseName,
		"clicks/log_x/0.log"} {
		folder := t.TempDir()
		path := filepath.Join(folder, filepath.FromSlash(name))
		keepFile(t, path, []byte("kept"))
		declined(t, []string{"LINKFORGE_DATA_DIR=" + folder}, "move linkforge.db", "restore", file)
		if kept := readFile(t, path); kept != "kept" {
			t.Errorf("%s was %q", name, kept)
		}
	}
}

// damage overwrites pages in the middle.
func damage(b []byte) []byte {
	copy(b[len(b)/2:len(b)/2+16<<10], bytes.Repeat([]byte{0xa5}, 16<<10))
	return b
}

func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries := must.Value(os.ReadDir(folder))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestRestore_ResumesAfterInterruption leaves the data folder as a process leaves it that is killed, at
// each step: no server starts on it, and restoring again ends it.
func TestRestore_ResumesAfterInterruption(t *testing.T) {
	t.Parallel()
	file, s, who, l := smallBackup(t)
	model := filepath.Join(t.TempDir(), "data")
	succeed(t, []string{"LINKFORGE_DATA_DIR=" + model}, "restore", file)
	moved := []string{stores.JWTSecretName, stores.CodeSecretName, stores.EncryptionKeyName, stores.DatabaseName}
	for n := -1; n <= len(moved); n++ { // so many files were moved; with -1, not all were unpacked
		folder := filepath.Join(t.TempDir(), "data")
		staging := filepath.Join(folder, stores.StagingName)
		if n < 0 {
			keepFile(t, filepath.Join(staging, stores.DatabaseName), []byte("half of"))
			keepFile(t, filepath.Join(staging, "clicks", "log_x", "0.log"), []byte("half of"))
		} else {
			keepFile(t, filepath.Join(staging, stores.WholeName), nil)
			for i, name := range moved {
				place := staging
				if i < n {
					place = folder
				}
				keepFile(t, filepath.Join(place, name), []byte(readFile(t, filepath.Join(model, name))))
			}
		}
		env := append(slices.Clone(s.env), "LINKFORGE_DATA_DIR="+folder)
		declined(t, env, "was interrupted", "serve")
		declined(t, env, "was interrupted", "migrate", "status")
		succeed(t, env, "restore", file)
		if got := filesIn(t, folder); !slices.Equal(got, []string{stores.CodeSecretName, stores.EncryptionKeyName,
			stores.JWTSecretName, stores.DatabaseName, "lock"}) {
			t.Errorf("%d: there are %q", n, got)
		}
		if n == 2 || n < 0 {
			hasRestored(t, s, env, who, l)
		}
	}
}

func keepFile(t *testing.T, path string, content []byte) {
	t.Helper()
	must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)))
}

// TestFault_RestoreSurvivesKill at random times, until one completes.
func TestFault_RestoreSurvivesKill(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	file, s, who, l := smallBackup(t)
	env := append(slices.Clone(s.env), "LINKFORGE_DATA_DIR="+filepath.Join(t.TempDir(), "data"))
	killed := 0
	for wait := 10 * time.Millisecond; ; wait += 10 * time.Millisecond {
		p := program(t.Context(), t, env, "restore", file)
		var said strings.Builder
		p.Stderr = &said
		must.NoError(t, p.Start())
		timer := time.AfterFunc(wait, func() { _ = p.Process.Kill() })
		err := p.Wait()
		// the last was killed when all was done
		if err != nil && killed > 0 && strings.Contains(said.String(), "is not empty") {
			break
		}
		if timer.Stop() {
			if err != nil {
				t.Fatalf("after %d kills: %v: %s", killed, err, &said)
			}
			break
		}
		if err == nil { // it had just ended
			break
		}
		killed++
	}
	if killed == 0 {
		t.Error("none was killed")
	}
	hasRestored(t, s, env, who, l)
}

// TestBackup_LeavesOutReplacedSecrets replaces the code secret of the data folder by the
// environment's. The file in the folder is no longer what codes are made with: a backup that had it
// could not be restored.
func TestBackup_LeavesOutReplacedSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	s.stop()
	list := "LINKFORGE_CODE_SECRET=the new code secret of these tests which is long," +
		readFile(t, filepath.Join(folderOf(s.env), stores.CodeSecretName))
	s.env = append(slices.Clone(s.env), list)
	s.again()
	who := s.tenant(t, "rotated")
	before := who.shorten(t, "https://example.com/", "strategy", "COUNTER").Link
	s.stop()
	backup := filepath.Join(t.TempDir(), "backup.tar.gz")
	succeed(t, s.env, "backup", backup)
	s.env = append(slices.Clone(s.env), "LINKFORGE_DATA_DIR="+filepath.Join(t.TempDir(), "restored"))
	if out := succeed(t, s.env, "restore", backup); !strings.Contains(out, "LINKFORGE_CODE_SECRET") {
		t.Errorf("restore does not ask for the code secret: %s", out)
	}
	s.again()
	after := who.shorten(t, "https://example.com/", "strategy", "COUNTER").Link
	if before.Code == after.Code {
		t.Errorf("%s was given out twice", before.Code)
	}
	s.expect(t, http.StatusFound, http.MethodGet, before.path(s))
	s.stop()
}

// TestAfterRestore_AdvancesCounters moves the counter of a database of either kind.
func TestAfterRestore_AdvancesCounters(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "counted")
		first := who.shorten(t, "https://example.com/", "strategy", "COUNTER").Link.Code
		s.stop()
		_, before := counted(t, b)
		out := succeed(t, s.env, "after-restore", "--json")
		if want := fmt.Sprintf("{\"counter\":%d}\n", before+1_000_000_000); out != want {
			t.Errorf("%q, want %q", out, want)
		}
		words := succeed(t, s.env, "after-restore")
		if redis := strings.Contains(words, "FLUSHDB"); !strings.Contains(words, "COUNTER") || redis != (b.nodes > 1) {
			t.Errorf("it says %q", words)
		}
		s.again()
		if got := who.shorten(t, "https://example.com/", "strategy", "COUNTER").Link.Code; got == first {
			t.Errorf("%s was given out twice", got)
		}
		if _, after := counted(t, b); after <= before+2_000_000_000 {
			t.Errorf("the counter is at %d, and was at %d", after, before)
		}
	})
}

// TestAfterRestore_CountsGrants: grants of clicks that are lost, because the logs are gone, are the link's again.
func TestAfterRestore_CountsGrants(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b.inProcesses())
		who := s.tenant(t, "granted")
		l := who.shorten(t, "https://example.com/limited", "maxClicks", 100_000).Link
		for range 300 {
			s.expect(t, http.StatusFound, http.MethodGet, l.path(s))
		}
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 300 })
		s.kill()
		execute(t, b, "UPDATE grants SET granted = granted + 7 WHERE subject_id = ?", l.ID) // as if clicks were lost
		granted := func() int64 { return numberOf(t, b, grantsOf, l.ID) }
		succeed(t, s.env, "after-restore")
		if n := granted(); n != 307 {
			t.Fatalf("%d are granted, want 307", n)
		}
		succeed(t, s.env, "after-restore", "--grants")
		same(t, "grants", granted(), 300)
	})
}

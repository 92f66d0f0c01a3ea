package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"github.com/linkforge/linkforge/internal/platform/db"
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

// traffic requests and creates links until it is stopped.
type traffic struct {
	links []linkView
	// requested and answered count redirects by link. A request without a response may be a redirect.
	requested, answered []atomic.Int64
	mu                  sync.Mutex
	codes               map[string]bool
	stop                chan struct{}
	workers             sync.WaitGroup
}

func (w tenant) load(t *testing.T, links ...linkView) *traffic {
	l := &traffic{
		links: links, requested: make([]atomic.Int64, len(links)), answered: make([]atomic.Int64, len(links)),
		codes: map[string]bool{}, stop: make(chan struct{}),
	}
	l.each(func(n int) error {
		i := n % len(links)
		l.requested[i].Add(1)
		a, err := w.get(links[i].path(w.server))
		if err == nil && a.status == http.StatusFound {
			l.answered[i].Add(1)
		}
		return err
	}, t)
	l.each(func(n int) error {
		made, err := w.create(fmt.Sprintf("https://example.com/counted/%d", n), "strategy", "COUNTER")
		if err == nil && len(made.Errors) > 0 {
			err = fmt.Errorf("%+v", made.Errors)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.codes[made.Link.Code] = true
		return err
	}, t)
	return l
}

func (l *traffic) each(do func(n int) error, t *testing.T) {
	for range 2 {
		l.workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := do(n); err != nil {
					t.Error(err)
					return
				}
				polltest.Elapse(breath)
			}
		})
	}
}

func (l *traffic) end() {
	close(l.stop)
	l.workers.Wait()
}

func (l *traffic) made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.codes)
}

func loads(counts []atomic.Int64) (all []int64) {
	for i := range counts {
		all = append(all, counts[i].Load())
	}
	return all
}

// TestBackup_IsConsistentUnderLoad backs up a server under load, and continues with the copy elsewhere.
func TestBackup_IsConsistentUnderLoad(t *testing.T) {
	t.Parallel()
	nextMonth(t)
	s := start(t, embedded(t), "LINKFORGE_LINK_QUOTA=10000000", "LINKFORGE_HIT_QUOTA=10000000",
		"LINKFORGE_CLICK_LOG_BYTES=8388608")
	who := s.tenant(t, "kept")
	const limit = 100_000_000
	links := []linkView{
		who.shorten(t, "https://example.com/a?b=1").Link, who.shorten(t, "https://example.com/promoted", "customCode",
			"promo").Link,
		who.shorten(t, "https://example.com/limited", "maxClicks", limit).Link,
	}
	file := filepath.Join(t.TempDir(), "kept.tar.gz")
	l := who.load(t, links...)
	polltest.Until(t, "some links were followed and made", func() bool {
		return l.answered[2].Load() > 300 &&
			l.made() > 50
	})
	before := loads(l.answered)
	out := succeed(t, s.env, "backup", file)
	after := loads(l.requested)
	if !strings.HasPrefix(out, "wrote "+file+", ") {
		t.Errorf("backup: %q", out)
	}
	given := l.made()
	polltest.Until(t, "codes were given out after the backup", func() bool { return l.made() > given+50 })
	l.end()
	var number atomic.Int64
	who.newCodes(t, l.codes, &number, 4) // more than a block of counters
	s.stop()
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup: %v: %v", info, err)
	}
	if left, _ := filepath.Glob(file + ".partial*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
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
	who.newCodes(t, l.codes, &number, 4)
	used := who.getLink(t, links[0].ID).HitQuota.Used
	s.expect(t, http.StatusFound, http.MethodGet, links[0].path(s))
	polltest.Until(t, "the next click is counted", func() bool {
		return who.getLink(t, links[0].ID).HitQuota.Used == used+1
	})
	if granted, clicks := grantedTo(t, elsewhere, links[2].ID), who.getLink(t, links[2].ID).
		ClickCount; granted != clicks {
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
	return w.page(t, "($w: ID!)", "", map[string]any{"w": w.workspaceID})
}

// search is the ids of the workspace's links that have the words.
func (w tenant) search(t *testing.T, words string) []string {
	t.Helper()
	return w.page(t, "($w: ID!, $s: String!)", ", filter: {search: $s}", map[string]any{"w": w.workspaceID, "s": words})
}

func (w tenant) page(t *testing.T, types, filter string, variables map[string]any) (ids []string) {
	t.Helper()
	var got struct {
		Workspace struct {
			Links struct {
				Edges []struct{ Node struct{ ID string } }
			}
		}
	}
	w.must(t, &got, "query "+types+" { workspace(by: {id: $w}) { links(first: 50"+filter+
		") { edges { node { id } } } } }",
		variables)
	for _, e := range got.Workspace.Links.Edges {
		ids = append(ids, e.Node.ID)
	}
	return ids
}

// opened is the database of a data folder.
func opened(t *testing.T, folder string) *db.DB {
	t.Helper()
	d := must.Value(db.OpenSQLite(filepath.Join(folder, stores.DatabaseName), 2))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func grantedTo(t *testing.T, folder, linkID string) (granted int64) {
	t.Helper()
	must.NoError(t, opened(t, folder).NewSelect().Table("grants").Column("granted").Where("subject_id = ?", linkID).
		Scan(t.Context(), &granted))
	return granted
}

// wantNoVisitors checks that a backup contains no visitor keys.
func wantNoVisitors(t *testing.T, folder string) {
	t.Helper()
	d := must.Value(db.OpenSQLite(filepath.Join(folder, stores.DatabaseName), 2))(t)
	for _, table := range []string{"visitor_keys", "visitors", "click_logs"} {
		if n, err := d.NewSelect().Table(table).Count(t.Context()); err != nil || table != "click_logs" && n != 0 ||
			n > 1 {
			t.Errorf("%s has %d rows: %v", table, n, err)
		}
	}
	must.NoError(t, d.Close())
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

func TestBackup_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	file, s, _, _ := smallBackup(t)
	kept := must.Value(os.ReadFile(file))(t)
	declined(t, s.env, "exists, and backups are not overwritten", "backup", file)
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, kept) {
		t.Errorf("the backup was overwritten: %v", err)
	}
	declined(t, s.env, "no such file", "backup", filepath.Join(t.TempDir(), "nowhere", "b.tar.gz"))
	nothing := []string{"LINKFORGE_DATA_DIR=" + t.TempDir()}
	declined(t, nothing, "there is no database yet", "backup", filepath.Join(t.TempDir(), "b.tar.gz"))
	elsewhere := []string{"LINKFORGE_DATABASE_URL=postgres://nobody@127.0.0.1:1/nothing"}
	declined(t, elsewhere, "pg_dump", "backup", filepath.Join(t.TempDir(), "b.tar.gz"))
	declined(t, elsewhere, "after-restore", "restore", file)

	another := filepath.Join(t.TempDir(), "another.tar.gz") // as one leaves it that was killed
	for _, name := range []string{another + ".partial", another + ".partial.db", another + ".partial.db-wal"} {
		must.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("left behind"), 100_000), 0o644))
	}
	succeed(t, s.env, "backup", another)
	if left, _ := filepath.Glob(another + "*"); !slices.Equal(left, []string{another}) {
		t.Errorf("there are %q", left)
	}
	fresh := []string{"LINKFORGE_DATA_DIR=" + filepath.Join(t.TempDir(), "data")}
	succeed(t, fresh, "restore", another)
	if info, err := os.Stat(another); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup: %v: %v", info, err)
	}
}

// entry is a member of an archive.
type entry struct {
	tar.Header
	content []byte
}

func entriesOf(t *testing.T, file string) (all []entry) {
	t.Helper()
	in := must.Value(os.Open(file))(t)
	defer in.Close()
	compressed := must.Value(gzip.NewReader(in))(t)
	archive := tar.NewReader(compressed)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.NoError(t, err)
		content, err := io.ReadAll(archive)
		must.NoError(t, err)
		all = append(all, entry{*h, content})
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
	entries := entriesOf(t, file)
	whole := must.Value(os.ReadFile(file))(t)
	plain := func(name string, content string) entry {
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
	symlink := entry{tar.Header{Typeflag: tar.TypeSymlink,
		Name: "clicks/log_00000000000000000000000000/00000000000000000000.log", Linkname: "/etc/passwd"}, nil}
	for what, c := range map[string]struct {
		file []byte
		says string
	}{
		"an empty file":   {nil, "was not written by linkforge backup"},
		"another file":    {[]byte("hello"), "was not written by linkforge backup"},
		"another archive": {archiveOf(t, []entry{plain("a.txt", "a")}), "was not written by linkforge backup"},
		"a later format": {replaced(cli.BackupHeadName,
			func([]byte) []byte { return []byte(`{"linkforgeBackup":2,"version":"9"}`) }), "later version"},
		"a file cut short": {whole[:len(whole)-100], "damaged"},
		"a damaged file": {append(slices.Clone(whole[:len(whole)/2]),
			slices.Concat([]byte("xxxxx"), whole[len(whole)/2+5:])...), "is not restored"},
		"a way out":           {with(plain("../evil", "a")), "is not part of a backup"},
		"a way out of clicks": {with(plain("clicks/../../evil.log", "a")), "is not part of a backup"},
		"a path from root":    {with(plain("/tmp/evil", "a")), "is not part of a backup"},
		"another name":        {with(plain("linkforge.db-wal", "a")), "is not part of a backup"},
		"a link":              {with(symlink), "is not a regular file"},
		"a database twice":    {with(plain(stores.DatabaseName, "a")), "exists"},
		"a long secret": {replaced(stores.JWTSecretName,
			func([]byte) []byte { return bytes.Repeat([]byte("s"), 1<<20) }), "too long"},
		"no database": {archiveOf(t, slices.DeleteFunc(slices.Clone(entries),
			func(e entry) bool { return e.Name == stores.DatabaseName })),
			"no database"},
		"no SQLite": {replaced(stores.DatabaseName, func([]byte) []byte { return []byte("hello") }),
			"is not restored"},
		"a secret of another": {replaced(stores.CodeSecretName, func(b []byte) []byte { b[0] ^= 1; return b }),
			"LINKFORGE_CODE_SECRET"},
		"a database with a damage": {replaced(stores.DatabaseName, damage), "is not restored"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bad, folder := filepath.Join(t.TempDir(), "bad.tar.gz"), filepath.Join(t.TempDir(), "data")
			must.NoError(t, os.WriteFile(bad, c.file, 0o600))
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
		must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("kept"), 0o600)))
		declined(t, []string{"LINKFORGE_DATA_DIR=" + folder}, "move linkforge.db", "restore", file)
		if kept, err := os.ReadFile(path); err != nil || string(kept) != "kept" {
			t.Errorf("%s was %q: %v", name, kept, err)
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
	states := map[string]func(t *testing.T, folder string){
		"in the middle of unpacking": func(t *testing.T, folder string) {
			keepFile(t, filepath.Join(folder, stores.StagingName, stores.DatabaseName), []byte("half of"))
			keepFile(t, filepath.Join(folder, stores.StagingName, "clicks", "log_x", "0.log"), []byte("half of"))
		},
	}
	for n := range len(moved) + 1 {
		states[fmt.Sprintf("when %d files were moved", n)] = func(t *testing.T, folder string) {
			for i, name := range moved {
				content := must.Value(os.ReadFile(filepath.Join(model, name)))(t)
				if i < n {
					keepFile(t, filepath.Join(folder, name), content)
				} else {
					keepFile(t, filepath.Join(folder, stores.StagingName, name), content)
				}
			}
			keepFile(t, filepath.Join(folder, stores.StagingName, stores.WholeName), nil)
		}
	}
	for what, leave := range states {
		folder := filepath.Join(t.TempDir(), "data")
		leave(t, folder)
		env := append(slices.Clone(s.env), "LINKFORGE_DATA_DIR="+folder)
		for _, args := range [][]string{{"serve"}, {"migrate", "status"}} {
			declined(t, env, "was interrupted", args...)
		}
		succeed(t, env, "restore", file)
		if got := filesIn(t, folder); !slices.Equal(got, []string{stores.CodeSecretName, stores.EncryptionKeyName,
			stores.JWTSecretName, stores.DatabaseName, "lock"}) {
			t.Errorf("%s: there are %q", what, got)
		}
		if what == "when 2 files were moved" || what == "in the middle of unpacking" {
			s.env = env
			s.again()
			if got := who.getLink(t, l.ID); got.Code != l.Code {
				t.Errorf("%s: the link is %+v", what, got)
			}
			s.stop()
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
	s.env = env
	s.again()
	if got := who.getLink(t, l.ID); got.Code != l.Code {
		t.Errorf("the link is %+v", got)
	}
	s.stop()
}

// TestBackup_LeavesOutReplacedSecrets replaces the code secret of the data folder by the
// environment's. The file in the folder is no longer what codes are made with: a backup that had it
// could not be restored.
func TestBackup_LeavesOutReplacedSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	s.stop()
	file := must.Value(os.ReadFile(filepath.Join(folderOf(s.env), stores.CodeSecretName)))(t)
	list := "LINKFORGE_CODE_SECRET=the new code secret of these tests which is long," + string(file)
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
		codes := map[string]bool{}
		make := func() {
			for n := range 20 {
				codes[who.shorten(t, fmt.Sprintf("https://example.com/%d", n), "strategy", "COUNTER").Link.Code] = true
			}
		}
		make()
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
		make()
		if len(codes) != 40 {
			t.Errorf("%d codes, want 40: %s", len(codes), slices.Sorted(maps.Keys(codes)))
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
		d := must.Value(b.open())(t)
		t.Cleanup(func() { d.Close() })
		granted := func() (n int64) {
			t.Helper()
			must.NoError(t, d.NewSelect().Table("grants").Column("granted").Where("subject_id = ?", l.ID).
				Scan(db.AsSystem(t.Context()), &n))
			return n
		}
		succeed(t, s.env, "after-restore")
		if n := granted(); n != 307 {
			t.Fatalf("%d are granted, want 307", n)
		}
		succeed(t, s.env, "after-restore", "--grants")
		if n := granted(); n != 300 {
			t.Errorf("%d are granted, want 300", n)
		}
	})
}

package acme

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

var sealKey = bytes.Repeat([]byte{7}, 32)

// clock is the time of the nodes of a test.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return dbtest.Noon.Add(time.Duration(c.ahead.Load())) }

// eachDatabase passes the files of two nodes with one database, and their clock.
func eachDatabase(t *testing.T, test func(t *testing.T, d *db.DB, one, other *Files, c *clock)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		c := &clock{}
		node := func() *Files { return &Files{DB: d, Box: secrets.Box{Key: sealKey}, Now: c.now} }
		test(t, d, node(), node(), c)
	})
}

// TestFiles_AreShared checks the contract of certmagic.Storage: what one node stores, another one reads.
func TestFiles_AreShared(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ *db.DB, one, other *Files, _ *clock) {
		ctx := t.Context()
		for _, name := range []string{"a/b/1.crt", "a/b/1.key", "a/c.json", "a/b0", "ab", "a/B"} {
			must.NoError(t, one.Store(ctx, name, []byte("first")))
			must.NoError(t, one.Store(ctx, name, []byte(name)))
		}
		wanttest.Equal(t, "a/b/1.crt", string(must.Value(other.Load(ctx, "a/b/1.crt"))(t)), "content")
		for name, want := range map[string]bool{
			"a": true, "a/b": true, "a/b/1.crt": true, "ab": true, "a/": false, "b": false, "a/b/1": false, "": false,
		} {
			if got := other.Exists(ctx, name); got != want {
				t.Errorf("%q exists: %t", name, got)
			}
		}
		list := func(folder string, recursive bool) []string {
			return must.Value(other.List(ctx, folder, recursive))(t)
		}
		wanttest.Equal(t, []string{"a/B", "a/b", "a/b0", "a/c.json"}, list("a", false), "children")
		wanttest.Equal(t, []string{"a/B", "a/b/1.crt", "a/b/1.key", "a/b0", "a/c.json"}, list("a", true), "files")
		want := certmagic.KeyInfo{Key: "a/c.json", Modified: dbtest.Noon, Size: 8, IsTerminal: true}
		if diff := cmp.Diff(want, must.Value(other.Stat(ctx, "a/c.json"))(t)); diff != "" {
			t.Errorf("a file (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(certmagic.KeyInfo{Key: "a/b"}, must.Value(other.Stat(ctx, "a/b"))(t)); diff != "" {
			t.Errorf("a folder (-want +got):\n%s", diff)
		}
		must.NoError(t, other.Delete(ctx, "a/b"))
		must.NoError(t, other.Delete(ctx, "a/b"))
		wanttest.Equal(t, []string{"a/B", "a/b0", "a/c.json"}, list("a", true), "rest")
		for what, err := range map[string]error{
			"load": errstest.Of(one.Load(ctx, "a/b/1.crt")), "a folder": errstest.Of(one.Load(ctx, "a")),
			"list": errstest.Of(one.List(ctx, "a/b", false)), "stat": errstest.Of(one.Stat(ctx, "a/b")),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestFiles_AreSealed: the database has no content, and another key or name opens none.
func TestFiles_AreSealed(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB, one, other *Files, _ *clock) {
		system := db.AsSystem(t.Context())
		must.NoError(t, one.Store(t.Context(), "a", []byte("PRIVATE KEY")))
		var stored []byte
		must.NoError(t, d.NewSelect().Table("acme_files").Column("value").Scan(system, &stored))
		if bytes.Contains(stored, []byte("PRIVATE")) {
			t.Errorf("stored: %q", stored)
		}
		must.Value(d.ExecContext(system, "UPDATE acme_files SET name = 'b'"))(t)
		other.Box.Key = bytes.Repeat([]byte{8}, 32)
		for _, f := range []*Files{one, other} {
			if content, err := f.Load(t.Context(), "b"); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opened: %q, %v", content, err)
			}
		}
		other.Box = secrets.Box{}
		errstest.Want(t, errs.Forbidden, "without a key")(other.Store(t.Context(), "c", nil))
	})
}

// TestFiles_LockOnce has two nodes work on the same names.
func TestFiles_LockOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB, one, other *Files, _ *clock) {
		var inside, entered atomic.Int64
		var all sync.WaitGroup
		for i := range 6 {
			f := []*Files{one, other}[i%2]
			all.Go(func() {
				if err := f.Lock(t.Context(), "a"); err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				entered.Add(1)
				inside.Add(-1)
				if err := f.Unlock(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		wanttest.Equal(t, int64(6), entered.Load(), "entered")
		n := must.Value(d.NewSelect().Table("leases").Count(db.AsSystem(t.Context())))(t)
		wanttest.Equal(t, int64(0), n, "rows of locks")
		if err := one.Unlock(t.Context(), "a"); err == nil {
			t.Error("unlocked twice")
		}
	})
}

// TestFiles_LockOutlivesNoNode: a node that dies has its locks until their leases end, and takes none away afterwards.
func TestFiles_LockOutlivesNoNode(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB, dead, other *Files, c *clock) {
		ctx := t.Context()
		took := func(f *Files, name string) bool { return must.Value(f.TryLock(ctx, name))(t) }
		if !took(dead, "a") || took(other, "a") || !took(other, "b") {
			t.Error("a held lock is taken, or a free one is not")
		}
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := other.Lock(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for a held lock: %v", err)
		}
		c.ahead.Store(int64(lease.Life))
		if !took(other, "a") || took(dead, "a") {
			t.Error("the lock of a dead node is not taken, or is given to two")
		}
		must.NoError(t, other.Unlock(ctx, "b"))
		must.NoError(t, other.Unlock(ctx, "a"))
		if !took(dead, "c") {
			t.Error("not locked")
		}
		c.ahead.Store(int64(2 * lease.Life))
		must.NoError(t, other.CleanUp(ctx, allHosts))
		n := must.Value(d.NewSelect().Table("leases").Count(db.AsSystem(ctx)))(t)
		wanttest.Equal(t, int64(0), n, "rows of locks of dead nodes")
	})
}

// allHosts lets each host have a certificate.
func allHosts(_ context.Context, hosts []string) (map[string]bool, error) {
	may := map[string]bool{}
	for _, host := range hosts {
		may[host] = true
	}
	return may, nil
}

// TestFiles_CleanUp deletes the files of a domain that was removed, and old challenges.
func TestFiles_CleanUp(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ *db.DB, f, _ *Files, c *clock) {
		ctx := t.Context()
		for _, host := range []string{"go.example.com", "removed.example.com"} {
			for _, end := range []string{".crt", ".key", ".json"} {
				certificate, _ := selfSigned(t, host, dbtest.Noon)
				must.NoError(t, f.Store(ctx, "certificates/ca/"+host+"/"+host+end, certificate))
			}
			must.NoError(t, f.Store(ctx, "pauses/"+host+".json", []byte("{}")))
			must.NoError(t, f.Store(ctx, "acme/ca/challenge_tokens/"+host+".json", []byte("{}")))
		}
		must.NoError(t, f.Store(ctx, "acme/ca/users/ada@example.com/ada.key", []byte("k")))
		c.ahead.Store(int64(25 * time.Hour))
		must.NoError(t, f.Store(ctx, "acme/ca/challenge_tokens/go.example.com.json", []byte("{}"))) // a new order
		failing := errors.New("no answer")
		if err := f.CleanUp(ctx, func(context.Context, []string) (map[string]bool, error) {
			return nil, failing
		}); !errors.Is(err, failing) {
			t.Errorf("without an answer: %v", err)
		}
		must.NoError(t, f.CleanUp(ctx, func(_ context.Context, hosts []string) (map[string]bool, error) {
			slices.Sort(hosts)
			wanttest.Equal(t, []string{"go.example.com", "removed.example.com"}, hosts, "hosts")
			return map[string]bool{"go.example.com": true}, nil
		}))
		var left []string
		for _, folder := range []string{"acme", "certificates", "pauses"} {
			left = append(left, must.Value(f.List(ctx, folder, true))(t)...)
		}
		wanttest.Equal(t, []string{
			"acme/ca/challenge_tokens/go.example.com.json", "acme/ca/users/ada@example.com/ada.key",
			"certificates/ca/go.example.com/go.example.com.crt", "certificates/ca/go.example.com/go.example.com.json",
			"certificates/ca/go.example.com/go.example.com.key", "pauses/go.example.com.json",
		}, left, "files")
	})
}

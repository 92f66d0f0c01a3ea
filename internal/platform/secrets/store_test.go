package secrets_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
)

// secret has bytes that are no text.
var secret = []byte{0, 's', 0xff, 0, 0xc3}

func keyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

func exec(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	must.Value(d.NewRaw(statement, args...).Exec(db.AsSystem(t.Context())))(t)
}

// addTasks inserts n tasks with secrets of a key; nil means none. Their ids are a prefix and a
// number.
func addTasks(t *testing.T, d *db.DB, prefix string, n int, key []byte) {
	t.Helper()
	var rows [][]any
	for i := range n {
		id, value := prefix+strconv.Itoa(i), []byte(nil)
		if key != nil {
			value = must.Value(secrets.Box{Key: key}.Seal(secrets.TaskSecret, id, secret))(t)
		}
		rows = append(rows,
			[]any{id, "ws_a", "IMPORT", "QUEUED", "{}", dbtest.Noon, "usr_a", "opn_a", dbtest.Noon, dbtest.Noon, value})
	}
	exec(t, d,
		`INSERT INTO tasks (id, workspace_id, kind, status, input, due_at, actor_id, operation_id, created_at,
			updated_at, secret)
		VALUES ?`, bun.In(rows))
}

// stored returns the sealed secret of a row.
func stored(t *testing.T, d *db.DB, table, column, id string) (value []byte) {
	t.Helper()
	must.NoError(t, d.NewSelect().TableExpr("?", bun.Ident(table)).ColumnExpr("?", bun.Ident(column)).
		Where("id = ?", id).
		Scan(db.AsSystem(t.Context()), &value))
	return value
}

// eachDatabase runs the test on a database with a workspace and a deleted webhook, which has
// secrets of the old key.
func eachDatabase(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		exec(t, d, "INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'A', ?0, ?0)",
			dbtest.Noon)
		exec(t, d,
			`INSERT INTO webhooks (id, workspace_id, name, url, host, status, secret, old_secret, xid, seq, created_at,
			created_by,
			deleted_at) VALUES ('whk_a', 'ws_a', 'n', 'u', 'h', 'ACTIVE', ?1, ?2, 0, 0, ?0, 'usr_a', ?0)`, dbtest.Noon,
			must.Value(secrets.Box{Key: oldKey}.Seal(secrets.WebhookSecret, "whk_a", secret))(t),
			must.Value(secrets.Box{Key: oldKey}.Seal(secrets.WebhookOldSecret, "whk_a", secret))(t))
		addTasks(t, d, "tsk_none", 1, nil)
		test(t, d)
	})
}

// TestStore_RewrapsAllSecrets rewraps secrets of several keys and batches, and leaves those of a
// missing key.
func TestStore_RewrapsAllSecrets(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		const batch = 500
		addTasks(t, d, "tsk_a_lost", batch, lostKey)
		addTasks(t, d, "tsk_b_old", batch+1, oldKey)
		lost := stored(t, d, "tasks", "secret", "tsk_a_lost0")
		s := secrets.Store{DB: d, Box: secrets.Box{Key: newKey, Previous: [][]byte{oldKey}}}
		uses := func(want ...secrets.Use) {
			t.Helper()
			byKey := cmp.Transformer("byKey", func(all []secrets.Use) map[string]secrets.Use {
				m := map[string]secrets.Use{}
				for _, u := range all {
					m[u.Key] = u
				}
				return m
			})
			if diff := cmp.Diff(want, must.Value(s.InUse(t.Context()))(t), byKey); diff != "" {
				t.Errorf("keys in use (-want +got):\n%s", diff)
			}
		}
		uses(secrets.Use{Key: keyID(oldKey), State: secrets.Previous, Secrets: batch + 3},
			secrets.Use{Key: keyID(lostKey), State: secrets.Missing, Secrets: batch})
		for _, other := range []string{"", keyID(oldKey)} {
			must.NoError(t, s.Rewrap(t.Context(), other))
		}
		uses(secrets.Use{Key: keyID(newKey), State: secrets.Current, Secrets: batch + 3},
			secrets.Use{Key: keyID(lostKey), State: secrets.Missing, Secrets: batch})
		box := secrets.Box{Key: newKey}
		for _, row := range []struct {
			place             secrets.Place
			table, column, id string
		}{
			{secrets.WebhookSecret, "webhooks", "secret", "whk_a"}, {secrets.WebhookOldSecret, "webhooks", "old_secret",
				"whk_a"},
			{secrets.TaskSecret, "tasks", "secret", "tsk_b_old0"}, {secrets.TaskSecret, "tasks", "secret",
				"tsk_b_old500"},
		} {
			if got, err := box.Open(row.place, row.id, stored(t, d, row.table, row.column, row.id)); err != nil ||
				!bytes.Equal(got, secret) {
				t.Errorf("%s of %s: %q, %v", row.column, row.id, got, err)
			}
		}
		if got := stored(t, d, "tasks", "secret", "tsk_a_lost0"); !bytes.Equal(got, lost) {
			t.Error("the secret of a missing key is replaced")
		}
		must.NoError(t, s.Rewrap(t.Context(), keyID(lostKey)))
		uses(secrets.Use{Key: keyID(newKey), State: secrets.Current, Secrets: 2*batch + 3})
		if got, err := box.Open(secrets.TaskSecret, "tsk_a_lost0",
			stored(t, d, "tasks", "secret", "tsk_a_lost0")); err != nil || len(got) != 32 {
			t.Errorf("of the lost key: %q, %v", got, err)
		}
		errstest.Want(t, errs.Forbidden, "without a key")((secrets.Store{DB: d}).Rewrap(t.Context(), ""))
	})
}

// afterRead is a query hook that runs a function after the secrets of tasks are read.
type afterRead func()

func (afterRead) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (f afterRead) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.Contains(e.Query, `FROM "tasks"`) && strings.Contains(e.Query, "LIMIT") {
		f()
	}
}

// TestStore_KeepsChanges changes secrets between the read and the write of a rewrap.
func TestStore_KeepsChanges(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		addTasks(t, d, "tsk_ended", 1, oldKey)
		addTasks(t, d, "tsk_changed", 1, oldKey)
		another := must.Value(secrets.Box{Key: oldKey}.Seal(secrets.TaskSecret, "tsk_changed0", []byte("another")))(t)
		change := sync.OnceFunc(func() {
			exec(t, d, "UPDATE tasks SET secret = NULL WHERE id = 'tsk_ended0'")
			exec(t, d, "UPDATE tasks SET secret = ? WHERE id = 'tsk_changed0'", another)
		})
		d.DB = d.WithQueryHook(afterRead(change))
		must.NoError(t,
			secrets.Store{DB: d, Box: secrets.Box{Key: newKey, Previous: [][]byte{oldKey}}}.Rewrap(t.Context(), ""))
		if got := stored(t, d, "tasks", "secret", "tsk_ended0"); got != nil {
			t.Errorf("of the ended task: %q", got)
		}
		if got := stored(t, d, "tasks", "secret", "tsk_changed0"); !bytes.Equal(got, another) {
			t.Errorf("of the changed task: %q", got)
		}
	})
}

// TestStore_ChecksKeys checks with and without the keys in use.
func TestStore_ChecksKeys(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		check := func(b secrets.Box) error { return secrets.Store{DB: d, Box: b}.Check(t.Context()) }
		must.NoError(t, check(secrets.Box{Key: oldKey}))
		must.NoError(t, check(secrets.Box{Key: newKey, Previous: [][]byte{lostKey, oldKey}}))
		for name, box := range map[string]secrets.Box{
			"without a key": {}, "with another key": {Key: newKey, Previous: [][]byte{lostKey}},
		} {
			err := check(box)
			for _, want := range []string{keyID(oldKey) + " (2 secrets)", "LINKFORGE_ENCRYPTION_KEY_PREVIOUS"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", name, err, want)
				}
			}
		}
		exec(t, d, "DELETE FROM webhooks")
		must.NoError(t, check(secrets.Box{}))
	})
}

// TestStore_DeletesObtainableSecrets of a lost key, instead of replacing them by random ones, and
// seals the others again.
func TestStore_DeletesObtainableSecrets(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for name, key := range map[string][]byte{"old": oldKey, "lost": lostKey, "new": newKey} {
			exec(t, d, "INSERT INTO acme_files (name, value, modified_at) VALUES (?, ?, ?)", name,
				must.Value(secrets.Box{Key: key}.Seal(secrets.ACMEFile, name, secret))(t), dbtest.Noon)
		}
		s := secrets.Store{DB: d, Box: secrets.Box{Key: newKey, Previous: [][]byte{oldKey}}}
		must.NoError(t, s.Rewrap(t.Context(), keyID(lostKey)))
		var rows []struct {
			Name  string
			Value []byte
		}
		must.NoError(t, d.NewSelect().Table("acme_files").Column("name", "value").Order("name").
			Scan(db.AsSystem(t.Context()), &rows))
		var names []string
		for _, row := range rows {
			names = append(names, row.Name)
			got, err := secrets.Box{Key: newKey}.Open(secrets.ACMEFile, row.Name, row.Value)
			if err != nil || !bytes.Equal(got, secret) {
				t.Errorf("%s: %q, %v", row.Name, got, err)
			}
		}
		if diff := cmp.Diff([]string{"new", "old"}, names); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}

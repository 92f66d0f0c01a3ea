package link

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

// TestCreatePresumed_SeesEveryChange: what a node remembers of a member never decides.
func TestCreatePresumed_SeesEveryChange(t *testing.T) {
	t.Parallel()
	const fromMember = " WHERE workspace_id = ?0 AND account_id = ?1"
	for name, c := range map[string]struct {
		change string
		want   string
	}{
		"nothing":             {"", "created with 302"},
		"another workspace":   {"UPDATE workspaces SET updated_at = ?2 WHERE id <> ?0", "created with 302"},
		"the member removed":  {"DELETE FROM members" + fromMember, errs.NotFound.Code()},
		"a lower role":        {"UPDATE members SET role = 'VIEWER'" + fromMember, errs.Forbidden.Code()},
		"a higher role":       {"UPDATE members SET role = 'ADMIN'" + fromMember, "created with 302"},
		"another default":     {"UPDATE workspaces SET default_redirect_status = 301 WHERE id = ?0", "created with 301"},
		"a lower quota":       {"UPDATE workspaces SET link_quota = 0 WHERE id = ?0", errs.QuotaExceeded.Code()},
		"a deleted workspace": {"UPDATE workspaces SET deleted_at = ?2 WHERE id = ?0", errs.NotFound.Code()},
		"a verified domain": {"INSERT INTO domains (id, workspace_id, host, token, created_at, verified_at) " +
			"VALUES ('dom_a', ?0, 'www.example.com', 'a', ?2, ?2)", errs.UnsafeURL.Code()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				spaces := workspacetest.Store(d)
				editor := workspacetest.Join(t, d, b.mine.ID(), workspace.Editor).AccountID()
				p, err := spaces.Presume(t.Context(), account.Actor{AccountID: editor}, b.mine.ID())
				if err != nil {
					t.Fatal(err)
				}
				if c.change != "" {
					if _, err := d.NewRaw(c.change, b.mine.ID(), editor, noon).Exec(db.AsSystem(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				in := New{URL: "https://www.example.com/a"}
				if got := b.createPresumed(t, p, in); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				again, err := spaces.Presume(t.Context(), account.Actor{AccountID: editor}, b.mine.ID())
				want := c.want
				if want[:3] == "cre" {
					want = "found" + want[len("created"):]
				}
				if err != nil {
					if code := errs.From(err).Kind.Code(); code != want {
						t.Errorf("afterwards: %s, want %s", code, want)
					}
				} else if got := b.createPresumed(t, again, in); got != want {
					t.Errorf("afterwards: %s, want %s", got, want)
				}
				if used := b.usage(t); used != int64(len(b.all(t))) {
					t.Errorf("%d links are %d of the quota", len(b.all(t)), used)
				}
			})
		})
	}
}

// createPresumed creates a link and describes the result.
func (b *bundle) createPresumed(t *testing.T, p workspace.Presumed, in New) string {
	t.Helper()
	results, err := b.CreatePresumed(t.Context(), p, Batch{Links: []*New{&in}})
	if err == nil {
		err = results[0].Err
	}
	switch {
	case err != nil:
		return errs.From(err).Kind.Code()
	case results[0].Created:
		return fmt.Sprint("created with ", results[0].Link.RedirectStatus)
	}
	return fmt.Sprint("found with ", results[0].Link.RedirectStatus)
}

// all returns the ids of all links of the workspace.
func (b *bundle) all(t *testing.T) (ids []string) {
	t.Helper()
	err := b.DB.NewSelect().Table("links").Column("id").Where("workspace_id = ?", b.mine.ID()).
		Scan(db.AsSystem(t.Context()), &ids)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestCreateAtOnce_MixesNewAndExistingLinks: one batch has new links, existing, deleted and disabled ones, and equal
// requests.
func TestCreateAtOnce_MixesNewAndExistingLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		url := func(name string) New { return New{URL: "https://www.example.com/" + name} }
		old, _ := b.create(t, url("old"))
		deleted, _ := b.create(t, url("deleted"))
		if _, err := b.Delete(t.Context(), b.mine, deleted.ID); err != nil {
			t.Fatal(err)
		}
		disabled, _ := b.create(t, url("disabled"))
		_, err := d.NewRaw("UPDATE links SET disabled_at = ? WHERE id = ?", noon, disabled.ID).Exec(db.AsSystem(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"old", "new", "new", "deleted", "disabled", "newer"}
		got := make([]string, len(names))
		release := b.hold(t, b.mine)
		var callers sync.WaitGroup
		for i, name := range names {
			callers.Go(func() {
				l, created, err := b.Create(t.Context(), b.mine, url(name))
				switch {
				case err != nil:
					got[i] = errs.From(err).Kind.Code()
				case created:
					got[i] = "created"
				default:
					got[i] = map[string]string{old.ID: "old", deleted.ID: "deleted"}[l.ID]
				}
			})
			b.awaitRequests(t, b.mine, i+1)
		}
		release()
		callers.Wait()
		want := []string{"old", "created", "", "deleted", errs.UnsafeURL.Code(), "created"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if used := b.usage(t); used != 5 {
			t.Errorf("%d of the quota are used, want 5", used)
		}
	})
}

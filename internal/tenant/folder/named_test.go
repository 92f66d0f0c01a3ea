package folder_test

import (
	"context"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// named is a store of T, a type of named rows.
type named[T any] struct {
	create func(ctx context.Context, m workspace.Membership, name string) (*T, error)
	rename func(ctx context.Context, m workspace.Membership, rowID, name string) (*T, error)
	list   func(ctx context.Context, m workspace.Membership, r page.Request) (page.Page[*T], error)
	row    func(*T) folder.Named
}

// TestNamed_NamesAreUnique in their workspace, and lists are in their order.
func TestNamed_NamesAreUnique(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		mine, other := workspacetest.New(t, d, "acme"), workspacetest.New(t, d, "emca")
		folders := &folder.Store{DB: d, Now: time.Now}
		t.Run("folders", func(t *testing.T) {
			named[folder.Folder]{
				folders.Create, folders.Rename, folders.Rows().List,
				func(f *folder.Folder) folder.Named { return f.Named },
			}.test(t, mine, other)
		})
		templates := &folder.TemplateStore{DB: d, Now: time.Now}
		t.Run("templates", func(t *testing.T) {
			named[folder.Template]{
				func(ctx context.Context, m workspace.Membership, name string) (*folder.Template, error) {
					return templates.Create(ctx, m, name, &routing.UTM{Source: &name})
				},
				func(ctx context.Context, m workspace.Membership, rowID, name string) (*folder.Template, error) {
					return templates.Update(ctx, m, rowID, folder.TemplateChange{Name: optional.Set(name)})
				},
				templates.Rows().List, func(f *folder.Template) folder.Named { return f.Named },
			}.test(t, mine, other)
		})
	})
}

func (n named[T]) test(t *testing.T, mine, other workspace.Membership) {
	ctx := t.Context()
	first := n.row(must.Value(n.create(ctx, mine, " Über uns "))(t))
	second := n.row(must.Value(n.create(ctx, mine, "B"))(t))
	must.Value(n.create(ctx, other, "über uns"))(t)
	for name, want := range map[string]errs.Kind{"ÜBER UNS": errs.Conflict, "": errs.InvalidInput,
		"a\nb": errs.InvalidInput} {
		if _, err := n.create(ctx, mine, name); !errs.Is(err, want) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := n.rename(ctx, mine, second.ID, name); !errs.Is(err, want) {
			t.Errorf("renaming to %q: %v", name, err)
		}
	}
	if again := n.row(must.Value(n.rename(ctx, mine, first.ID, "ÜBER uns"))(t)); again.Name != "ÜBER uns" {
		t.Errorf("%+v", again)
	}
	errstest.Want(t, errs.NotFound, "a row of another workspace")(n.rename(ctx, other, second.ID, "C"))
	must.Value(n.rename(ctx, mine, first.ID, "a"))(t)
	var names []string
	r := page.Request{Order: folder.Order, Size: 1}
	for range 2 {
		p := must.Value(n.list(ctx, mine, r))(t)
		for _, row := range p.Items {
			names = append(names, n.row(row).Name)
		}
		r = must.Value(folder.Order.Parse(id.PrefixOf(first.ID), new(1), &p.Cursors[0], nil, nil))(t)
	}
	wanttest.Equal(t, []string{"a", "B"}, names, "names in order")
}

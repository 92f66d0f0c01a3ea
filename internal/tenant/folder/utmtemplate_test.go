package folder_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestUpdate_KeepsConcurrentChanges: two members change different fields of a template at once.
func TestUpdate_KeepsConcurrentChanges(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		s := &folder.TemplateStore{DB: d, Now: time.Now}
		m := workspacetest.New(t, d, "acme")
		source := func(n int) *routing.UTM { return &routing.UTM{Source: new(fmt.Sprintf("source %d", n))} }
		changes := func(n int) []folder.TemplateChange {
			return []folder.TemplateChange{{Name: optional.Set(fmt.Sprintf("name %d", n))},
				{UTM: optional.Set(source(n))}}
		}
		template := must.Value(s.Create(t.Context(), m, "name 0", source(0)))(t)
		for n := 1; n <= 10; n++ {
			var members sync.WaitGroup
			for _, c := range changes(n) {
				members.Go(func() {
					if _, err := s.Update(t.Context(), m, template.ID, c); err != nil {
						t.Error(err)
					}
				})
			}
			members.Wait()
			got := must.Value(s.Rows().Get(t.Context(), m, template.ID))(t)
			if got.Name != fmt.Sprintf("name %d", n) || *got.UTM.Source != *source(n).Source {
				t.Errorf("%q with source %q after change %d", got.Name, *got.UTM.Source, n)
			}
		}
		must.Value(s.Delete(t.Context(), m, template.ID))(t)
		errstest.Want(t, errs.NotFound, "updating a deleted template")(
			s.Update(t.Context(), m, template.ID, changes(1)[0]))
		errstest.Want(t, errs.NotFound, "deleting a deleted template")(s.Delete(t.Context(), m, template.ID))
	})
}

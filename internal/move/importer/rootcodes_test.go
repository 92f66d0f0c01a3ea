package importer_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// TestRestoreRootCodes_BelievesSignatures: an archive has at the root what its text says, and its code
// works there if this server, or one with the same secret and public URL, has signed it.
func TestRestoreRootCodes_BelievesSignatures(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Import.PublicURL, b.Import.RootKeys = "http://sho.rt", [][]byte{[]byte("a secret"), []byte("the one before")}
		there := *b.Import // where the archive is from
		there.RootKeys = b.Import.RootKeys[1:]
		foreign, elsewhere := there, there
		foreign.RootKeys, elsewhere.PublicURL = [][]byte{[]byte("a guess")}, "http://other.example"
		prove := func(s importer.Store, id, code string) string {
			l := &link.Link{ID: id, Code: code, RootCode: &code, In: b.Mine, WorkspaceID: b.Mine.ID()}
			return optional.Value(must.Value(s.Archived(t.Context(), b.Mine, []*link.Link{l}))(t)[0].RootProof)
		}
		for code, proof := range map[string]string{
			"signed":           prove(there, "lnk_signed", "signed"),
			"signed-now":       prove(*b.Import, "lnk_signed-now", "signed-now"),
			"edited":           prove(there, "lnk_edited", "another"),
			"another-link":     prove(there, "lnk_x", "another-link"),
			"unsigned":         "",
			"of-another-key":   prove(foreign, "lnk_of-another-key", "of-another-key"),
			"of-another-place": prove(elsewhere, "lnk_of-another-place", "of-another-place"),
		} {
			l := b.Make(t, creation.Input{URL: "https://example.com/" + code, CustomCode: &code})
			origin := &importer.Origin{
				WorkspaceID: b.Mine.ID(), Source: importsource.Linkforge, SourceID: "lnk_" + code, LinkID: l.ID,
				SourceURL: new("http://sho.rt/" + code), Hash: []byte{1}, ImportedAt: b.Now, RootProof: proof,
			}
			must.Value(b.db.NewInsert().Model(origin).Exec(db.AsSystem(t.Context())))(t)
		}
		for i, want := range []int64{2, 0} {
			err := b.db.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				n, refused, err := b.Import.RestoreRootCodes(ctx, tx, b.Mine.ID())
				names := []string{"another-link", "edited", "of-another-key", "of-another-place", "unsigned"}
				if diff := cmp.Diff(names, refused); diff != "" || n != want {
					t.Errorf("call %d: %d codes, refused (-want +got):\n%s", i, n, diff)
				}
				return err
			})
			must.NoError(t, err)
		}
	})
}

package codecounter

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// emptyOf returns a further database.
func emptyOf(t *testing.T, kind db.Kind) *db.DB {
	t.Helper()
	if kind == db.Postgres {
		return dbtest.MigratedPostgres(t)
	}
	return dbtest.MigratedSQLite(t)
}

// TestCells_IssueDifferentCodes takes codes with one secret in three databases, before and after a
// restore, and with a new secret: each counter is one of the own cell.
func TestCells_IssueDifferentCodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		given := map[string]int{}
		for _, cell := range []int{0, 7, Cells - 1} {
			own := d
			if cell != 0 {
				own = emptyOf(t, d.Kind)
			}
			for _, secrets := range [][][]byte{secretsOf("old"), secretsOf("old"), secretsOf("new", "old")} {
				permutation := shortcode.NewPermutation(secrets[0])
				for _, code := range must.Value(New(own, secrets, cell).Take(t.Context(), BlockSize+1))(t) {
					if counter, ok := permutation.Counter(code); !ok || counter>>36 != uint64(cell) {
						t.Fatalf("cell %d issues %s, the code of counter %d", cell, code, counter)
					}
					if other, isGiven := given[code]; isGiven {
						t.Fatalf("cells %d and %d issue %s", other, cell, code)
					}
					given[code] = cell
				}
				if next := must.Value(AfterRestore(t.Context(), own))(t); next>>36 != uint64(cell) {
					t.Errorf("a restore moves cell %d to counter %d", cell, next)
				}
			}
		}
	})
}

// TestCells_EndWithTheirCounters uses up the counters of a cell: it takes none of the next one.
func TestCells_EndWithTheirCounters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must.Value(New(d, secretsOf("own"), 3).Take(t.Context(), 1))(t)
		must.Value(d.ExecContext(db.AsSystem(t.Context()), "UPDATE counters SET next = ? WHERE name = 'code'",
			firstOf(4)-2*BlockSize))(t)
		must.Value(New(d, secretsOf("own"), 3).Take(t.Context(), 2*BlockSize-100))(t)
		if codes, err := New(d, secretsOf("own"), 3).Take(t.Context(), 1); !errs.Is(err, errs.CodeExhausted) {
			t.Errorf("after the last counter of the cell: %v, %v", codes, err)
		}
	})
}

// TestPin_KeepsTheCell: a database keeps the number of its cell, and one that has issued codes
// before is cell 0.
func TestPin_KeepsTheCell(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, step := range []struct {
			cell    int
			refused bool
		}{{12, false}, {12, false}, {0, true}, {13, true}, {12, false}} {
			if err := New(d, secretsOf("own"), step.cell).Pin(t.Context()); (err != nil) != step.refused {
				t.Errorf("cell %d: %v, want refused: %t", step.cell, err, step.refused)
			}
		}
		if _, err := New(d, secretsOf("own"), 13).Take(t.Context(), 1); err == nil {
			t.Error("a node of another cell issues codes")
		}
		earlier := emptyOf(t, d.Kind)
		must.Value(New(earlier, secretsOf("own"), 0).Take(t.Context(), 1))(t)
		must.Value(earlier.ExecContext(db.AsOwner(t.Context()), "DELETE FROM instance WHERE name = 'cell'"))(t)
		if err := New(earlier, secretsOf("own"), 5).Pin(t.Context()); err == nil {
			t.Error("a database with codes becomes cell 5")
		}
		must.NoError(t, New(earlier, secretsOf("own"), 0).Pin(t.Context()))
	})
}

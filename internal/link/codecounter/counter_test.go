package codecounter

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// secretsOf are code secrets, by names that a test can read.
func secretsOf(names ...string) (secrets [][]byte) {
	for _, name := range names {
		secrets = append(secrets, fmt.Appendf(nil, "the code secret %s of thirty-two bytes", name))
	}
	return secrets
}

func TestPin_RequiresEverySecretInUse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for i, step := range []struct {
			secrets []string
			refused bool
		}{
			{[]string{"old"}, false},
			{[]string{"old"}, false},
			{[]string{"other"}, true},
			{[]string{"other", "unrelated"}, true},
			{[]string{"new", "old"}, false},
			{[]string{"old", "new"}, false},
			{[]string{"new", "unused", "old"}, false},
			{[]string{"new"}, true},
			{[]string{"old"}, true},
			{[]string{"newest", "new"}, true},
			{[]string{"newest", "old", "new"}, false},
			{[]string{"new", "old"}, true},
		} {
			err := New(d, secretsOf(step.secrets...), 0).Pin(t.Context())
			if (err != nil) != step.refused {
				t.Errorf("step %d, secrets %v: %v, want refused: %t", i, step.secrets, err, step.refused)
			}
		}
		if err := New(d, nil, 0).Pin(t.Context()); err == nil {
			t.Error("no secret at all is accepted")
		}
	})
}

// TestCounters_RotatedSecretSkipsIssuedCodes pretends that all codes of the cell have been given
// out with the previous secret: one in 51 of all codes.
func TestCounters_RotatedSecretSkipsIssuedCodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must.Value(New(d, secretsOf("old"), 0).Take(t.Context(), 1))(t)
		rotated := New(d, secretsOf("new", "old", "new", "old"), 0)
		must.NoError(t, New(d, secretsOf("new", "old"), 0).Pin(t.Context()))
		const issued = cellSize
		must.Value(d.ExecContext(db.AsSystem(t.Context()), "UPDATE counters SET next = ? WHERE name = 'code'",
			int64(issued)))(t)
		const codes = 5000
		taken := must.Value(rotated.Take(t.Context(), codes))(t)
		old := shortcode.NewPermutation(secretsOf("old")[0])
		for _, code := range taken {
			if counter, ok := old.Counter(code); !ok || counter < issued {
				t.Fatalf("%s had been given out with the previous secret, as counter %d", code, counter)
			}
		}
		if skipped := rotated.next - BlockSize - codes; skipped < codes/100 || skipped > codes/25 {
			t.Errorf("%d counters for %d codes, want 2 %% more", rotated.next, codes)
		}
	})
}

// TestCounters_NodesMayRotateOneAfterTheOther takes codes at the same time on nodes with the
// previous secret, the new one, and the previous one in front again.
func TestCounters_NodesMayRotateOneAfterTheOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var mu sync.Mutex
		taken := map[string]bool{}
		var taking sync.WaitGroup
		for _, secrets := range [][]string{{"old"}, {"new", "old"}, {"new", "old"}, {"old", "new"}} {
			node := New(d, secretsOf(secrets...), 0)
			must.Value(node.Take(t.Context(), 1))(t)
			taking.Go(func() {
				for range 3 {
					codes, err := node.Take(t.Context(), BlockSize+1)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, code := range codes {
						if taken[code] {
							t.Errorf("%s was given out twice", code)
						}
						taken[code] = true
					}
					mu.Unlock()
				}
			})
		}
		taking.Wait()
		if _, err := New(d, secretsOf("new"), 0).Take(t.Context(), 1); err == nil {
			t.Error("codes are given out without the previous secret")
		}
	})
}

// TestAfterRestore_MovesAllEpochs restores a backup that was made before the secret was replaced:
// codes that were given out with the new secret since then are not given out again.
func TestAfterRestore_MovesAllEpochs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must.Value(New(d, secretsOf("old"), 0).Take(t.Context(), 1))(t)
		before, err := New(d, secretsOf("new", "old"), 0).Take(t.Context(), 2*BlockSize)
		must.NoError(t, err)
		must.Value(d.ExecContext(db.AsSystem(t.Context()),
			"UPDATE counters SET name = 'lost' WHERE name LIKE 'code:%'"))(t)
		next, err := AfterRestore(t.Context(), d)
		if err != nil || next <= restoreGap {
			t.Fatalf("moved to %d: %v", next, err)
		}
		after, err := New(d, secretsOf("new", "old"), 0).Take(t.Context(), 2*BlockSize)
		must.NoError(t, err)
		given := map[string]bool{}
		for _, code := range append(before, after...) {
			if given[code] {
				t.Fatalf("%s was given out twice", code)
			}
			given[code] = true
		}
		// A secret that the restored database does not know counts as far as all others.
		must.Value(d.ExecContext(db.AsSystem(t.Context()), "UPDATE counters SET next = ? WHERE name <> 'lost'",
			int64(cellSize/2)))(t)
		latest, err := New(d, secretsOf("newest", "unknown", "new", "old"), 0).Take(t.Context(), 5000)
		must.NoError(t, err)
		unknown := shortcode.NewPermutation(secretsOf("unknown")[0])
		for _, code := range latest {
			if counter, ok := unknown.Counter(code); !ok || counter < cellSize/2 {
				t.Fatalf("%s may have been given out with a secret that the database does not know", code)
			}
		}
		moved, err := AfterRestore(t.Context(), d)
		if err != nil || moved < next+restoreGap {
			t.Errorf("moved from %d to %d: %v", next, moved, err)
		}
	})
}

func TestCounters_WithoutASecretReturnAnError(t *testing.T) {
	t.Parallel()
	if codes, err := New(nil, nil, 0).Take(t.Context(), 1); err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("%v: %v", codes, err)
	}
}

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

// TestCounter_NeverRepeatsACodeAfterRestore takes codes, goes back, and takes codes again.
func TestCounter_NeverRepeatsACodeAfterRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fresh := func() *Counter { return New(d, [][]byte{[]byte("a secret")}, 0) }
		next := func() (n int64) {
			must.NoError(t, d.NewSelect().Table("counters").Column("next").Where("name = 'code'").
				Scan(db.AsSystem(t.Context()), &n))
			return n
		}
		if n, err := AfterRestore(t.Context(), d); n != restoreGap || err != nil {
			t.Errorf("of a database without codes: %d: %v", n, err)
		}
		must.Value(fresh().Take(t.Context(), 5))(t)
		backup := next()
		after := must.Value(fresh().Take(t.Context(), 3000))(t)
		set := func(n int64) {
			must.Value(d.ExecContext(db.AsSystem(t.Context()), "UPDATE counters SET next = ? WHERE name = 'code'",
				n))(t)
		}
		set(backup)
		if n, err := AfterRestore(t.Context(), d); int64(n) != backup+restoreGap || err != nil {
			t.Errorf("moved to %d: %v", n, err)
		}
		again := must.Value(fresh().Take(t.Context(), 3000))(t)
		given := map[string]bool{}
		for _, code := range append(after, again...) {
			if given[code] {
				t.Fatalf("%s was given out twice", code)
			}
			given[code] = true
		}
		const last = cellSize - restoreGap + 1
		set(last)
		if _, err := AfterRestore(t.Context(), d); !errs.Is(err, errs.CodeExhausted) || next() != last {
			t.Errorf("beyond the last counter: moved to %d: %v", next(), err)
		}
	})
}

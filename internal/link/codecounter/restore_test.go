package codecounter

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

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

package codecounter

import (
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// TestCounter_NeverRepeatsACodeAfterRestore takes codes, goes back, and takes codes again.
func TestCounter_NeverRepeatsACodeAfterRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fresh := func() *Counter { return New(d, [][]byte{[]byte("a secret")}) }
		next := func() (n int64) {
			if err := d.NewSelect().Table("counters").Column("next").Where("name = 'code'").
				Scan(db.AsSystem(t.Context()), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n, err := AfterRestore(t.Context(), d); n != restoreGap || err != nil {
			t.Errorf("of a database without codes: %d: %v", n, err)
		}
		if _, err := fresh().Take(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		backup := next()
		after, err := fresh().Take(t.Context(), 3000)
		if err != nil {
			t.Fatal(err)
		}
		set := func(n int64) {
			if _, err := d.ExecContext(db.AsSystem(t.Context()), "UPDATE counters SET next = ? WHERE name = 'code'",
				n); err != nil {
				t.Fatal(err)
			}
		}
		set(backup)
		if n, err := AfterRestore(t.Context(), d); int64(n) != backup+restoreGap || err != nil {
			t.Errorf("moved to %d: %v", n, err)
		}
		again, err := fresh().Take(t.Context(), 3000)
		if err != nil {
			t.Fatal(err)
		}
		given := map[string]bool{}
		for _, code := range append(after, again...) {
			if given[code] {
				t.Fatalf("%s was given out twice", code)
			}
			given[code] = true
		}
		set(int64(shortcode.Counters) - restoreGap + 1)
		if _, err := AfterRestore(t.Context(), d); !errs.Is(err, errs.CodeExhausted) ||
			next() != int64(shortcode.Counters)-restoreGap+1 {
			t.Errorf("beyond the last counter: moved to %d: %v", next(), err)
		}
	})
}

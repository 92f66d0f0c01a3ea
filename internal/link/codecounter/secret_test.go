package codecounter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
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

// TestCounters_NodesMayRotateOneAfterTheOther takes codes on nodes with the previous secret, the
// new one, and the previous one in front again.
func TestCounters_NodesMayRotateOneAfterTheOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		taken := map[string]bool{}
		nodes := []*Counter{
			New(d, secretsOf("old"), 0), New(d, secretsOf("new", "old"), 0),
			New(d, secretsOf("new", "old"), 0), New(d, secretsOf("old", "new"), 0),
		}
		for range 2 {
			for _, node := range nodes {
				codes := must.Value(node.Take(t.Context(), BlockSize+1))(t)
				for _, code := range codes {
					if taken[code] {
						t.Fatalf("%s was given out twice", code)
					}
					taken[code] = true
				}
			}
		}
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

package db_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestParams_AreBound: a statement with parameters finds the same rows as one with literals, and
// PostgreSQL stores one text of it.
func TestParams_AreBound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		d.SetMaxOpenConns(1)
		ctx := db.AsOwner(t.Context())
		must.Value(d.ExecContext(ctx, "CREATE TABLE words (word TEXT NOT NULL, length BIGINT NOT NULL)"))(t)
		for _, word := range []string{"a", "it's", `$1 ? "b" \`, "日本"} {
			p := d.Params()
			must.Value(d.NewRaw("INSERT INTO words (word, length) VALUES (?, ?)", p.Of(word), p.Of(len(word))).
				Exec(p.Bind(ctx)))(t)
		}
		for round := range 3 { // PostgreSQL plans the first round
			for _, c := range []struct {
				words []string
				least int
				want  []string
			}{
				{[]string{"a", "b"}, 0, []string{"a"}},
				{[]string{"it's", `$1 ? "b" \`, "日本"}, 5, []string{"日本", `$1 ? "b" \`}},
				{[]string{"' OR true --"}, 0, nil},
				{[]string{}, 0, nil},
			} {
				t.Run(fmt.Sprintf("%q, round %d", c.words, round), func(t *testing.T) {
					var got []string
					p := d.Params()
					err := d.NewSelect().Table("words").Column("word").Where("word ?", db.Among(p, c.words)).
						Where("length >= ?", p.Of(c.least)).
						Order("length").Scan(p.Bind(ctx), &got)
					if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
						t.Errorf("%q: %v (-want +got):\n%s", c.words, err, diff)
					}
				})
			}
		}
		if d.Kind != db.Postgres {
			return
		}
		var kept []string
		must.NoError(t,
			d.NewRaw("SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%words%' ORDER BY 1").
				Scan(ctx, &kept))
		want := []string{
			"INSERT INTO words (word, length) VALUES ($1, $2)",
			`SELECT "word" FROM "words" WHERE (word = ANY($1)) AND (length >= $2) ORDER BY "length"`,
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("prepared (-want +got):\n%s", diff)
		}
	})
}

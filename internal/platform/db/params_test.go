package db_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestParams_AreBound: a statement with parameters finds the same rows as one with literals, and
// PostgreSQL stores one text of it.
func TestParams_AreBound(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		d.SetMaxOpenConns(1)
		ctx := db.AsOwner(t.Context())
		must.Value(d.ExecContext(ctx, "CREATE TABLE words (word TEXT NOT NULL, length BIGINT NOT NULL)"))(t)
		for _, word := range []string{"a", "it's", `$1 ? "b" \`, "日本"} {
			p := d.Params()
			must.Value(d.NewRaw("INSERT INTO words (word, length) VALUES (?, ?)", p.Of(word), p.Of(len(word))).
				Exec(p.Bind(ctx)))(t)
		}
		for range 3 { // PostgreSQL plans the first round
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
				var got []string
				p := d.Params()
				err := d.NewSelect().Table("words").Column("word").Where("word ?", db.Among(p, c.words)).
					Where("length >= ?", p.Of(c.least)).
					Order("length").Scan(p.Bind(ctx), &got)
				must.NoError(t, err)
				wanttest.Equal(t, c.want, got, "%q", c.words)
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
		wanttest.Equal(t, want, kept, "prepared")
	})
}

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"
	"math/rand/v2"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/link"
)

func TestScratchFill(t *testing.T) {
	if os.Getenv("SCRATCH") == "" { t.Skip() }
	fillBoth := func(b *testing.B, d *db.DB) {
		w := setup(b, d, "")
		start := time.Now()
		for n := 0; n < 100000; {
			in := make([]*link.New, 1000)
			for i := range in {
				title := fmt.Sprintf("Report %d of the spring campaign", (n*7919)%100000)
				note := "Sent to everybody on the list"
				if n%10000 == 77 { note = "about the zebrafish" }
				if n < 5000 { note = "from the oldtimers" }
				if n%50==3 { note = "somewhat frequent" }
				tags := []string{}
				if n%1000 == 5 { tags = append(tags, "rare") }
				if n%2 == 0 { tags = append(tags, "half") }
				if n < 5000 { tags = append(tags, "old") }
				in[i] = &link.New{URL: fmt.Sprintf("https://www.example.com/articles/2026/topic-%d/item-%d?utm_source=newsletter&utm_medium=email", n%97, n), Title: &title, Note: &note, Tags: tags}
				n++
			}
			res, err := w.links.CreateMany(b.Context(), w.member, link.Batch{Links: in})
			if err != nil { b.Fatal(err) }
			_ = res
		}
		b.Log("filled", time.Since(start))
		var ids []string
		d.NewSelect().Table("links").Column("id").Order("id").Scan(b.Context(), &ids)
		r := rand.New(rand.NewPCG(1, 2))
		tx, _ := d.BeginTx(b.Context(), nil)
		for i, l := range ids {
			if r.IntN(10) < 6 || i < 20 {
				if _, err := tx.ExecContext(b.Context(), "INSERT INTO click_totals (link_id, workspace_id, clicks, latency_mean, latency_m2) VALUES (?, ?, ?, 1, 1)", l, w.member.ID(), r.IntN(1000)+1); err != nil { b.Fatal(err) }
			}
		}
		tx.Commit()
		b.Log("clicked", time.Since(start), w.member.ID())
	}
	res := testing.Benchmark(func(b *testing.B) {
		os.Remove("/tmp/exp.db")
		d, err := db.OpenSQLite("/tmp/exp.db", 4)
		if err != nil { b.Fatal(err) }
		fillBoth(b, d)
		fmt.Println("sqlite done", b.Elapsed())
	})
	_ = res
	res = testing.Benchmark(func(b *testing.B) {
		d, err := db.OpenPostgres(os.Getenv("EXP_PG"), 4)
		if err != nil { b.Fatal(err) }
		fillBoth(b, d)
		fmt.Println("pg done", b.Elapsed())
	})
}

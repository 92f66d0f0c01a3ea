package bench

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
)

func TestScratchQuery(t *testing.T) {
	f, err := os.Open(os.Getenv("SCRATCHQ")); if err != nil { t.Skip() }
	d, err := db.OpenSQLite("/tmp/exp.db", 4)
	if err != nil { t.Fatal(err) }
	defer d.Close()
	var ws string
	d.NewSelect().Table("links").Column("workspace_id").Limit(1).Scan(t.Context(), &ws)
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		q := strings.ReplaceAll(sc.Text(), ":ws", "'"+ws+"'")
		if q == "" { continue }
		if strings.HasPrefix(q, "!") { if _, err := d.Exec(q[1:]); err != nil { t.Fatal(err) }; fmt.Println(q); continue }
		fmt.Println("##", q)
		run := func(q string, print bool) int {
			rows, err := d.DB.DB.Query(q)
			if err != nil { t.Fatal(q, err) }
			defer rows.Close()
			cols, _ := rows.Columns()
			n := 0
			for rows.Next() {
				v := make([]any, len(cols)); p := make([]any, len(cols)); for i := range v { p[i] = &v[i] }
				rows.Scan(p...); n++
				if print { fmt.Println("     ", v[len(v)-1]) }
			}
			if rows.Err() != nil { t.Fatal(rows.Err()) }
			return n
		}
		run("EXPLAIN QUERY PLAN "+q, true)
		n := run(q, false)
		best := time.Hour
		for range 3 { s := time.Now(); run(q, false); best = min(best, time.Since(s)) }
		fmt.Println("   rows", n, best)
	}
}

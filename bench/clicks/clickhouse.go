package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickhouse"
)

// inClickHouse names the kind of a run whose clicks are in ClickHouse next to PostgreSQL.
const inClickHouse = "clickhouse"

// openClickHouse creates an empty database of ClickHouse, and opens it as the store of clicks.
func (b *bench) openClickHouse() {
	server := os.Getenv("LINKFORGE_TEST_CLICKHOUSE_URL")
	if server == "" {
		rig.Failf("LINKFORGE_TEST_CLICKHOUSE=on scripts/with-services provides a ClickHouse")
	}
	b.engine = rig.Must(url.Parse(server))
	name := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	b.ask("CREATE DATABASE "+name, nil)
	b.engine.Path = "/" + name
	b.store = clickhouse.New(clickhouse.Config{DB: b.db, URL: b.engine, ClickMonths: *months, Now: b.now})
	b.Cleanup(func() error {
		b.engine.Path = ""
		b.ask("DROP DATABASE "+name, nil)
		return nil
	})
}

// ask sends a statement to ClickHouse, and calls each with the rows of the answer.
func (b *bench) ask(statement string, each func(row func(any))) {
	to := *b.engine
	to.RawQuery = url.Values{"database": {strings.Trim(b.engine.Path, "/")},
		"output_format_json_quote_64bit_integers": {"0"}}.Encode()
	to.Path = "/"
	answer := rig.Must(http.Post(to.String(), "text/plain", strings.NewReader(statement)))
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		rig.Failf("%.200s: %s", statement, text)
	}
	if each == nil {
		return
	}
	for d := json.NewDecoder(answer.Body); d.More(); {
		each(func(into any) { rig.Check(d.Decode(into)) })
	}
}

// allClicks are the single clicks of both tables. The visits of open days are found by their order.
var allClicks = func() string {
	columns := "workspace_id, clicked_at, bot"
	for _, d := range click.StoredDimensions {
		columns += ", " + d.Column
	}
	const sealed = "(SELECT max(at) FROM bounds WHERE name = 'sealed')"
	return "(SELECT " + columns + ", visit FROM clicks WHERE clicked_at < " + sealed + " OR late UNION ALL SELECT " +
		columns +
		", visitor != 0 AND NOT bot AND row_number() OVER (PARTITION BY link_id, toDate(clicked_at), " +
		"visitor, bot ORDER BY clicked_at, id) = 1 " +
		"FROM clicks_open WHERE clicked_at >= " + sealed + ")"
}()

// counted is a group of clicks.
type counted struct {
	Quarter              int64
	Value                string
	Clicks, Visits, Bots int64
}

// groups counts clicks by the quarter of an hour and by value, one by one.
func (b *bench) groups(column, where string, args []any) (rows []counted) {
	for _, arg := range args {
		literal := fmt.Sprint(arg)
		switch v := arg.(type) {
		case string:
			literal = "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
		case time.Time:
			literal = fmt.Sprintf("fromUnixTimestamp64Micro(%d, 'UTC')", v.UnixMicro())
		}
		where = strings.Replace(where, "?", literal, 1)
	}
	b.ask("SELECT intDiv(toUnixTimestamp64Micro(clicked_at), 900000000) AS Quarter, toString("+column+
		") AS Value, count() AS Clicks, "+
		"countIf(visit) AS Visits, countIf(bot) AS Bots FROM "+allClicks+" WHERE "+where+
		" GROUP BY Quarter, Value ORDER BY Quarter FORMAT JSONEachRow", func(row func(any)) {
		var one counted
		row(&one)
		rows = append(rows, one)
	})
	return rows
}

// usedByClickHouse is the CPU time that the server has used for its threads.
func (b *bench) usedByClickHouse() (used time.Duration) {
	if b.kind != inClickHouse {
		return 0
	}
	b.ask("SELECT toInt64(sum(value)) AS Us FROM system.events WHERE event IN ('UserTimeMicroseconds', "+
		"'SystemTimeMicroseconds') "+
		"FORMAT JSONEachRow", func(row func(any)) {
		var one struct{ Us int64 }
		row(&one)
		used = time.Duration(one.Us) * time.Microsecond
	})
	return used
}

// sizesOfClickHouse are the bytes on disk of its tables.
func (b *bench) sizesOfClickHouse() (rows [][]string) {
	b.ask("SELECT table AS Table, toFloat64(sum(bytes_on_disk)) AS Bytes, toInt64(count()) AS Parts FROM "+
		"system.parts WHERE active AND "+
		"database = currentDatabase() GROUP BY table ORDER BY table FORMAT JSONEachRow", func(row func(any)) {
		var one struct {
			Table string
			Bytes float64
			Parts int
		}
		row(&one)
		rows = append(rows, []string{fmt.Sprintf("ClickHouse: %s, %d parts", one.Table, one.Parts),
			fmt.Sprintf("%.1f", one.Bytes/float64(b.total))})
	})
	return rows
}

package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// owners maps the columns that identify the owner of a row to the tenant's values.
func (e *estate) owners() map[string][]string {
	return map[string][]string{"workspace_id": e.ids[workspaceIDs], "account_id": e.ids[userIDs],
		"session_id": e.ids[sessionIDs]}
}

// publicTables are the tables without tenant data. auth_flows has a row for each requested
// password reset, which any caller may request for any address. A job empties link_text_queue, and fills the others.
var publicTables = []string{"auth_flows", "link_text_queue", "link_texts", "link_numbers"}

// rows returns the tenant's rows of all tables as JSON, by table.
func (e *estate) rows(d *db.DB) map[string][]string {
	e.t.Helper()
	found := map[string][]string{}
	for table, columns := range tablesOf(e.t, d) {
		if slices.Contains(publicTables, table) {
			continue
		}
		q := d.NewSelect().TableExpr("?", bun.Ident(table))
		whose := 0
		for column, ids := range e.owners() {
			if column == "workspace_id" && table == "workspaces" || column == "account_id" && table == "accounts" {
				column = "id"
			}
			if slices.Contains(columns, column) && len(ids) > 0 {
				q, whose = q.WhereOr("? IN (?)", bun.Ident(column), bun.In(ids)), whose+1
			}
		}
		if whose == 0 {
			continue
		}
		// A job may create a partition meanwhile.
		if rows := read(e.t, must.Value(q.Rows(db.AsSystem(e.t.Context())))(e.t)); len(rows) > 0 {
			found[table] = rows
		}
	}
	return found
}

// awaitMarked waits until all webhooks are marked with the events that they receive, which changes
// their rows. On PostgreSQL events wait for the transactions of all tests.
func awaitMarked(t *testing.T, d *db.DB) {
	t.Helper()
	later := map[db.Kind]string{db.SQLite: "event.seq > webhook.until_seq",
		db.Postgres: "(event.xid, event.seq) > (webhook.until_xid, webhook.until_seq)"}[d.Kind]
	polltest.Until(t, "webhooks are marked with their events", func() bool {
		n := must.Value(d.NewSelect().TableExpr("webhooks AS webhook").
			Join("JOIN webhook_types AS wanted ON wanted.webhook_id = webhook.id").
			Join("JOIN audit_events AS event ON event.workspace_id = webhook.workspace_id AND event.action = " +
				"wanted.type").
			Where(later).Count(db.AsSystem(t.Context())))(t)
		return n == 0
	})
}

// read returns rows as sorted JSON texts.
func read(t *testing.T, rows *sql.Rows) (all []string) {
	t.Helper()
	defer rows.Close()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		values, row := make([]any, len(columns)), map[string]any{}
		into := make([]any, len(columns))
		for i := range into {
			into[i] = &values[i]
		}
		err = rows.Scan(into...)
		for i, column := range columns {
			row[column] = values[i]
		}
		text, failed := json.Marshal(row)
		all, err = append(all, string(text)), errors.Join(err, failed)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// tablesOf are the columns of every table that the database has, by table. Partitions are not among
// them: their rows are those of the table that they are of, and jobs create those of later months.
func tablesOf(t *testing.T, d *db.DB) map[string][]string {
	t.Helper()
	query := `SELECT m.name AS "table", c.name AS "column" FROM sqlite_master AS m, pragma_table_info(m.name) AS c
		WHERE m.type = 'table'`
	if d.Kind == db.Postgres {
		query = `SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns
			JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = current_schema() AND
			table_type = 'BASE TABLE' AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)`
	}
	var rows []struct{ Table, Column string }
	must.NoError(t, d.NewRaw(query).Scan(db.AsOwner(t.Context()), &rows))
	tables := map[string][]string{}
	for _, row := range rows {
		tables[row.Table] = append(tables[row.Table], row.Column)
	}
	return tables
}

// addSecrets adds every ID and code in the tenant's rows to the secrets, except for values that the
// other tenant has, too.
func (e *estate) addSecrets(rows, other map[string][]string) {
	known := strings.Join(slices.Concat(slices.Collect(maps.Values(other))...), "\n")
	code := regexp.MustCompile(`"(?:code|root_code|prefix|token)":"([^"]{6,})"`)
	for _, row := range slices.Concat(slices.Collect(maps.Values(rows))...) {
		found := anID.FindAllString(row, -1)
		for _, match := range code.FindAllStringSubmatch(row, -1) {
			found = append(found, match[1])
		}
		for _, one := range found {
			if !e.secrets[one] && !strings.Contains(known, one) {
				e.secrets[one] = true
			}
		}
	}
}

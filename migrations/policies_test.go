package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// The workspaces of this test, with one member each.
const (
	own, foreign             = "ws_mine", "ws_foreign"
	ownMember, foreignMember = "usr_mine", "usr_foreign"
)

// rows contains an INSERT statement for each table with tenant data. The tenant's name replaces $.
var rows = map[string]string{
	"workspaces": `INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_$', '$', 'n',
		now(), now())`,
	"members": `INSERT INTO members VALUES ('ws_$', 'usr_$', 'OWNER', now())`,
	"slugs":   `INSERT INTO slugs VALUES ('old-$', 'ws_$', now())`,
	"invitations": `INSERT INTO invitations (id, workspace_id, email, role, token_hash, invited_by, created_at,
		expires_at) VALUES ('inv_$', 'ws_$', 'e', 'VIEWER', '$', 'usr_$', now(), now())`,
	"api_keys": `INSERT INTO api_keys (id, workspace_id, name, prefix, hash, scopes, created_by,
		created_at) VALUES ('key_$', 'ws_$', 'n', 'p', '$', 's', 'usr_$', now())`,
	"domains": `INSERT INTO domains (id, workspace_id, host, token, created_at, verified_at) VALUES ('dom_$',
		'ws_$', '$.example', 't', now(), now())`,
	"audit_events": `INSERT INTO audit_events VALUES ('evt_$', 'ws_$', 'usr_$', 'A', 't', '{}', now())`,
	"links": `INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url,
		canonical_hash, redirect_status, created_at, updated_at) VALUES ('lnk_$', 'ws_$', '$', '$', 'RANDOM', 'u', 'u',
		'h', 302, now(), now())`,
	"link_tags":        `INSERT INTO link_tags VALUES ('ws_$', 't', 'lnk_$')`,
	"link_usage":       `INSERT INTO link_usage VALUES ('ws_$', '2026-11', 1)`,
	"key_usage":        `INSERT INTO key_usage VALUES ('key_$', 'ws_$', '2026-11-20', 1)`,
	"idempotency_keys": `INSERT INTO idempotency_keys VALUES ('ws_$', 'usr_$', 'k', 'h', '[]', now())`,
	"clicks": `INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot,
		status) VALUES (1, 'ws_$', 'lnk_$', now(), 1, true, false, 302)`,
	"click_days": `INSERT INTO click_days VALUES ('lnk_$', now(), 'ws_$', 1, 1, 0, 1, 1, '')`,
	"click_totals": `INSERT INTO click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2)
		VALUES ('lnk_$', 'ws_$', 1, 1, 1)`,
	"link_texts":      `INSERT INTO link_texts VALUES ('lnk_$', 'ws_$', 's')`,
	"link_text_queue": `INSERT INTO link_text_queue (link_id, workspace_id) VALUES ('lnk_$', 'ws_$')`,
	"link_urls":       `INSERT INTO link_urls VALUES ('lnk_$', 'endedUrl', 'ws_$', 'h', 'u')`,
	"link_metadata":   `INSERT INTO link_metadata VALUES ('lnk_$', 'k', 'ws_$', 'v')`,
	"grants":          `INSERT INTO grants VALUES ('tgt_$', 'lnk_$', 'ws_$', 5, 0)`,
	"folders":         `INSERT INTO folders VALUES ('fld_$', 'ws_$', 'n', 'n', now())`,
	"utm_templates":   `INSERT INTO utm_templates VALUES ('utm_$', 'ws_$', 'n', 'n', '{}', now(), now())`,
	"link_versions": `INSERT INTO link_versions VALUES ('lnk_$', 1, 'ws_$', now(), now(), 'CREATED', 'usr_$',
		'{}')`,
	"webhooks": `INSERT INTO webhooks (id, workspace_id, name, url, host, status, secret, xid, seq,
		created_at, created_by) VALUES ('whk_$', 'ws_$', 'n', 'u', 'h', 'ACTIVE', 's', 0, 0, now(), 'usr_$')`,
	"webhook_types": `INSERT INTO webhook_types VALUES ('LINK_CREATED', 'ws_$', 'whk_$')`,
	"webhook_tags":  `INSERT INTO webhook_tags VALUES ('whk_$', 't', 'ws_$')`,
	"webhook_deliveries": `INSERT INTO webhook_deliveries (id, workspace_id, webhook_id, event_id, subject_id,
		type, number, status, created_at)
		VALUES ('dlv_$', 'ws_$', 'whk_$', 'evt_$', 'lnk_$', 't', 1, 'WAITING', now())`,
	"webhook_attempts":  `INSERT INTO webhook_attempts VALUES ('dlv_$', 1, 'ws_$', now(), 200, NULL, 1)`,
	"scheduled_changes": `INSERT INTO scheduled_changes VALUES ('sch_$', 'lnk_$', 'ws_$', now(), '{}', 'usr_$', now())`,
	"host_owners":       `INSERT INTO host_owners VALUES ('$.example', 'ws_$', now())`,
	"tasks": `INSERT INTO tasks (id, workspace_id, kind, status, input, due_at, actor_id, operation_id,
		created_at, updated_at)
		VALUES ('tsk_$', 'ws_$', 'IMPORT', 'QUEUED', '{}', now(), 'usr_$', 'opn_$', now(), now())`,
	"task_chunks": `INSERT INTO task_chunks VALUES ('tsk_$', 'ws_$', 'u', 0, '')`,
	"import_rows": `INSERT INTO import_rows (task_id, number, workspace_id, line, source_id, source_url, host,
		hash, outcome)
		VALUES ('tsk_$', 1, 'ws_$', 1, 's', '', '', '', 'FAILED')`,
	"link_origins": `INSERT INTO link_origins VALUES ('ws_$', 'CSV', '', 's', 'lnk_$', NULL, '', NULL, NULL, ` +
		`NULL, now(), NULL, NULL)`,
	"parity_rows": `INSERT INTO parity_rows VALUES ('tsk_$', 1, 'ws_$', 'lnk_$', 'u', 'SAME', NULL, NULL, 302, ` +
		`NULL, now())`,
	"import_claims":  `INSERT INTO import_claims VALUES ('tsk_$', 'c', 1, 'ws_$')`,
	"sso_workspaces": `INSERT INTO sso_workspaces VALUES ('$', 'ws_$')`,
	"unmatched":      `INSERT INTO unmatched VALUES ('ws_$', 1, 'c', 404, 1, now())`,
}

// inOrder lists the tables in an order that satisfies the foreign keys.
var inOrder = []string{"workspaces", "members", "slugs", "invitations", "api_keys", "domains", "audit_events", "links",
	"link_tags", "link_usage", "key_usage",
	"idempotency_keys", "clicks", "click_days", "click_totals", "link_texts",
	"link_text_queue", "link_urls", "link_versions", "link_metadata", "grants", "folders", "utm_templates", "webhooks",
	"webhook_types", "webhook_tags", "webhook_deliveries", "webhook_attempts", "scheduled_changes", "host_owners",
	"unmatched", "tasks", "task_chunks", "import_rows", "link_origins", "parity_rows", "import_claims",
	"sso_workspaces"}

// tenantTables returns the tables whose rows belong to a workspace.
func tenantTables(t *testing.T, d *db.DB) []string {
	t.Helper()
	return selectColumn(t, d, `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
			AND (a.attname = 'workspace_id' OR c.relname = 'workspaces' AND a.attname = 'id')
		ORDER BY c.relname`)
}

// isolated returns a database with a row of each tenant in each table.
func isolated(t *testing.T) *db.DB {
	t.Helper()
	d := dbtest.MigratedPostgres(t)
	everything := db.AsSystem(t.Context())
	execAs(t, d, everything, "SELECT keep_month(now())")
	for _, tenant := range []string{"mine", "foreign"} {
		execAs(t, d, everything,
			strings.ReplaceAll(`INSERT INTO accounts VALUES ('usr_$', '$@example.com', 'n', 'h', now(),
			now())`, "$", tenant))
		for _, table := range inOrder {
			execAs(t, d, everything, strings.ReplaceAll(rows[table], "$", tenant))
		}
	}
	// A trigger has queued the links too.
	execAs(t, d, everything, `DELETE FROM link_text_queue WHERE number NOT IN
		(SELECT min(number) FROM link_text_queue GROUP BY workspace_id)`)
	return d
}

func execAs(t *testing.T, d *db.DB, ctx context.Context, statement string) {
	t.Helper()
	if _, err := d.DB.DB.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// owners returns the distinct owners of the rows that a statement without a condition reads.
func owners(t *testing.T, d *db.DB, ctx context.Context, table string) []string {
	t.Helper()
	got := []string{}
	if err := d.NewSelect().Distinct().Table(table).ColumnExpr(column(table)).OrderExpr("1").
		Scan(ctx, &got); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	return got
}

func column(table string) string {
	if table == "workspaces" {
		return "id"
	}
	return "workspace_id"
}

// TestPolicies_IsolateWorkspaces reads each table with tenant data by statements without a
// condition, so that only the policies restrict the rows.
func TestPolicies_IsolateWorkspaces(t *testing.T) {
	t.Parallel()
	d := isolated(t)
	tables := tenantTables(t, d)
	if len(tables) != len(rows) {
		t.Errorf("got %d tables with tenant data, want %d", len(tables), len(rows))
	}
	for _, table := range tables {
		t.Run(table, func(t *testing.T) {
			for name, c := range map[string]struct {
				ctx  context.Context
				want []string
			}{
				"no scope":               {t.Context(), []string{}},
				"a member's workspace":   {db.InWorkspace(t.Context(), own, ownMember), []string{own}},
				"an API key's workspace": {db.InWorkspace(t.Context(), own, ""), []string{own}},
				"an empty workspace ID":  {db.InWorkspace(t.Context(), "", ""), []string{}},
				"SQL":                    {db.InWorkspace(t.Context(), "' OR true --", "' OR true --"), []string{}},
			} {
				if diff := cmp.Diff(c.want, owners(t, d, c.ctx, table)); diff != "" {
					t.Errorf("in the scope of %s (-want +seen):\n%s", name, diff)
				}
			}
			visible := []string{}
			if table == "members" || table == "workspaces" {
				visible = []string{foreign}
			}
			if diff := cmp.Diff(visible, owners(t, d, db.AsAccount(t.Context(), foreignMember), table)); diff != "" {
				t.Errorf("in the scope of an account (-want +seen):\n%s", diff)
			}
			checkWrites(t, d, table)
		})
	}
}

// checkWrites tries to change rows of the other tenant: by statements without a condition, by an
// INSERT for that tenant, and by moving a row to that tenant.
func checkWrites(t *testing.T, d *db.DB, table string) {
	t.Helper()
	before := digest(t, d, table)
	inOwn := db.InWorkspace(t.Context(), own, ownMember)
	insert := strings.NewReplacer("ws_$", foreign, "usr_$", foreignMember, "$", "another").Replace(rows[table])
	for _, statement := range []string{
		insert,
		"UPDATE " + table + " SET " + column(table) + " = '" + foreign + "' WHERE " + column(table) + " = '" + own +
			"'",
	} {
		if result, err := d.DB.DB.ExecContext(inOwn, statement); err == nil {
			n, _ := result.RowsAffected()
			t.Errorf("%s: changed %d rows, want an error", statement, n)
		}
	}
	// A statement without a condition may change only the caller's rows, if it is permitted at all.
	for name, c := range map[string]struct {
		ctx  context.Context
		most int64
	}{
		"a member's workspace": {inOwn, 1},
		"no scope":             {t.Context(), 0},
		"an account":           {db.AsAccount(t.Context(), foreignMember), 0},
	} {
		for _, statement := range []string{"UPDATE " + table + " SET " + column(table) + " = " + column(table),
			"DELETE FROM " + table} {
			tx := must.Value(d.BeginTx(c.ctx, nil))(t)
			if result, err := tx.ExecContext(c.ctx, statement); err == nil {
				if n, err := result.RowsAffected(); err != nil || n > c.most {
					t.Errorf("in the scope of %s, %s changes %d rows: %v", name, statement, n, err)
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
	}
	if after := digest(t, d, table); after != before {
		t.Errorf("the other tenant's rows have changed: %s, then %s", before, after)
	}
}

// digest returns all rows of the other tenant in a table as text.
func digest(t *testing.T, d *db.DB, table string) (all string) {
	t.Helper()
	err := d.NewRaw("SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r::text), '') FROM "+table+" r WHERE "+
		""+column(table)+" = ?", foreign).
		Scan(db.AsSystem(t.Context()), &all)
	if err != nil || all == "" {
		t.Fatalf("%q: %v", all, err)
	}
	return all
}

// TestPolicies_ResolverOnlyReads checks that the resolver role can read owners, and write a single column.
func TestPolicies_ResolverOnlyReads(t *testing.T) {
	t.Parallel()
	d := isolated(t)
	const may = `SELECT table_name || '.' || column_name || ' ' || privilege_type
			FROM information_schema.column_privileges
			WHERE grantee = 'linkforge_resolver' AND privilege_type <> 'SELECT' ORDER BY 1`
	if diff := cmp.Diff([]string{"api_keys.last_used_at UPDATE"}, selectColumn(t, d, may)); diff != "" {
		t.Errorf("the resolver may change (-want +got):\n%s", diff)
	}
	for _, secret := range []string{"members", "audit_events", "idempotency_keys", "accounts", "sessions"} {
		if _, err := d.NewSelect().Table(secret).Count(db.AsResolver(t.Context())); err == nil {
			t.Errorf("the resolver sees %s", secret)
		}
	}
}

// TestPolicies_OnlyTheSystemGrants: users change the maximum of their links and targets, but not
// the granted units, and the resolver reads only the rest.
func TestPolicies_OnlyTheSystemGrants(t *testing.T) {
	t.Parallel()
	d := isolated(t)
	user, resolver := db.InWorkspace(t.Context(), own, ownMember), db.AsResolver(t.Context())
	for statement, c := range map[string]struct {
		ctx  context.Context
		rows int64 // -1: refused
	}{
		"UPDATE grants SET granted = 0":                                       {user, -1},
		"UPDATE grants SET subject_id = 'lnk_a'":                              {user, -1},
		"UPDATE grants SET max_clicks = 7, exhausted_at = NULL":               {user, 1},
		"UPDATE grants SET granted = granted + 1":                             {db.AsSystem(t.Context()), 2},
		"UPDATE grants SET max_clicks = 8":                                    {resolver, -1},
		"SELECT workspace_id FROM grants":                                     {resolver, -1},
		"SELECT subject_id FROM grants WHERE granted < max_clicks":            {resolver, 2},
		"INSERT INTO grants VALUES ('lnk_b', 'lnk_mine', 'ws_foreign', 5, 0)": {user, -1},
		"INSERT INTO grants VALUES ('lnk_b', 'lnk_mine', 'ws_mine', 5, 0)":    {user, 1},
		"DELETE FROM grants WHERE subject_id <> 'lnk_b'":                      {user, 1},
	} {
		tx := must.Value(d.BeginTx(c.ctx, nil))(t)
		n := int64(-1)
		if result, err := tx.ExecContext(c.ctx, statement); err == nil {
			n = must.Value(result.RowsAffected())(t)
		}
		if n != c.rows {
			t.Errorf("%s: %d rows, want %d", statement, n, c.rows)
		}
		must.NoError(t, tx.Rollback())
	}
}

// TestPolicies_CreatorOnlyCreates checks that the creator role reads and inserts the rows of a
// creation, in the listed workspaces only.
func TestPolicies_CreatorOnlyCreates(t *testing.T) {
	t.Parallel()
	d := isolated(t)
	const may = `SELECT table_name || ' ' || string_agg(DISTINCT privilege_type, ' ' ORDER BY privilege_type)
			FROM (SELECT table_name, privilege_type, grantee FROM information_schema.table_privileges
				UNION ALL SELECT table_name || '.' || column_name, privilege_type, grantee
					FROM information_schema.column_privileges
					WHERE privilege_type = 'UPDATE') AS granted
			WHERE grantee = 'linkforge_creator' GROUP BY table_name ORDER BY table_name`
	want := []string{
		"audit_events INSERT SELECT", "blocked_hosts SELECT", "folders SELECT", "grants INSERT SELECT",
		"grants.exhausted_at UPDATE",
		"grants.max_clicks UPDATE", "grants.workspace_id UPDATE", "link_metadata INSERT", "link_tags INSERT SELECT",
		"link_text_queue INSERT", "link_urls INSERT", "link_usage INSERT SELECT", "link_usage.links UPDATE",
		"links INSERT SELECT", "members SELECT", "scheduled_changes SELECT",
		"verified_hosts SELECT", "workspaces SELECT",
	}
	if diff := cmp.Diff(want, selectColumn(t, d, may)); diff != "" {
		t.Errorf("the creator may (-want +got):\n%s", diff)
	}
	for _, table := range []string{"workspaces", "members", "links", "link_tags", "audit_events", "link_usage",
		"scheduled_changes", "domains"} {
		for name, c := range map[string]struct {
			ctx  context.Context
			want []string
		}{
			"no workspace":     {db.AsCreator(t.Context()), []string{}},
			"one workspace":    {db.AsCreator(t.Context(), own, "ws_unknown"), []string{own}},
			"both":             {db.AsCreator(t.Context(), own, foreign), []string{foreign, own}},
			"a list of a user": {db.InWorkspace(t.Context(), own+","+foreign, ""), []string{}},
		} {
			if diff := cmp.Diff(c.want, owners(t, d, c.ctx, table)); diff != "" {
				t.Errorf("%s of %s (-want +seen):\n%s", table, name, diff)
			}
		}
	}
	for _, table := range []string{
		"links", "link_tags", "link_metadata", "link_urls", "grants", "audit_events", "link_usage", "link_text_queue",
	} {
		insert := strings.NewReplacer("ws_$", foreign, "usr_$", foreignMember, "2026-11", "2026-12", "$", "another").
			Replace(rows[table])
		_, err := d.DB.DB.ExecContext(db.AsCreator(t.Context(), own), insert)
		if err == nil || !strings.Contains(err.Error(), "row-level security") {
			t.Errorf("%s: %v", insert, err)
		}
	}
}

// TestPolicies_AreRequiredByServers checks that servers refuse a database with incomplete policies.
func TestPolicies_AreRequiredByServers(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	must.NoError(t, d.CheckScopes(t.Context()))
	for _, c := range []struct{ breaks, restores, want string }{
		{"ALTER TABLE links DISABLE ROW LEVEL SECURITY", "ALTER TABLE links ENABLE ROW LEVEL SECURITY", "links"},
		{"ALTER TABLE members NO FORCE ROW LEVEL SECURITY", "ALTER TABLE members FORCE ROW LEVEL SECURITY", "members"},
		{"GRANT CREATE ON SCHEMA public TO linkforge_tenant; ALTER TABLE leases OWNER TO linkforge_tenant",
			"ALTER TABLE leases OWNER TO CURRENT_USER; REVOKE CREATE ON SCHEMA public FROM linkforge_tenant",
			"linkforge_tenant"},
	} {
		t.Run(c.breaks, func(t *testing.T) {
			execAs(t, d, db.AsOwner(t.Context()), "DO $$ BEGIN "+c.breaks+"; END $$")
			if err := d.CheckScopes(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
			execAs(t, d, db.AsOwner(t.Context()), "DO $$ BEGIN "+c.restores+"; END $$")
			if err := d.CheckScopes(t.Context()); err != nil {
				t.Errorf("%s: %v", c.restores, err)
			}
		})
	}
}

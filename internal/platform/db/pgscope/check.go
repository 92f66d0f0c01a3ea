package pgscope

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// CheckRoles returns an error unless the roles of the scopes exist and the connected role has them,
// or may create and grant them. Otherwise a migration in the middle would fail.
func CheckRoles(ctx context.Context, d bun.IDB) error {
	var user string
	var lacking []string
	if err := d.NewSelect().ColumnExpr("session_user").Scan(ctx, &user); err != nil {
		return fmt.Errorf("PostgreSQL %s: %w", connectProblem(err), err)
	}
	err := d.NewRaw(`SELECT wanted.name FROM unnest(string_to_array(?, ' ')) WITH ORDINALITY AS wanted (name, place)
		CROSS JOIN (SELECT rolcreaterole OR rolsuper AS creates,
			current_setting('server_version_num')::INTEGER >= 160000 AS strict
			FROM pg_roles WHERE rolname = session_user) AS own
		LEFT JOIN pg_roles AS r ON r.rolname = wanted.name
		WHERE NOT CASE WHEN r.oid IS NULL THEN own.creates
			ELSE pg_has_role(session_user, r.oid, CASE WHEN own.strict THEN 'SET' ELSE 'MEMBER' END)
				OR pg_has_role(session_user, r.oid, 'MEMBER WITH ADMIN OPTION') OR own.creates AND NOT own.strict END
		ORDER BY wanted.place`,
		strings.Join([]string{Tenant, Creator, Resolver, System}, " ")).Scan(ctx, &lacking)
	if err != nil || len(lacking) == 0 {
		return err
	}
	grants := pgx.Identifier{user}.Sanitize()
	return fmt.Errorf("the database role %s can neither create nor use the roles %s: ALTER ROLE %s CREATEROLE, or "+
		"let an "+
		"administrator run, where they are missing, CREATE ROLE %s; and then GRANT %s TO %s",
		user, strings.Join(lacking, ", "), grants, strings.Join(lacking, "; CREATE ROLE "), strings.Join(lacking, ", "),
		grants)
}

// CheckScopes returns an error unless row-level security is in force: no role owns tables or
// bypasses policies, and policies apply to owners too. A server must not start otherwise.
func CheckScopes(ctx context.Context, d bun.IDB) error {
	for _, wanted := range []string{Tenant, Creator, Resolver, System} {
		var role string
		var above, owns bool
		err := d.NewRaw(`SELECT current_user, r.rolsuper OR r.rolbypassrls,
			EXISTS (SELECT FROM pg_class c WHERE c.relowner = r.oid AND c.relnamespace = current_schema()::regnamespace)
			FROM pg_roles r WHERE r.rolname = current_user`).
			Scan(WithScope(ctx, Scope{Role: wanted}), &role, &above, &owns)
		if err != nil {
			return fmt.Errorf("the roles of row-level security: %w", err)
		}
		if above || owns || role != wanted {
			return fmt.Errorf("the database role %s owns tables or is above row-level security: it must not", role)
		}
	}
	var open []string
	err := d.NewRaw(`SELECT DISTINCT c.relname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND NOT (c.relrowsecurity
			AND c.relforcerowsecurity)`).Scan(ctx, &open)
	if err != nil {
		return fmt.Errorf("selecting tables without row-level security: %w", err)
	}
	if len(open) > 0 {
		return fmt.Errorf("row-level security is not forced on %s", strings.Join(open, ", "))
	}
	return nil
}

var errUnprepared = errors.New("a connection to the database has lost its prepared statements, as behind a pooler of " +
	"transactions that does not follow them: let it follow them (PgBouncer 1.22 or newer: " +
	"max_prepared_statements), or " +
	"pool sessions")

// checkPooler returns an error if connections lose their prepared statements. A pooler of
// transactions that does not follow them has prepared those of both connections in one session, and
// must use another one for the second transaction.
func checkPooler(ctx context.Context, d *bun.DB) error {
	if d.Stats().MaxOpenConnections == 1 {
		return nil
	}
	var open []bun.Tx
	defer func() {
		for _, tx := range open {
			_ = tx.Rollback() // it has changed nothing
		}
	}()
	for range 2 {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("connecting to the database: %w", err)
		}
		open = append(open, tx)
	}
	for _, tx := range open {
		if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
			return fmt.Errorf("checking for a connection pooler: %w", err)
		}
	}
	return nil
}

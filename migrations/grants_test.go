package migrations_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestGrants_AreComplete lists what grants lack, for tables and sequences of all migrations and for partitions.
func TestGrants_AreComplete(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	execAs(t, d, db.AsSystem(t.Context()), "SELECT keep_month(now())")
	for name, query := range map[string]string{
		"linkforge_system cannot read, so that no dump works": `SELECT relname FROM pg_class
				WHERE relnamespace = 'public'::regnamespace AND NOT CASE
					WHEN relkind = 'S' THEN has_sequence_privilege('linkforge_system', oid, 'SELECT')
					WHEN relkind IN ('r', 'p', 'v', 'm') THEN has_table_privilege('linkforge_system', oid, 'SELECT')
					ELSE true END`,
		"policies hide from linkforge_system, so that dumps lack rows": `SELECT relname FROM pg_class c
				WHERE relnamespace = 'public'::regnamespace AND relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy
					WHERE polrelid = c.oid AND polcmd = '*' AND polpermissive
						AND pg_get_expr(polqual, polrelid) = 'true'
						AND 'linkforge_system'::regrole = ANY (polroles))`,
		"a role can insert, but not take the number of the sequence": `SELECT r.rolname || ' ' || s.relname
				FROM pg_class s JOIN pg_depend d ON d.refobjid = s.oid AND d.classid = 'pg_attrdef'::regclass
				JOIN pg_attrdef a ON a.oid = d.objid CROSS JOIN pg_roles r
				WHERE s.relkind = 'S' AND r.rolname LIKE 'linkforge\_%'
					AND has_table_privilege(r.oid, a.adrelid, 'INSERT')
					AND NOT has_sequence_privilege(r.oid, s.oid, 'USAGE')`,
		"every role of the server has rights": `SELECT relname FROM pg_class, aclexplode(relacl) AS a
				WHERE relnamespace = 'public'::regnamespace AND a.grantee = 0`,
	} {
		expect(t, name, selectColumn(t, d, query))
	}
}

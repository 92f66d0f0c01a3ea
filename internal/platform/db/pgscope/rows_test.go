package pgscope_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestRows_DecodesTypes as database/sql and bun know them, of statements with parameters and without.
func TestRows_DecodesTypes(t *testing.T) {
	t.Parallel()
	d := dbtest.Migrated(t, dbtest.Postgres(t))
	noon := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	for expression, want := range map[string]any{
		"true": true, "7::SMALLINT": int64(7), "7": int64(7), "1::BIGINT << 40": int64(1) << 40, "0.5::REAL": 0.5,
		"0.25::FLOAT8": 0.25, "sum(5000::BIGINT)": "5000", "1.50::NUMERIC": "1.50", "'a'": "a", "'a'::NAME": "a",
		"'a'::\"char\"": "a", "'\\x00ff'::BYTEA": []byte{0, 255}, "'{\"a\": 1}'::JSON": []byte(`{"a": 1}`),
		"'{\"a\": 1}'::JSONB": []byte(`{"a": 1}`), "'2026-11-20 14:00:00.123456+02'::TIMESTAMPTZ": noon,
		"'2026-11-20 12:00:00.123456'::TIMESTAMP": noon, "'2026-11-20'::DATE": noon.Truncate(24 * time.Hour),
		"7::OID": int64(7), "'7'::XID": int64(7), "ARRAY['a', 'b c']": `{a,"b c"}`,
		"ARRAY[1, NULL]": "{1,NULL}",
		"'ba7816bf-8f01-cfea-4141-40de5dae2223'::UUID": "ba7816bf-8f01-cfea-4141-40de5dae2223",
		"'10.0.0.0/8'::CIDR":                           "10.0.0.0/8", "'links'::REGCLASS": "links", "NULL::INT": nil,
		"'1 day'::INTERVAL": "1 day", "'abc'::TSVECTOR": "'abc'", "ROW(1, 'a')": "(1,a)",
	} {
		for name, ctx := range map[string]context.Context{
			"text": db.AsSystem(t.Context()), "prepared": pgscope.Bind(db.AsSystem(t.Context()), 1),
			"owner": db.AsOwner(t.Context()),
		} {
			text := "SELECT " + expression + " AS value"
			if name == "prepared" {
				text += " WHERE $1 = 1"
			}
			rows := must.Value(d.DB.DB.QueryContext(ctx, text))(t)
			var got any
			if !rows.Next() {
				t.Errorf("%s, %s: no row", expression, name)
			} else {
				must.NoError(t, rows.Scan(&got))
			}
			must.NoError(t, rows.Close())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: -want +got\n%s", expression, name, diff)
			}
		}
	}
}

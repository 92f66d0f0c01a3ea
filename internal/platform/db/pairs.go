package db

import (
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// Pairs describes a lookup by two columns.
type Pairs struct {
	// Rows is a query with a condition, and As its name in the statement.
	Rows, As string
	// First and Second are the columns, without ambiguity in Rows; the first one is TEXT, the
	// second one of the Kind.
	First, Second, Kind string
}

// ByPairs makes a query return the rows for pairs of values, which are distinct. The lateral join
// makes PostgreSQL look up each pair by itself: the plan of a prepared statement, made for a table
// of average size, might read all of a large one. OFFSET 0 keeps the planner from joining
// otherwise.
func ByPairs[K any](p *Params, q *bun.SelectQuery, in Pairs, firsts []string, seconds []K) *bun.SelectQuery {
	if p == nil {
		return q.ModelTableExpr("(WITH pair (a, b) AS (?) SELECT found.* FROM pair CROSS JOIN (?) AS found "+
			"WHERE found.? = pair.a AND found.? = pair.b) AS ?", PairsOf(p, firsts, seconds, in.Kind),
			bun.Safe(in.Rows),
			bun.Safe(in.First), bun.Safe(in.Second), bun.Ident(in.As))
	}
	return q.ModelTableExpr("(?) AS pair (a, b) CROSS JOIN LATERAL (? AND ? = pair.a AND ? = pair.b OFFSET 0) AS ?",
		PairsOf(p, firsts, seconds, in.Kind), bun.Safe(in.Rows), bun.Safe(in.First), bun.Safe(in.Second),
		bun.Ident(in.As))
}

// PairsOf returns a query for pairs of values: TEXT and another kind.
func PairsOf[K any](p *Params, firsts []string, seconds []K, kind string) schema.QueryWithArgs {
	if p != nil {
		return bun.SafeQuery("SELECT * FROM unnest(?::TEXT[], ?::"+kind+"[])", p.Of(firsts), p.Of(seconds))
	}
	values := make([][]any, len(firsts))
	for i := range firsts {
		values[i] = []any{firsts[i], seconds[i]}
	}
	return bun.SafeQuery("VALUES ?", bun.In(values))
}

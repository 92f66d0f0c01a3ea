package db

import "github.com/uptrace/bun/schema"

// exactJSON is a dialect that writes JSON as it is. Bun escapes the text \u0000 again, also where
// its backslash is itself escaped: then the text changes with every write, into JSON that
// PostgreSQL refuses.
type exactJSON struct{ schema.Dialect }

// AppendJSON implements schema.Dialect.
func (d exactJSON) AppendJSON(b, json []byte) []byte { return d.AppendString(b, string(json)) }

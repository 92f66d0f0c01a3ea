package db

import "strings"

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// EscapeLike escapes the wildcards of LIKE in a text. SQLite needs ESCAPE '\' after the pattern,
// PostgreSQL does not.
func EscapeLike(text string) string { return likeEscaper.Replace(text) }

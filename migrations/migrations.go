// Package migrations holds the database's schema as plain SQL, one folder a dialect, applied in the
// order of the numbers. A file that has been released is never edited.
package migrations

import "embed"

// Files has the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS

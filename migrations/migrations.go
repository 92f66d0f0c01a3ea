// Package migrations holds the database's schema as plain SQL, one folder a dialect, applied in the
// order of the numbers. A file that has been released is edited only if databases that have
// it cannot be told from those that migrate later.
package migrations

import "embed"

// Files has the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS

// Package migrations holds the database's schema as plain SQL, one folder a dialect, applied in the
// order of the numbers. The base is edited until the first release. Databases of the version before
// it, which have the migrations in adopted.txt, are brought to the base by adopt.sql.
package migrations

import "embed"

// Files has the folders postgres and sqlite.
//
//go:embed adopted.txt postgres/*.sql sqlite/*.sql
var Files embed.FS

package stores

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/jobs"
	"github.com/linkforge/linkforge/migrations"
)

// AheadError means that pending migrations would leave nodes behind that serve.
type AheadError struct {
	// Migrations are pending, and Node is one of the nodes.
	Migrations []string
	Node       string
}

// Error implements error.
func (e *AheadError) Error() string {
	return fmt.Sprintf("the node %s serves, and its version is not known to work after %s: stop all nodes of that "+
		"version first, or run linkforge migrate up --yes", e.Node, strings.Join(e.Migrations, ", "))
}

// CheckAhead returns an AheadError if the next migrations are beyond the nodes that serve. The data
// folder of an embedded instance belongs to one process, so no other node serves it.
func CheckAhead(ctx context.Context, d *db.DB, pause func(context.Context, time.Duration) error) error {
	breaking, err := migrate.Breaking(ctx, d, migrations.Files)
	if err != nil || len(breaking) == 0 || d.Kind == db.SQLite {
		return err
	}
	node, err := jobs.Serving(ctx, d, pause)
	if err != nil || node == "" {
		return err
	}
	// A node of this version may have migrated meanwhile, and be the one that serves.
	breaking, err = migrate.Breaking(ctx, d, migrations.Files)
	if err != nil || len(breaking) == 0 {
		return err
	}
	return &AheadError{Migrations: breaking, Node: node}
}

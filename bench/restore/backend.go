package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// backend is where a server keeps what it knows, how that is backed up, and how it is restored
// elsewhere.
type backend struct {
	name string
	// env is the server's, of before the restore and of after it.
	env, restored []string
	// lagging says that the backup has the clicks that the database has, and not those that still lie
	// in logs.
	lagging bool
	// backUp writes the file that restore reads, after which the parts of it are told.
	backUp func(ctx context.Context, d *drill) error
	// restore puts what is in the file elsewhere.
	restore func(ctx context.Context, d *drill) error
	file    string
	// database is that of before or of after, as rig.Open takes it.
	database func(env []string) string
}

func embedded(folder string) *backend {
	from, to := filepath.Join(folder, "embedded"), filepath.Join(folder, "embedded-restored")
	b := &backend{name: "embedded", env: []string{"LINKFORGE_DATA_DIR=" + from},
		restored: []string{"LINKFORGE_DATA_DIR=" + to},
		file:     filepath.Join(folder, "backup.tar.gz")}
	b.backUp = func(ctx context.Context, d *drill) error {
		return d.timed("linkforge backup", func() error { return d.linkforge(ctx, b.env, "backup", b.file) })
	}
	b.restore = func(ctx context.Context, d *drill) error {
		return d.timed("linkforge restore", func() error { return d.linkforge(ctx, b.restored, "restore", b.file) })
	}
	b.database = func(env []string) string {
		return filepath.Join(strings.TrimPrefix(env[0], "LINKFORGE_DATA_DIR="), "linkforge.db")
	}
	return b
}

func onPostgres(r *rig.Run) *backend {
	services := r.Services
	env := func(databaseURL, data string) []string {
		return []string{"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + services.RedisURL,
			"LINKFORGE_DATA_DIR=" + filepath.Join(r.Folder, data),
			"LINKFORGE_JWT_SECRET=" + rig.Secret, "LINKFORGE_CODE_SECRET=" + rig.Secret}
	}
	b := &backend{name: "PostgreSQL", env: env(services.DatabaseURL, "node"),
		file: filepath.Join(r.Folder, "linkforge.sql"), lagging: true}
	b.backUp = func(ctx context.Context, d *drill) error {
		return d.timed("pg_dump", func() error {
			out, err := os.Create(b.file)
			if err != nil {
				return err
			}
			dump := exec.CommandContext(ctx, "pg_dump", "--role=linkforge_system", "--enable-row-security",
				"--exclude-table-data=visitor*",
				"--exclude-table-data=changes*", "--exclude-table-data=click_batches*", services.DatabaseURL)
			dump.Stdout = out
			return errors.Join(said(dump), out.Close())
		})
	}
	b.restore = func(ctx context.Context, d *drill) error {
		another, err := services.CreateDatabase(ctx)
		if err != nil {
			return err
		}
		b.restored = env(another, "node-restored")
		err = d.timed("psql", func() error { return said(exec.CommandContext(ctx, "psql", "-q", another, "-f", b.file)) })
		if err == nil {
			err = d.timed("linkforge after-restore --grants",
				func() error { return d.linkforge(ctx, b.restored, "after-restore", "--grants") })
		}
		return errors.Join(err, services.Redis.FlushDB(ctx).Err())
	}
	b.database = func(env []string) string {
		return strings.TrimPrefix(env[0], "LINKFORGE_DATABASE_URL=")
	}
	return b
}

// said runs a command, which fails when it says anything on standard error: psql goes on after
// errors, and ends well.
func said(cmd *exec.Cmd) error {
	var problems strings.Builder
	cmd.Stderr = &problems
	err := cmd.Run()
	if err == nil && problems.Len() > 0 {
		err = errors.New("it has complained")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %.2000s", cmd.Args[0], err, problems.String())
	}
	return nil
}

// linkforge runs a command of the program.
func (d *drill) linkforge(ctx context.Context, env []string, args ...string) error {
	_, err := d.Command(ctx, env, args...)
	return err
}

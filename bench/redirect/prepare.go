package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// backend is where Linkforge keeps its data, and the textbook beside it. SQLite has a file for
// each, since each is one writer.
type backend struct {
	name                       string
	settings, textbookSettings []string
	links, textbook            string // databases, as rig.Open takes them
}

// prepare migrates both backends and fills them.
func (b *bench) prepare(ctx context.Context) error {
	data, own := filepath.Join(b.Folder, "data"), filepath.Join(b.Folder, "textbook.db")
	b.embedded = &backend{
		name: "SQLite", settings: []string{"LINKFORGE_DATA_DIR=" + data},
		textbookSettings: []string{textbookDatabase + "=" + own},
		links:            filepath.Join(data, "linkforge.db"), textbook: own,
	}
	b.servers = &backend{
		name: "PostgreSQL", settings: append(b.ServicesEnv(), "LINKFORGE_JWT_SECRET="+rig.Secret,
			"LINKFORGE_CODE_SECRET="+rig.Secret),
		textbookSettings: []string{textbookDatabase + "=" + b.Services.DatabaseURL,
			textbookRedis + "=" + b.Services.RedisURL},
		links: b.Services.DatabaseURL, textbook: b.Services.DatabaseURL,
	}
	both, ctx := errgroup.WithContext(ctx)
	for _, on := range []*backend{b.embedded, b.servers} {
		both.Go(func() error {
			if err := b.fill(ctx, on); err != nil {
				return fmt.Errorf("preparing the links: %s: %w", on.name, err)
			}
			b.Say("%d links are on %s", b.links, on.name)
			return nil
		})
	}
	return both.Wait()
}

const createTextbook = "CREATE TABLE textbook (code TEXT PRIMARY KEY, url TEXT NOT NULL, clicks BIGINT NOT NULL " +
	"DEFAULT 0)"

// The rows are linkRows' and textbookRows' SELECT. Columns that only searching needs stay empty: no
// redirect reads them.
const (
	created  = "'2026-01-01 00:00:00+00:00'"
	linkRows = `INSERT INTO links (id, workspace_id, code, root_code, original_url, canonical_url, canonical_hash,
			strategy, redirect_status, created_at, updated_at)
		SELECT column1, column2, column3, column3, column4, column4, %s, 'DETERMINISTIC', 302, ` + created + `, ` + created + ` FROM (VALUES %s)`
	textbookRows = `INSERT INTO textbook (code, url) SELECT column1, column2 FROM (VALUES %s)`
)

func (b *bench) fill(ctx context.Context, on *backend) error {
	if _, err := b.Command(ctx, on.settings, "migrate", "up"); err != nil {
		return err
	}
	postgres, hash := on == b.servers, "unhex(column5)"
	if postgres {
		hash = "decode(column5, 'hex')"
	}
	err := rig.Within(on.links, true, func(d *sql.DB) error {
		workspace := fmt.Sprintf("ws_%026d", 1)
		for _, statement := range []string{
			"INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('" + workspace + "', 'bench', 'Bench', " +
				created + ", " + created + ")",
			"INSERT INTO slugs (slug, workspace_id, created_at) VALUES ('bench', '" + workspace + "', " + created + ")",
		} {
			if _, err := d.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return insert(ctx, d, strings.Replace(linkRows, "%s", hash, 1), postgres, b.links, func(n int) []any {
			to := urlOf(n)
			sum := sha256.Sum256([]byte(to))
			return []any{fmt.Sprintf("lnk_%026d", n), workspace, rig.Code(n), to, hex.EncodeToString(sum[:])}
		})
	})
	if err != nil {
		return err
	}
	return rig.Within(on.textbook, false, func(d *sql.DB) error {
		table := createTextbook
		if postgres {
			table += " WITH (autovacuum_enabled = false)" // PostgreSQL is not to clean it up while others are measured
		}
		if _, err := d.ExecContext(ctx, table); err != nil {
			return err
		}
		err := insert(ctx, d, textbookRows, postgres, b.links, func(n int) []any { return []any{rig.Code(n), urlOf(n)} })
		if err == nil && postgres {
			_, err = d.ExecContext(ctx, "VACUUM ANALYZE")
		}
		return err
	})
}

// insert inserts rows in transactions of 20,000, with 100 rows a statement: longer ones take more
// to parse than they save.
func insert(
	ctx context.Context, d *sql.DB, statement string, postgres bool, links int, row func(number int) []any,
) error {
	const perTransaction, perStatement = 20_000, 100
	for from := 0; from < links; from += perTransaction {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for first := from; first < min(from+perTransaction, links); first += perStatement {
			var places []string
			var values []any
			for n := first; n < min(first+perStatement, from+perTransaction, links); n++ {
				one := row(n)
				words := make([]string, len(one))
				for i := range one {
					words[i] = fmt.Sprintf("$%d", len(values)+i+1)
					if postgres {
						words[i] += "::text"
					}
				}
				places, values = append(places, "("+strings.Join(words, ", ")+")"), append(values, one...)
			}
			list := strings.Join(places, ", ")
			if postgres {
				list += ") AS v (" + strings.Join([]string{"column1", "column2", "column3", "column4",
					"column5"}[:len(values)/len(places)], ", ")
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf(statement, list), values...); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// nginxConfig has a map of all links, and a worker for each core.
const nginxConfig = `daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes auto;
events { worker_connections 1024; }
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	map_hash_max_size %d;
	map_hash_bucket_size 1024;
	map $uri $to { include links.map; }
	server {
		listen %s;
		location / {
			if ($to = "") { return 404; }
			return 302 $to;
		}
	}
}
`

// startNginx starts no process when nginx is not installed.
func (b *bench) startNginx(ctx context.Context, _ *target) (*rig.Process, error) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		return nil, nil
	}
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(b.Folder, "nginx")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	var links bytes.Buffer
	for number := range b.links {
		fmt.Fprintf(&links, "/%s \"%s\";\n", rig.Code(number), urlOf(number))
	}
	config := fmt.Sprintf(nginxConfig, 2*max(b.links, 1024), address)
	err = errors.Join(os.WriteFile(filepath.Join(folder, "links.map"), links.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "nginx.conf"), []byte(config), 0o644))
	if err != nil {
		return nil, err
	}
	return b.StartServer(ctx, "nginx", address, nil,
		slices.Concat([]string{binary}, strings.Fields("-p "+folder+" -e stderr -c nginx.conf"))...)
}

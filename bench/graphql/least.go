package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/linkforge/linkforge/bench/internal/rig2"
	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// leastTable has the columns and the indexes of links, but no foreign keys, no policies and no
// triggers.
const leastTable = "least_links"

// inserter inserts links into it, and does nothing else: the least that a creation can be. It checks
// and counts nothing, and writes no audit log.
type inserter struct {
	pool *pgxpool.Pool
	// batched means that requests which arrive during a statement of the workspace share the next one.
	batched bool
	calls   batcher.Batcher[string, *link.Link, struct{}]
}

func openInserter(ctx context.Context, databaseURL string, batched bool) *inserter {
	config := rig.Must(pgxpool.ParseConfig(databaseURL))
	config.MaxConns = 20 // as Linkforge has
	return &inserter{pool: rig.Must(pgxpool.NewWithConfig(ctx, config)), batched: batched,
		calls: batcher.Batcher[string, *link.Link, struct{}]{MaxBatch: 100, Serial: true}}
}

// create inserts a link. Its response waits for the commit.
func (k *inserter) create(ctx context.Context, in gen.CreateLinkInput, l link.Link) (*gen.CreateLinkPayload, error) {
	hash := sha256.Sum256([]byte(in.URL))
	l.ID, l.WorkspaceID, l.Title, l.Strategy = id.New(id.Link), in.WorkspaceID, in.Title, link.Deterministic
	l.OriginalURL, l.CanonicalURL, l.CanonicalHash = in.URL, in.URL, hash[:]
	l.Code = shortcode.Deterministic(in.URL, in.WorkspaceID, 0)
	l.CreatedAt = time.Now()
	var err error
	if k.batched {
		_, err = k.calls.Do(ctx, l.WorkspaceID, &l, func(ctx context.Context, all []*link.Link) (struct{}, error) {
			return struct{}{}, k.insert(ctx, all)
		})
	} else {
		err = k.insert(ctx, []*link.Link{&l})
	}
	return &gen.CreateLinkPayload{Created: true, Errors: []*gen.UserError{}, Link: &l}, err
}

const insertLeast = "INSERT INTO " + leastTable + ` (id, workspace_id, code, root_code, strategy, original_url,
	canonical_url, canonical_hash, title, title_key, search, redirect_status, check_at, created_at, updated_at)
	SELECT id, workspace_id, code, code, 'DETERMINISTIC', url, url, hash, title, title_key, search, 302, at, at, at
	FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BYTEA[], $6::TEXT[], $7::TEXT[], $8::TEXT[],
		$9::TIMESTAMPTZ[]) AS n (id, workspace_id, code, url, hash, title, title_key, search, at) ON CONFLICT DO NOTHING`

func (k *inserter) insert(ctx context.Context, all []*link.Link) error {
	var ids, workspaces, codes, urls, titles, keys, searches []string
	var hashes [][]byte
	var at []time.Time
	for _, l := range all {
		ids, workspaces, codes = append(ids, l.ID), append(workspaces, l.WorkspaceID), append(codes, l.Code)
		urls, hashes, at = append(urls, l.OriginalURL), append(hashes, l.CanonicalHash), append(at, l.CreatedAt)
		titles, keys = append(titles, *l.Title), append(keys, strings.ToLower(*l.Title))
		searches = append(searches, strings.ToLower(strings.Join([]string{*l.Title, "", l.OriginalURL, l.Code}, "\n")))
	}
	tag, err := k.pool.Exec(ctx, insertLeast, ids, workspaces, codes, urls, hashes, titles, keys, searches, at)
	if err == nil && tag.RowsAffected() != int64(len(all)) {
		return fmt.Errorf("%d links were inserted of %d", tag.RowsAffected(), len(all))
	}
	return err
}

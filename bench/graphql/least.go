package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// leastTable has the columns and the indexes of links, but no foreign keys, no policies and no
// triggers.
const leastTable = "least_links"

// keeper keeps links in it, and does nothing but that: the least that a creation can be. Nobody is
// asked who they are, nothing is checked or counted, and what happened is not told to anybody.
type keeper struct {
	pool *pgxpool.Pool
	// gathered says that those who come while a statement of the workspace is on its way share the
	// next one.
	gathered bool
	calls    batcher.Batcher[string, *link.Link, struct{}]
}

func openKeeper(ctx context.Context, databaseURL string, gathered bool) (*keeper, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, rig.ErrURL
	}
	config.MaxConns = 20 // as Linkforge has
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, rig.ErrURL
	}
	return &keeper{pool: pool, gathered: gathered, calls: batcher.Batcher[string, *link.Link, struct{}]{MaxBatch: 100,
		Serial: true}}, nil
}

// create keeps a link. Its answer waits for the commit.
func (k *keeper) create(ctx context.Context, in gen.CreateLinkInput, l link.Link) (*gen.CreateLinkPayload, error) {
	hash := sha256.Sum256([]byte(in.URL))
	l.ID, l.WorkspaceID, l.Title, l.Strategy = id.New(id.Link), in.WorkspaceID, in.Title, link.Deterministic
	l.OriginalURL, l.CanonicalURL, l.CanonicalHash = in.URL, in.URL, hash[:]
	l.Code = shortcode.Deterministic(in.URL, in.WorkspaceID, 0)
	l.CreatedAt = time.Now()
	var err error
	if k.gathered {
		_, err = k.calls.Do(ctx, l.WorkspaceID, &l, func(ctx context.Context, all []*link.Link) (struct{}, error) {
			return struct{}{}, k.insert(ctx, all)
		})
	} else {
		err = k.insert(ctx, []*link.Link{&l})
	}
	return &gen.CreateLinkPayload{Created: true, Errors: []*gen.UserError{}, Link: &l}, err
}

const insertLeast = "INSERT INTO " + leastTable + ` (id, workspace_id, code, root_code, strategy, original_url, canonical_url, canonical_hash, title,
	title_key, search, redirect_status, check_at, created_at, updated_at)
	SELECT id, workspace_id, code, code, 'DETERMINISTIC', url, url, hash, title, title_key, search, 302, made, made, made
	FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BYTEA[], $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::TIMESTAMPTZ[])
		AS n (id, workspace_id, code, url, hash, title, title_key, search, made)
	ON CONFLICT DO NOTHING`

func (k *keeper) insert(ctx context.Context, all []*link.Link) error {
	ids, workspaces, codes, urls := make([]string, len(all)), make([]string, len(all)), make([]string, len(all)),
		make([]string, len(all))
	hashes, titles, keys, searches := make([][]byte, len(all)), make([]*string, len(all)), make([]string, len(all)),
		make([]string, len(all))
	made := make([]time.Time, len(all))
	for i, l := range all {
		ids[i], workspaces[i], codes[i], urls[i], hashes[i] = l.ID, l.WorkspaceID, l.Code, l.OriginalURL, l.CanonicalHash
		titles[i], keys[i], made[i] = l.Title, strings.ToLower(*l.Title), l.CreatedAt
		searches[i] = strings.ToLower(strings.Join([]string{*l.Title, "", l.OriginalURL, l.Code}, "\n"))
	}
	tag, err := k.pool.Exec(ctx, insertLeast, ids, workspaces, codes, urls, hashes, titles, keys, searches, made)
	if err == nil && tag.RowsAffected() != int64(len(all)) {
		return fmt.Errorf("%d links were kept of %d", tag.RowsAffected(), len(all))
	}
	return err
}

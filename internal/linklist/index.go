package linklist

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// indexBatch is the number of links that a transaction indexes.
	indexBatch = 500
	// indexInterval is the pause when there is nothing to index.
	indexInterval = 500 * time.Millisecond
	// indexRest is the pause after a batch, as a multiple of its duration, which leaves the database to
	// requests.
	indexRest = 2
	// indexDeadline bounds a batch.
	indexDeadline = 30 * time.Second
)

// RunIndex indexes the texts of new and changed links until the context ends. Only PostgreSQL needs
// it: searches read the texts that wait. Of several nodes one works at a time. It returns nil.
func (s *Store) RunIndex(ctx context.Context, log *slog.Logger) error {
	if s.DB.Kind != db.Postgres {
		return nil
	}
	failures := poll.Failures{Log: log, Message: "indexing the texts of links failed"}
	pause := indexInterval
	for poll.Wait(ctx, pause) == nil {
		began := s.Now()
		n, err := s.indexSome(ctx)
		failures.Report(ctx, err)
		if pause = indexInterval; n > 0 {
			pause = indexRest * s.Now().Sub(began)
		}
	}
	return nil
}

// IndexAll indexes all texts that wait. Tests call it.
func (s *Store) IndexAll(ctx context.Context) error {
	for {
		if n, err := s.indexSome(ctx); err != nil || n == 0 {
			return err
		}
	}
}

// indexSome indexes a batch of links and returns their number.
func (s *Store) indexSome(ctx context.Context) (n int, err error) {
	if s.DB.Kind != db.Postgres {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), indexDeadline)
	defer cancel()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var first bool
		if err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(hashtext('linkforge.link_texts'))").
			Scan(ctx, &first); err != nil || !first {
			return err
		}
		ids, err := s.dequeue(ctx, tx)
		if n = len(ids); err != nil || n == 0 {
			return err
		}
		return reindex(ctx, tx, ids)
	})
	if err != nil {
		return 0, fmt.Errorf("indexing texts: %w", err)
	}
	return n, nil
}

// dequeue removes links from the queue or, when that is empty, from those that are older than it.
func (s *Store) dequeue(ctx context.Context, tx bun.Tx) (ids []string, err error) {
	oldest := tx.NewSelect().Table("link_text_queue").Column("number").Order("number").Limit(indexBatch)
	if err := tx.NewDelete().Table("link_text_queue").Where("number IN (?)", oldest).Returning("link_id").
		Scan(ctx, &ids); err != nil || len(ids) > 0 {
		return ids, err
	}
	var after string
	err = tx.NewSelect().Table("link_text_backfill").Column("after_id").Scan(ctx, &after)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := tx.NewSelect().Table("links").Column("id").Where("id > ?", after).Order("id").Limit(indexBatch).
		Scan(ctx, &ids); err != nil {
		return nil, err
	}
	return ids, advance(ctx, tx, ids)
}

// advance notes that links have been indexed; without any, all have.
func advance(ctx context.Context, tx bun.Tx, ids []string) (err error) {
	if len(ids) == 0 {
		_, err = tx.NewDelete().Table("link_text_backfill").Where("TRUE").Exec(ctx)
		return err
	}
	_, err = tx.NewUpdate().Table("link_text_backfill").Set("after_id = ?", ids[len(ids)-1]).Where("TRUE").Exec(ctx)
	return err
}

// reindex replaces the texts of links in the index. It reads them after it has removed the links from
// the queue: a later change has a place of its own there.
func reindex(ctx context.Context, tx bun.Tx, ids []string) error {
	if _, err := tx.NewDelete().Table("link_texts").Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewRaw("INSERT INTO link_texts (link_id, workspace_id, search) SELECT id, workspace_id, search "+
		"FROM links WHERE id IN (?) AND purged_at IS NULL", bun.In(ids)).Exec(ctx)
	return err
}

// isIndexed reports whether the index and its queue cover all links. They do not for a while after
// the upgrade that has introduced them.
func (s *Store) isIndexed(ctx context.Context) (bool, error) {
	if s.DB.Kind != db.Postgres || s.indexed.Load() {
		return true, nil
	}
	filling, err := s.DB.NewSelect().Table("link_text_backfill").Exists(db.AsResolver(ctx))
	if err == nil && !filling {
		s.indexed.Store(true)
	}
	return !filling, err
}

package linklist

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// indexBatch is the number of links that a transaction indexes.
	indexBatch = 500
	// lookEvery is how often a node looks for texts without news of any.
	lookEvery = time.Minute
	// indexRest is the pause after a batch, as a multiple of its duration, which leaves the
	// database to requests.
	indexRest = 2
	// indexDeadline bounds a batch.
	indexDeadline = 30 * time.Second
)

// indexLength bounds the texts of a batch in characters. On PostgreSQL edits of its links wait for
// it, on SQLite all writers.
var indexLength = map[db.Kind]int{db.Postgres: 256 << 10, db.SQLite: 32 << 10}

// RunIndex indexes the texts of new and changed links until the context ends, at most once between
// two reads of the news while few wait: a transaction for each link would cost more than the link.
// Searches read the texts that wait. Of several nodes one works at a time. It returns nil.
func (s *Store) RunIndex(ctx context.Context, log *slog.Logger) error {
	failures := poll.Failures{Log: log, Message: "indexing the texts of links failed"}
	poll.OnSignal(ctx, s.wake, lookEvery, failures, func(ctx context.Context) error {
		for {
			began := s.Now()
			isDone, err := s.indexSome(ctx)
			if err != nil || isDone || poll.Wait(ctx, indexRest*s.Now().Sub(began)) != nil {
				return err
			}
		}
	})
	return nil
}

// Follow has RunIndex index texts that wait.
func (s *Store) Follow(_ context.Context, n feed.News) {
	if n.HasTexts {
		poll.Signal(s.wake)
	}
}

// IndexAll indexes all texts that wait. Tests call it.
func (s *Store) IndexAll(ctx context.Context) error {
	for {
		if isDone, err := s.indexSome(ctx); err != nil || isDone {
			return err
		}
	}
}

// indexSome indexes a batch of links. It reports whether that was all that waited and can be
// indexed now.
func (s *Store) indexSome(ctx context.Context) (isDone bool, err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), indexDeadline)
	defer cancel()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		isDone = true
		if first, err := s.leadsIndexing(ctx, tx); err != nil || !first {
			return err
		}
		ids, isAll, err := s.dequeue(ctx, tx)
		if err != nil || len(ids) == 0 {
			return err
		}
		isDone = isAll
		return s.reindex(ctx, tx, ids)
	})
	if err != nil {
		return false, fmt.Errorf("indexing texts: %w", err)
	}
	return isDone, nil
}

// leadsIndexing reports whether no other node indexes texts now.
func (s *Store) leadsIndexing(ctx context.Context, tx bun.Tx) (first bool, err error) {
	if s.DB.Kind == db.SQLite {
		return true, nil
	}
	return first, tx.NewRaw("SELECT pg_try_advisory_xact_lock(hashtext('linkforge.link_texts'))").Scan(ctx, &first)
}

// queuedText is a place in the queue, with the length of its text.
type queuedText struct {
	Number int64
	LinkID string
	Length int
}

// dequeue removes texts from the queue and returns the IDs of their links, and whether the batch had
// all of the queue. Texts of locked links stay: edits lock links in the order of their IDs, and the
// index in that of the queue, so waiting could deadlock.
func (s *Store) dequeue(ctx context.Context, tx bun.Tx) (dequeued []string, isAll bool, err error) {
	queue, err := s.queue(ctx, tx)
	if err != nil || len(queue) == 0 {
		return nil, true, err
	}
	var numbers []int64
	var ids, unlocked []string
	for length := 0; len(ids) < len(queue) && length < indexLength[s.DB.Kind]; {
		next := queue[len(ids)]
		numbers, ids = append(numbers, next.Number), append(ids, next.LinkID)
		length += next.Length
	}
	if err := s.DB.ForReference(tx.NewSelect().Table("links").Column("id").Where("id IN (?)", bun.In(ids))).
		Scan(ctx, &unlocked); err != nil {
		return nil, false, err
	}
	err = tx.NewDelete().TableExpr("link_text_queue").Where("number IN (?)", bun.In(numbers)).
		Where("(link_id IN (?) OR link_id NOT IN (SELECT id FROM links WHERE id IN (?)))", bun.In(unlocked),
			bun.In(ids)).
		Returning("link_id").Scan(ctx, &dequeued)
	return dequeued, len(ids) == len(queue) && len(queue) < indexBatch, err
}

// queue returns the head of the queue.
func (s *Store) queue(ctx context.Context, tx bun.Tx) (head []queuedText, err error) {
	err = tx.NewSelect().TableExpr("link_text_queue AS q").Join("LEFT JOIN links AS l ON l.id = q.link_id").
		ColumnExpr("q.number, q.link_id, COALESCE(length(l.search), 0) AS length").Order("q.number").Limit(indexBatch).
		Scan(ctx, &head)
	return head, err
}

// reindex replaces the texts of links in the index. It reads them after it has removed the links
// from the queue: a later change has a place of its own there.
func (s *Store) reindex(ctx context.Context, tx bun.Tx, ids []string) error {
	for _, statement := range reindexing[s.DB.Kind] {
		if _, err := tx.NewRaw(statement, bun.In(ids)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// textbookPool and textbookRedisPool are as large as Linkforge's are by default.
	textbookPool      = 20
	textbookRedisPool = 50
	// allowance is how many redirects a link has. Its counter goes down from zero, so that none has to
	// be made first.
	allowance = 1 << 40
)

// textbook is a link shortener as it is usually written: what there is to know is asked, and what
// there is to count is counted, at every redirect. It has a table of its own, with none of
// Linkforge's other columns, indexes and rules.
type textbook struct {
	find, count *sql.Stmt
	quota       *redis.Client // nil without one
}

// The textbook's settings, which have passwords in them. Its Redis is in-process without a URL.
const (
	textbookDatabase = "TEXTBOOK_DATABASE"
	textbookRedis    = "TEXTBOOK_REDIS"
)

// runTextbook is its server.
func runTextbook(ctx context.Context, args []string) error {
	quota, address := args[0] == "quota", args[1]
	reads, writes, err := openDatabase(os.Getenv(textbookDatabase))
	if err != nil {
		return err
	}
	defer reads.Close()
	defer writes.Close()
	var t textbook
	if t.find, err = reads.PrepareContext(ctx, "SELECT url FROM textbook WHERE code = $1"); err != nil {
		return err
	}
	if t.count, err = writes.PrepareContext(ctx, "UPDATE textbook SET clicks = clicks + 1 WHERE code = $1"); err != nil {
		return err
	}
	if quota {
		if t.quota, err = openRedis(os.Getenv(textbookRedis)); err != nil {
			return err
		}
		defer t.quota.Close()
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{code}", &t)
	return rig.ServeHTTP(ctx, address, mux)
}

// openDatabase opens SQLite as Linkforge does, with one connection that writes and others that
// read, and as many of PostgreSQL's.
func openDatabase(where string) (reads, writes *sql.DB, err error) {
	if reads, err = openPool(where, textbookPool); err != nil || strings.Contains(where, "://") {
		return reads, reads, err
	}
	writes, err = openPool(where, 1)
	return reads, writes, err
}

func openPool(where string, size int) (*sql.DB, error) {
	pool, err := rig.Open(where, false)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

// openRedis opens Redis by its URL, or starts one in this process, as the embedded default has.
func openRedis(where string) (*redis.Client, error) {
	if where == "" {
		server, err := miniredis.Run()
		if err != nil {
			return nil, err
		}
		where = "redis://" + server.Addr()
	}
	options, err := redis.ParseURL(where)
	if err != nil {
		return nil, rig.ErrURL
	}
	options.PoolSize = textbookRedisPool
	return redis.NewClient(options), nil
}

// ServeHTTP looks the link up, takes of its quota when there is one, counts the click, and
// redirects.
func (t *textbook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, code := r.Context(), r.PathValue("code")
	var location string
	err := t.find.QueryRowContext(ctx, code).Scan(&location)
	if err == nil && t.quota != nil {
		var left int64
		if left, err = t.quota.Decr(ctx, "textbook:"+code).Result(); left < -allowance {
			http.Error(w, "followed too often", http.StatusTooManyRequests)
			return
		}
	}
	if err == nil {
		_, err = t.count.ExecContext(ctx, code)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		rig.Redirect(w, location)
	}
}

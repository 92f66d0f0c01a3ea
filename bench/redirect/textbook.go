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
	// textbookPool and textbookRedisPool are as large as Linkforge's defaults.
	textbookPool      = 20
	textbookRedisPool = 50
	// allowance is the number of redirects of a link. Its counter goes down from zero, so that it
	// need not be created first.
	allowance = 1 << 40
	// The textbook's settings hold passwords: command lines are visible to all users.
	textbookDatabase = "TEXTBOOK_DATABASE"
	textbookRedis    = "TEXTBOOK_REDIS"
)

// textbook is a link shortener as it is usually written: each redirect queries the link, and
// updates its counters. Its table has none of Linkforge's other columns, indexes and rules.
type textbook struct {
	find, count *sql.Stmt
	quota       *redis.Client // nil without one
}

// serveTextbook is the helper that serves it. SQLite is opened as Linkforge does, with one
// connection that writes and others that read.
func serveTextbook(ctx context.Context, args []string) {
	where := os.Getenv(textbookDatabase)
	reads := rig.Open(where, false)
	writes := reads
	if !strings.Contains(where, "://") {
		writes = rig.Open(where, false)
		writes.SetMaxOpenConns(1)
	}
	reads.SetMaxOpenConns(textbookPool)
	reads.SetMaxIdleConns(textbookPool)
	t := textbook{
		find:  rig.Must(reads.PrepareContext(ctx, "SELECT url FROM textbook WHERE code = $1")),
		count: rig.Must(writes.PrepareContext(ctx, "UPDATE textbook SET clicks = clicks + 1 WHERE code = $1")),
	}
	if args[0] == "quota" {
		redisURL := os.Getenv(textbookRedis)
		if redisURL == "" {
			redisURL = "redis://" + rig.Must(miniredis.Run()).Addr()
		}
		options := rig.Must(redis.ParseURL(redisURL))
		options.PoolSize = textbookRedisPool
		t.quota = redis.NewClient(options)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{code}", &t)
	rig.ServeHTTP(ctx, args[1], mux)
}

// ServeHTTP finds the link, consumes its quota if there is one, counts the click, and redirects.
func (t *textbook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, code := r.Context(), r.PathValue("code")
	var location string
	err := t.find.QueryRowContext(ctx, code).Scan(&location)
	if err == nil && t.quota != nil {
		var left int64
		if left, err = t.quota.Decr(ctx, "textbook:"+code).Result(); left < -allowance {
			http.Error(w, "over quota", http.StatusTooManyRequests)
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

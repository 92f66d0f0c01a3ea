// Package clickhouse keeps clicks in ClickHouse: single clicks and, of months whose single clicks
// are deleted, the counts of each day. It implements package clickstore. Package stores constructs
// it where the operator has configured ClickHouse.
package clickhouse

import (
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Config configures a Store.
type Config struct {
	// DB is the SQL database, which has the totals and the positions of the click logs.
	DB *db.DB
	// URL is http(s)://USER:PASSWORD@HOST:PORT/DATABASE, of ClickHouse's HTTP interface.
	URL *url.URL
	// ClickMonths is the retention of single clicks in whole months; zero means
	// clickstore.DefaultMonths.
	ClickMonths int
	// ReadTimeout is how long a question may take; zero means two seconds.
	ReadTimeout time.Duration
	// Now is the clock.
	Now func() time.Time
}

// Store implements clickstore.Store.
type Store struct {
	Config
	client     *client
	ids        clickstore.ClickIDs
	isPrepared atomic.Bool
}

var _ clickstore.Store = (*Store)(nil)

// New returns a Store. ClickHouse need not answer yet.
func New(c Config) *Store { return &Store{Config: c, client: newClient(c.URL, c.ReadTimeout)} }

// ClicksSince is the instant since which single clicks are stored.
func (s *Store) ClicksSince() time.Time { return clickstore.KeptSince(s.Now(), s.ClickMonths) }

// AtOneInstant implements clickstore.Store. Each query reads at its own instant.
func (s *Store) AtOneInstant(ctx context.Context, f func(ctx context.Context) error) error {
	return f(ctx)
}

package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// stub is a server whose connections only count themselves.
type stub struct{ opened, open atomic.Int64 }

func (s *stub) Connect(context.Context) (driver.Conn, error) {
	s.opened.Add(1)
	s.open.Add(1)
	return &stubConn{s}, nil
}
func (s *stub) Driver() driver.Driver { return nil }

type stubConn struct{ server *stub }

var errStub = errors.New("the stub executes nothing")

func (c *stubConn) Prepare(string) (driver.Stmt, error) { return nil, errStub }
func (c *stubConn) Begin() (driver.Tx, error)           { return nil, errStub }
func (c *stubConn) Ping(context.Context) error          { return nil }
func (c *stubConn) Close() error {
	c.server.open.Add(-1)
	return nil
}

// TestExpire_EndsConnections to a server: after a peak those that nothing uses any more, and after
// minutes also the one that a periodic statement uses, so that a pooler can stop.
func TestExpire_EndsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &stub{}
		d := sql.OpenDB(server)
		defer d.Close()
		limit(d, 8)
		expire(d)
		var peak []*sql.Conn
		for range 8 {
			peak = append(peak, must.Value(d.Conn(t.Context()))(t))
		}
		for _, c := range peak {
			must.NoError(t, c.Close())
		}
		poll := func(d *sql.DB, duration time.Duration) {
			for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				must.NoError(t, d.PingContext(t.Context()))
			}
		}
		poll(d, connLife-time.Second)
		if open, opened := server.open.Load(), server.opened.Load(); open != 1 || opened != 8 {
			t.Errorf("%d connections are open of %d, want the one that is used", open, opened)
		}
		poll(d, 2*time.Second)
		if open, opened := server.open.Load(), server.opened.Load(); open != 1 || opened != 9 {
			t.Errorf("%d connections are open of %d, want a new one", open, opened)
		}
		time.Sleep(connLife + idleLife)
		if open := server.open.Load(); open != 0 {
			t.Errorf("%d connections are open, and none is used", open)
		}
	})
}

package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// oneSession simulates a pooler of transactions: two connections share one session.
type oneSession struct {
	driver.Connector
	mu   sync.Mutex
	conn driver.Conn
}

// Connect implements driver.Connector.
func (c *oneSession) Connect(ctx context.Context) (_ driver.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		c.conn, err = c.Connector.Connect(ctx)
	}
	return c.conn, err
}

// OpenPooled is OpenPostgres behind such a pooler.
func OpenPooled(databaseURL string) (*DB, error) {
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	conns := sql.OpenDB(scopedConnector{&oneSession{Connector: stdlib.GetConnector(*config)}, forEver})
	limit(conns, 2)
	return &DB{DB: bun.NewDB(conns, pgdialect.New()), Kind: Postgres}, nil
}

// usedSession makes connections whose sessions another client has prepared statements in.
type usedSession struct {
	driver.Connector
	statements []string
}

// Connect implements driver.Connector.
func (c usedSession) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range c.statements {
		if _, err := conn.(*stdlib.Conn).Conn().
			Exec(ctx, "PREPARE "+pgx.Identifier{name}.Sanitize()+" AS SELECT 1"); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

// OpenUsed is OpenPostgres behind a pooler that gives sessions on as they are.
func OpenUsed(databaseURL string, statements []string) (*DB, error) {
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	conns := sql.OpenDB(scopedConnector{usedSession{stdlib.GetConnector(*config), statements}, forEver})
	return &DB{DB: bun.NewDB(conns, pgdialect.New()), Kind: Postgres}, nil
}

// WaitingTurns is the number of statements and transactions that wait for their owner's turn.
func (d *DB) WaitingTurns() int {
	_, waiting := d.fair.writes.Stats()
	return waiting
}

// UsedTurns is the number of turns that have not ended.
func (d *DB) UsedTurns() int64 {
	reads, _ := d.fair.reads.Stats()
	writes, _ := d.fair.writes.Stats()
	return reads + writes
}

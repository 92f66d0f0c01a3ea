package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
)

// copies is the table beside clicks that COPY is measured with, and columns are its.
const copies = "copied_clicks"

var columns = []string{
	"id", "workspace_id", "link_id", "clicked_at", "latency_ms", "visit", "bot", "status",
	"referrer", "country", "device", "browser", "os", "language", "utm_source", "utm_medium", "utm_campaign", "utm_term",
	"utm_content",
}

// prepareCopy makes a table like that of clicks: the same columns, indexes and months.
func (b *bench) prepareCopy(ctx context.Context) error {
	if b.kind != db.Postgres {
		return nil
	}
	statements := []string{"CREATE TABLE " + copies + " (LIKE clicks INCLUDING ALL) PARTITION BY RANGE (clicked_at)"}
	for m := hitquota.MonthOf(b.stream.begin); !m.Start.After(b.end); m = hitquota.MonthOf(m.End) {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %[1]s_%[2]s PARTITION OF %[1]s FOR VALUES FROM ('%[3]s') "+
			"TO ('%[4]s')",
			copies, m.Start.Format("2006_01"), m.Start.Format(time.RFC3339), m.End.Format(time.RFC3339)))
	}
	for _, statement := range statements {
		if _, err := b.copier.Exec(ctx, statement); err != nil {
			return fmt.Errorf("the table to copy into: %w", err)
		}
	}
	return nil
}

// copy has PostgreSQL copy the clicks of a round: one COPY, as the owner. It is the least that it
// takes to keep them.
func (b *bench) copy(ctx context.Context, r *round, clicks []click.Click) error {
	if b.kind != db.Postgres {
		return nil
	}
	row := make([]any, len(columns))
	rows := pgx.CopyFromSlice(len(clicks), func(i int) ([]any, error) {
		c := &clicks[i]
		b.copied++
		row[0], row[1], row[2], row[3] = b.copied, c.WorkspaceID, c.LinkID, c.ClickedAt
		row[4], row[5], row[6], row[7] = c.LatencyMs, c.IsVisit, c.Bot, c.Status
		for i, text := range [...]string{
			c.Referrer, c.Country, c.Device, c.Browser, c.OS, c.Language, c.Source, c.Medium, c.Campaign, c.Term, c.Content,
		} {
			if row[8+i] = text; text == "" {
				row[8+i] = nil
			}
		}
		return row, nil
	})
	before, began := b.walPosition(ctx), time.Now()
	if _, err := b.copier.CopyFrom(ctx, pgx.Identifier{copies}, columns, rows); err != nil {
		return fmt.Errorf("copying clicks: %w", err)
	}
	r.copying = time.Since(began)
	r.copyLog = b.walPosition(ctx) - before
	return nil
}

// walPosition is how far PostgreSQL has written its log, in bytes; zero where there is none, or
// where it cannot be asked.
func (b *bench) walPosition(ctx context.Context) (position int64) {
	if b.copier != nil {
		_ = b.copier.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::BIGINT").Scan(&position)
	}
	return position
}

// settings are how PostgreSQL keeps what it has: they decide what a transaction costs.
func (b *bench) settings(ctx context.Context) (text string, err error) {
	if b.kind != db.Postgres {
		return "SQLite, synchronous=FULL", nil
	}
	for _, name := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"} {
		var value string
		err = errors.Join(err, b.copier.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value))
		text += name + " " + value + ", "
	}
	return "PostgreSQL " + text[len("server_version "):max(len(text)-2, 15)], err
}

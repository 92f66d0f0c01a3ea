package click

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// announce tells those who watch that clicks were written, whose ids follow each other.
func (w *writer) announce(ctx context.Context, tx bun.Tx, clicks []Click) error {
	first, last := clicks[0].ClickedAt, clicks[0].ClickedAt
	for i := range clicks {
		if clicks[i].ClickedAt.Before(first) {
			first = clicks[i].ClickedAt
		}
		if clicks[i].ClickedAt.After(last) {
			last = clicks[i].ClickedAt
		}
	}
	_, err := tx.NewRaw("INSERT INTO click_batches (first_id, last_id, first_at, last_at, written_at) VALUES (?, ?, ?, ?, ?)",
		clicks[0].ID, clicks[len(clicks)-1].ID, db.Instant(first), db.Instant(last), db.Instant(w.now())).Exec(ctx)
	return err
}

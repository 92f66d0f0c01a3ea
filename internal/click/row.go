package click

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/visitor"
)

// Row is a click as the database keeps it.
type Row struct {
	bun.BaseModel `bun:"table:clicks,alias:click"`

	ID          int64
	WorkspaceID string
	LinkID      string
	ClickedAt   time.Time
	LatencyMs   float64
	IsVisit     bool `bun:"visit"`
	Status      int
	visitor.Visit
	RuleID   string
	TargetID string
	QRSource string `bun:"qr_source"`
}

// Click returns the click of the row.
func (r *Row) Click() *Click {
	return &Click{
		ID: r.ID, WorkspaceID: r.WorkspaceID, LinkID: r.LinkID, ClickedAt: r.ClickedAt.UTC(),
		LatencyMs: r.LatencyMs, Status: r.Status, IsVisit: r.IsVisit, Visit: r.Visit,
		RuleID: r.RuleID, TargetID: r.TargetID, QRSource: r.QRSource,
	}
}

package click

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/visitor"
)

// Row is a click as the database keeps it.
type Row struct {
	bun.BaseModel `bun:"table:clicks,alias:click"`

	ID          int64
	WorkspaceID string
	LinkID      string
	ClickedAt   time.Time
	LatencyMs   float64
	Visit       bool
	Bot         bool
	Status      int
	Referrer    string
	Country     string
	Device      string
	Browser     string
	OS          string `bun:"os"`
	Language    string
	UTMSource   string `bun:"utm_source"`
	UTMMedium   string `bun:"utm_medium"`
	UTMCampaign string `bun:"utm_campaign"`
	UTMTerm     string `bun:"utm_term"`
	UTMContent  string `bun:"utm_content"`
}

func (r *Row) Click() *Click {
	return &Click{
		ID: r.ID, WorkspaceID: r.WorkspaceID, LinkID: r.LinkID, ClickedAt: r.ClickedAt.UTC(), LatencyMs: r.LatencyMs, Status: r.Status, IsVisit: r.Visit,
		Visit: visitor.Visit{
			Referrer: r.Referrer, Country: r.Country, Device: r.Device, Browser: r.Browser, OS: r.OS, Language: r.Language,
			Source: r.UTMSource, Medium: r.UTMMedium, Campaign: r.UTMCampaign, Term: r.UTMTerm, Content: r.UTMContent, Bot: r.Bot,
		},
	}
}

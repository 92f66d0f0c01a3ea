package moderation

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// maxDetails is the longest text of a report, in characters.
const maxDetails = 2000

// reportsPerAddress is how many links a client address may report.
var reportsPerAddress = ratelimit.Rate{Name: "report-address", Attempts: 30, Window: time.Hour}

// Reason is why a link is reported.
type Reason string

// The reasons.
const (
	Spam     Reason = "SPAM"
	Phishing Reason = "PHISHING"
	Malware  Reason = "MALWARE"
	Illegal  Reason = "ILLEGAL"
	Other    Reason = "OTHER"
)

// Report is an anonymous complaint about a link.
type Report struct {
	bun.BaseModel `bun:"table:reports"`

	ID        string `bun:",pk"`
	LinkID    string
	Reason    Reason
	Details   *string
	CreatedAt time.Time
}

// Report stores a report of the link at a short URL for the operator. The address is the client's,
// for the rate limit. It returns NotFound, InvalidInput or RateLimited.
func (s *Store) Report(ctx context.Context, address, shortURL string, reason Reason, details *string) error {
	lines, err := validate.Lines("The details", optional.Value(details), 0, maxDetails)
	if err != nil {
		return errs.From(err).At("details")
	}
	if err := s.Limits.SpendFrom(ctx, reportsPerAddress, 1, address); err != nil {
		return err
	}
	at, err := s.Links.Resolver.ParseShortURL(shortURL)
	if err != nil {
		return errNoShortURL()
	}
	now := db.Instant(s.Now())
	l, err := s.Links.At(ctx, at)
	if errs.Is(err, errs.NotFound) || err == nil && l.IsHidden(now) {
		return errNoShortURL()
	}
	if err != nil {
		return err
	}
	report := Report{ID: id.New(id.Report), LinkID: l.ID, Reason: reason, Details: optional.Of(lines), CreatedAt: now}
	if _, err := s.DB.NewInsert().Model(&report).Exec(ctx); err != nil {
		return fmt.Errorf("storing a report: %w", err)
	}
	return nil
}

// Reported is a report with the link that it is about.
type Reported struct {
	Report `bun:",extend"`

	Slug        string     `bun:",scanonly"`
	Code        string     `bun:",scanonly"`
	RootCode    *string    `bun:",scanonly"`
	OwnAddress  *string    `bun:",scanonly"`
	OriginalURL string     `bun:",scanonly"`
	DisabledAt  *time.Time `bun:",scanonly"`
	ShortURL    string     `bun:"-"`
}

// Reports returns the latest reports of existing links, newest first.
func (s *Store) Reports(ctx context.Context, limit int) ([]Reported, error) {
	var reports []Reported
	err := s.DB.NewSelect().Model(&reports).
		ColumnExpr("?TableColumns").
		ColumnExpr("l.code, l.root_code, l.own_address, l.original_url, l.disabled_at, w.slug").
		Join("JOIN links AS l ON l.id = ?TableAlias.link_id").Join("JOIN workspaces AS w ON w.id = l.workspace_id").
		OrderExpr("?TableAlias.id DESC").Limit(int64(limit)).Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("listing reports: %w", err)
	}
	for i, r := range reports {
		reports[i].ShortURL = s.Links.ShortURLBelow(r.Slug,
			&link.Link{Code: r.Code, RootCode: r.RootCode, OwnAddress: r.OwnAddress})
	}
	return reports, nil
}

func errNoShortURL() error {
	return errs.New(errs.NotFound, "There is no such short URL here.").At("shortUrl")
}

// Package parity compares the redirects of imported links with those of their sources, as tasks.
// verdict.go compares two responses, and check.go requests and compares them. Package importer has
// the origins of links, and package link explains how links respond here. The GraphQL
// resolvers call it.
package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxSample is the largest sample.
const maxSample = 1_000_000

// Store checks parity.
type Store struct {
	DB    *db.DB
	Tasks *task.Store
	Links *link.Store
	// Transport requests short URLs of sources.
	Transport http.RoundTripper
	Limits    ratelimit.Limiter
	// InstanceID is what /.well-known/linkforge of this instance returns.
	InstanceID string
	// UserAgent is that of the requests, and of the visits here that they are compared with.
	UserAgent string
	Now       func() time.Time
}

// Settings are the arguments of a check. They are the input of its task.
type Settings struct {
	// ImportID restricts the check to the links of an import; empty means all origins.
	ImportID string
	// Sample is how many origins are checked at most; zero means all.
	Sample int
}

// Create creates a check. It returns NotFound, InvalidInput, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in Settings) (*task.Task, error) {
	if _, err := m.Enter(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	if in.Sample < 0 || in.Sample > maxSample {
		return nil, errs.New(errs.InvalidInput, "sample must be from 1 to %d.", maxSample).At("sample")
	}
	if in.ImportID != "" {
		t, err := s.Tasks.Rows(m).Get(ctx, m, in.ImportID)
		if err == nil {
			_, err = importer.SettingsOf(t)
		}
		if err == nil && t.Done > 0 && t.StoredRows == 0 {
			err = errs.New(errs.Expired,
				"The rows of the import are no longer kept. Check all links, without importId.")
		}
		if err != nil {
			return nil, errs.From(err).At("importId")
		}
	}
	return s.Tasks.Create(ctx, m, task.New{Kind: task.ParityCheck, Status: task.Queued, Input: in, Outside: true})
}

// progress is the cursor of a check: what its comparisons so far amount to.
type progress struct {
	// Below is the largest hash of a link of the sample; zero means all links.
	Below  uint64            `json:"below,string,omitempty"`
	After  *position         `json:"after"`
	Counts map[Verdict]int64 `json:"counts"`
	// Tries are the requests of the next short URL that its host has refused by a rate. Moved has
	// hosts whose instance was requested, and whether it is this one.
	Tries int             `json:"tries,omitempty"`
	Moved map[string]bool `json:"moved,omitempty"`
}

// position is the place of an origin in the order of a check.
type position struct {
	Source   string `json:"source"`
	Label    string `json:"label"`
	SourceID string `json:"sourceId"`
}

func progressOf(t *task.Task) (*progress, error) {
	p := &progress{Counts: map[Verdict]int64{}}
	if t.Cursor == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(t.Cursor), p); err != nil {
		return nil, fmt.Errorf("decoding the progress of a parity check: %w", err)
	}
	return p, nil
}

// Report has the counts of a check so far.
type Report struct {
	*task.Task
	progress *progress
}

// ReportOf returns the report of a check; nil before the first step.
func ReportOf(t *task.Task) (*Report, error) {
	if t.Cursor == "" {
		return nil, nil
	}
	p, err := progressOf(t)
	return &Report{t, p}, err
}

// VerdictCount is a number of short URLs.
type VerdictCount struct {
	Verdict Verdict
	Links   int64
}

// Counts returns the numbers of short URLs by verdict.
func (r *Report) Counts() (all []*VerdictCount) {
	for _, v := range verdicts {
		if n := r.progress.Counts[v]; n > 0 {
			all = append(all, &VerdictCount{v, n})
		}
	}
	return all
}

// Row is the comparison of a link with one of its origins.
type Row struct {
	bun.BaseModel `bun:"table:parity_rows,alias:row"`

	TaskID string `bun:",pk"`
	// Number is the position of the comparison, from 1.
	Number      int64 `bun:",pk"`
	WorkspaceID string
	LinkID      string
	SourceURL   string
	Verdict     Verdict
	// SourceStatus and SourceLocation are the answer of the source; nil means none. Status and
	// Location are the answer here.
	SourceStatus   *int
	SourceLocation *string
	Status         int
	Location       *string
	CheckedAt      time.Time

	// In is the membership through which the row was loaded.
	In workspace.Membership `bun:"-"`
}

// Rows returns one page of the comparisons with the verdicts, by default of all that differ, in the
// order of the check. It returns Forbidden.
func (s *Store) Rows(ctx context.Context, t *task.Task, wanted []Verdict, r page.Request) (page.Page[*Row], error) {
	number := func(row *Row) int64 { return row.Number }
	p, err := task.ListRows(ctx, s.DB, t, r, number, func(q *bun.SelectQuery) *bun.SelectQuery {
		if len(wanted) > 0 {
			return q.Where("verdict IN (?)", bun.In(wanted))
		}
		return q.Where("verdict <> ?", Same)
	})
	for _, row := range p.Items {
		row.In = t.In
	}
	return p, err
}

package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Outcome is what becomes of a row. Its text is the name in the GraphQL schema.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "CREATED"
	Updated   Outcome = "UPDATED"
	Unchanged Outcome = "UNCHANGED"
	Renamed   Outcome = "RENAMED"
	Closed    Outcome = "CLOSED"
	Skipped   Outcome = "SKIPPED"
	Failed    Outcome = "FAILED"
)

// Row is a row of an import with its outcome.
type Row struct {
	bun.BaseModel `bun:"table:import_rows,alias:row"`

	TaskID string `bun:",pk"`
	// Number is the position of the row, from 1. Line is that of its item in the source, which may
	// have several rows.
	Number      int64 `bun:",pk"`
	WorkspaceID string
	Line        int64
	SourceID    string
	// SourceURL is empty if the source has none, and Host if that has no host.
	SourceURL, Host string
	// Hash is that of the link that the row describes.
	Hash    []byte
	Outcome Outcome
	// Code is the code here; nil if the row has no link, or gets a generated code in a dry run.
	Code *string
	// CanonicalHash is that of the destination.
	CanonicalHash []byte
	LinkID        *string
	// Losses and Errors are JSON; nil for none.
	Losses, Errors *string

	// In is the membership through which the row was loaded.
	In workspace.Membership `bun:"-"`
	// isNew means that the step has inserted the link, hasEnded that the link that it has created or
	// changed has an end that has passed.
	isNew, hasEnded bool
}

// newRow returns the row of an import for a row of its source.
func newRow(t *task.Task, number int64, from *source) *Row {
	return &Row{
		TaskID: t.ID, Number: number, WorkspaceID: t.WorkspaceID, Line: from.Line, SourceID: from.SourceID,
		SourceURL: from.SourceURL, Host: from.Host, Hash: from.hash,
	}
}

// source is a row of the source.
type source struct {
	importsource.Row
	// hash is that of the link that the row describes, without what its source counts, and size the
	// length of its description.
	hash []byte
	size int
	// restrictions are those of the row as a link.
	restrictions string
}

func (s *Store) newSource(row *importsource.Row) *source {
	described := *row
	described.Line, described.Losses, described.Ignored, described.Origin, described.Past =
		0, nil, nil, importsource.Origin{}, nil
	described.Record, described.Describes = nil, nil
	// The API and the file of a source differ in these, and the remaining clicks decrease with each
	// visit there.
	described.SourceURL, described.Host, described.FoldsCase, described.MaxClicks = "", "", false,
		optional.Edit[*int64]{}
	described.DropNulls() // an unusable value is as good as none
	text := encode(&described)
	password := s.Links.Fingerprint(row.Routing.To)
	hash := sha256.Sum256([]byte(text + password))
	routed, err := check.Apply(row.Routing.To, nil)
	if err != nil { // the creation says why
		routed = nil
	}
	return &source{*row, hash[:], len(text),
		restrictionsOf(row.StartsAt.To, row.ExpiresAt.To, row.MaxClicks.To, routed, password)}
}

// restrictionsOf identifies what restricts which visitors of a link get its destination, and when;
// empty for nothing.
func restrictionsOf(startsAt, expiresAt *time.Time, maxClicks *int64, r *routing.Routing, password string) string {
	r = check.Restrictions(r)
	if startsAt == nil && expiresAt == nil && maxClicks == nil && r == nil && password == "" {
		return ""
	}
	instant := func(t *time.Time) *time.Time {
		if t == nil {
			return nil
		}
		return new(db.Instant(*t))
	}
	sum := sha256.Sum256([]byte(encode([]any{instant(startsAt), instant(expiresAt), maxClicks, r, password})))
	return hex.EncodeToString(sum[:])
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // JSON knows all types that rows have
	}
	return string(text)
}

// setErr sets why the row has no link.
func (r *Row) setErr(outcome Outcome, err error) {
	saved := errs.Save(err)
	for i, e := range saved {
		if slices.Equal(e.Field, []string{"customCode"}) { // which the row does not have
			saved[i].Field = []string{"code"}
		}
	}
	r.Outcome, r.Errors = outcome, new(encode(saved))
}

// Failure returns why the row has no link, see errs.All; nil if there is no reason.
func (r *Row) Failure() error {
	if r.Errors == nil {
		return nil
	}
	var saved errs.Saved
	if err := json.Unmarshal([]byte(*r.Errors), &saved); err != nil {
		return fmt.Errorf("decoding the errors of a row: %w", err)
	}
	return saved.Error()
}

// LossesOf returns the losses of the row.
func (r *Row) LossesOf() (losses []importsource.Loss, err error) {
	if r.Losses == nil {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(*r.Losses), &losses); err != nil {
		return nil, fmt.Errorf("decoding the losses of a row: %w", err)
	}
	return losses, nil
}

// RowFilter selects rows of an import that match all fields that are set. No outcomes permit all.
type RowFilter struct {
	Outcomes   []Outcome
	LossesOnly bool
}

// Rows returns one page of the rows of an import, in the order of the source. It returns Forbidden.
func (s *Store) Rows(ctx context.Context, t *task.Task, f RowFilter, r page.Request) (page.Page[*Row], error) {
	number := func(row *Row) int64 { return row.Number }
	p, err := task.ListRows(ctx, s.DB, t, r, number, func(q *bun.SelectQuery) *bun.SelectQuery {
		if len(f.Outcomes) > 0 {
			q = q.Where("outcome IN (?)", bun.In(f.Outcomes))
		}
		if f.LossesOnly {
			q = q.Where("losses IS NOT NULL")
		}
		return q
	})
	for _, row := range p.Items {
		row.In = t.In
	}
	return p, err
}

// Origin is where a link was imported from.
type Origin struct {
	bun.BaseModel `bun:"table:link_origins,alias:origin"`

	WorkspaceID string              `bun:",pk"`
	Source      importsource.Source `bun:",pk"`
	Label       string              `bun:",pk"`
	SourceID    string              `bun:",pk"`
	LinkID      string
	SourceURL   *string
	// Hash is that of the row that the link was imported from; empty if an archive says that it was
	// imported elsewhere.
	Hash            []byte
	SourceCreatedAt *time.Time
	// Clicks is how many the source had counted; nil if it does not say.
	Clicks        *int64
	LastClickedAt *time.Time
	ImportedAt    time.Time
	// OperationID is the import that wrote the hash, and PreviousHash has the hashes before, newest
	// first, up to maxHashes; empty if the row was unknown. Undoing the operation restores the first,
	// see edit.RevertOperation.
	OperationID  *string
	PreviousHash []byte
	// RootProof is that of the record in an archive; empty for none.
	RootProof string
}

// maxOrigins bounds the origins of a link that are listed.
const maxOrigins = 20

// Origins returns the first maxOrigins origins of links, oldest first, by the ids of the links. It
// returns Forbidden.
func (s *Store) Origins(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string][]*Origin, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []*Origin
	const order = "imported_at, source, label, source_id"
	all := s.DB.NewSelect().Model((*Origin)(nil)).ColumnExpr("*").
		ColumnExpr("row_number() OVER (PARTITION BY link_id ORDER BY "+order+") AS number").
		Where("link_id IN (?)", bun.In(linkIDs))
	all = s.DB.Recheck(all, "workspace_id", m.ID())
	err = s.DB.NewSelect().Model(&rows).ModelTableExpr("(?) AS origin", all).Where("number <= ?", maxOrigins).
		OrderExpr(order).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the origins of links: %w", err)
	}
	found := map[string][]*Origin{}
	for _, o := range rows {
		found[o.LinkID] = append(found[o.LinkID], o)
	}
	return found, nil
}

// savePast writes where links of an archive had been imported from before, unless another link has
// the origin.
func savePast(ctx context.Context, tx bun.Tx, rows []*Origin) error {
	return db.InsertRows(ctx, tx, db.Insert{Rest: "ON CONFLICT (workspace_id, source, label, source_id) DO NOTHING"},
		rows)
}

// maxHashes is how many imports of a changed row can be undone one after the other.
const maxHashes = 16

// saveOrigins writes the origins of links. The operation of an origin is the one that wrote its
// hash.
func saveOrigins(ctx context.Context, tx bun.Tx, kind db.Kind, rows []*Origin) error {
	hashes := "link_origins.hash || COALESCE(link_origins.previous_hash, '')"
	if kind == db.SQLite { // where this is text
		hashes = "CAST(" + hashes + " AS BLOB)"
	}
	return db.InsertRows(ctx, tx, db.Insert{Rest: fmt.Sprintf(`
		ON CONFLICT (workspace_id, source, label, source_id) DO UPDATE SET
		operation_id = CASE WHEN link_origins.link_id = excluded.link_id AND link_origins.hash = excluded.hash
			THEN link_origins.operation_id ELSE excluded.operation_id END,
		previous_hash = CASE WHEN link_origins.link_id <> excluded.link_id THEN NULL
			WHEN link_origins.hash = excluded.hash OR link_origins.operation_id = excluded.operation_id
			THEN link_origins.previous_hash
			ELSE substr(%s, 1, %d) END,
		link_id = excluded.link_id, source_url = excluded.source_url, hash = excluded.hash,
		source_created_at = excluded.source_created_at, clicks = excluded.clicks,
		last_clicked_at = excluded.last_clicked_at, imported_at = excluded.imported_at,
		root_proof = excluded.root_proof`, hashes, maxHashes*sha256.Size)}, rows)
}

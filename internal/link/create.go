package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Create makes a link, or answers with the one that is there: a deterministic link for the same URL, a custom
// one for the same code and URL. However many ask at once, on however many nodes, one of them makes it and hears
// true; it alone takes quota. A deleted link is revived with what the caller says now.
//
// It returns InvalidInput, InvalidURL, UnsafeURL, CodeReserved, CodeTaken, CodeExhausted, QuotaExceeded or
// Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, by string, in New) (l *Link, created bool, err error) {
	if err := m.Need(workspace.Editor); err != nil {
		return nil, false, err
	}
	now := db.Instant(s.Now())
	draft, err := s.draft(in, now)
	if err != nil {
		return nil, false, err
	}
	draft.In, draft.WorkspaceID, draft.CreatedBy = m, m.ID(), &by
	draft.CreatedAt, draft.UpdatedAt = now, now
	codes, err := s.codes(draft, in.CustomCode)
	if err != nil {
		return nil, false, err
	}
	for salt, code := range codes {
		if shortcode.Reserved(code) {
			continue
		}
		draft.take(code)
		l, created, err := s.settle(ctx, draft)
		if draft.Strategy == Custom || !errs.Is(err, errs.CodeTaken) {
			return l, created, err
		}
		s.Log.WarnContext(ctx, "code collision", "workspace", m.ID(), "code", code, "salt", salt)
	}
	return nil, false, errs.New(errs.CodeExhausted, "Every code that this URL can get is taken. Use the strategy CUSTOM.").At("url")
}

// codes are the codes that the link may get, in the order in which they are tried.
func (s *Store) codes(draft *Link, custom *string) ([]string, error) {
	if draft.Strategy == Deterministic {
		if custom != nil {
			return nil, errs.New(errs.InvalidInput, "customCode goes with the strategy CUSTOM only.").At("customCode")
		}
		return s.candidates(draft.CanonicalURL, draft.WorkspaceID), nil
	}
	if custom == nil {
		return nil, errs.New(errs.InvalidInput, "The strategy CUSTOM needs a customCode.").At("customCode")
	}
	if err := shortcode.ValidateCustom(*custom); err != nil {
		return nil, errs.New(errs.InvalidInput, "%s", err).At("customCode")
	}
	if shortcode.Reserved(*custom) {
		return nil, errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").At("customCode")
	}
	return []string{*custom}, nil
}

// take gives the draft a code. Generated codes answer at the root, where they are unique over the instance.
func (l *Link) take(code string) {
	l.ID, l.Code, l.RootCode = id.New(id.Link), code, nil
	if l.Strategy != Custom {
		l.RootCode = &code
	}
}

// settle answers with the link that is there, or makes the draft into one. It returns CodeTaken when another URL
// has the draft's code.
func (s *Store) settle(ctx context.Context, draft *Link) (l *Link, created bool, err error) {
	l, err = existing(ctx, s.DB, draft)
	if errs.Is(err, errs.NotFound) {
		err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			l, created, err = s.insert(ctx, tx, draft)
			return err
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("making a link: %w", err)
	}
	if l.DeletedAt != nil {
		l, err = s.revive(ctx, draft, l)
	}
	return l, created, err
}

// insert lets the database's unique indexes decide who is first. Whoever is takes quota in the same
// transaction; whoever is not gets the winner's link, or CodeTaken when the code belongs to another URL.
func (s *Store) insert(ctx context.Context, tx bun.Tx, draft *Link) (l *Link, created bool, err error) {
	_, err = tx.NewInsert().Model(draft).On("CONFLICT DO NOTHING").Returning("id").Exec(ctx, new(string))
	if err == nil {
		return draft, true, s.takeQuota(ctx, tx, draft)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, false, err
	}
	l, err = existing(ctx, tx, draft)
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.CodeTaken, "The code leads to another URL already. Choose another code.").At("customCode")
	}
	return l, false, err
}

// takeQuota counts a link of the workspace's month up, unless that would exceed its quota.
func (s *Store) takeQuota(ctx context.Context, tx bun.Tx, l *Link) error {
	limit, month := s.QuotaOf(l.In), quota.MonthOf(l.CreatedAt)
	var links int64
	err := sql.ErrNoRows
	if limit > 0 {
		err = tx.NewRaw(`INSERT INTO link_usage AS u (workspace_id, month, links) VALUES (?, ?, 1)
			ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + 1 WHERE u.links < ?
			RETURNING links`, l.WorkspaceID, month.String(), limit).Scan(ctx, &links)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return errs.New(errs.QuotaExceeded, "The workspace has made the %d links it may make this month. The next month begins at %s.",
			limit, month.End.Format("2006-01-02 15:04 MST")).After(month.End.Sub(l.CreatedAt))
	}
	return err
}

// revive brings a deleted link back, as the draft describes it. It returns UnsafeURL for a link that the
// operator has disabled.
func (s *Store) revive(ctx context.Context, draft, l *Link) (*Link, error) {
	if l.DisabledAt != nil {
		return nil, errs.New(errs.UnsafeURL, "The operator has disabled the short link to this URL.").At("url")
	}
	revived := &Link{In: l.In}
	_, err := s.DB.NewUpdate().Model(draft).
		Column("original_url", "title", "redirect_status", "starts_at", "expires_at", "updated_at").
		Set("deleted_at = NULL").
		Where("id = ?", l.ID).Where("deleted_at IS NOT NULL").Where("disabled_at IS NULL").
		Returning("*").Exec(ctx, revived)
	if errors.Is(err, sql.ErrNoRows) {
		return s.Get(ctx, l.In, l.ID) // somebody else was faster
	}
	if err != nil {
		return nil, fmt.Errorf("reviving a link: %w", err)
	}
	return revived, nil
}

// existing finds the link that is the draft's already: the deterministic one for its URL, or the custom one's that
// has both its code and its URL. It returns NotFound.
func existing(ctx context.Context, conn bun.IDB, draft *Link) (*Link, error) {
	if draft.Strategy == Deterministic {
		return deterministic(ctx, conn, draft.In, draft.CanonicalHash)
	}
	return find(ctx, conn, draft.In, "code = ? AND canonical_hash = ?", draft.Code, draft.CanonicalHash)
}

// deterministic finds the workspace's deterministic link for a URL. It returns NotFound.
func deterministic(ctx context.Context, conn bun.IDB, m workspace.Membership, hash []byte) (*Link, error) {
	return find(ctx, conn, m, "canonical_hash = ? AND strategy = 'DETERMINISTIC'", hash)
}

// find loads the one link of the workspace that meets the condition. It returns NotFound.
func find(ctx context.Context, conn bun.IDB, m workspace.Membership, where string, args ...any) (*Link, error) {
	l := &Link{In: m}
	err := conn.NewSelect().Model(l).Where("workspace_id = ?", m.ID()).Where(where, args...).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a link: %w", err)
	}
	return l, nil
}

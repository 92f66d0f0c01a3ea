package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// CodeIdentity is equal in links that cannot both exist in a workspace: the code key, or else the
// code.
func (l *Link) CodeIdentity() string {
	if l.CodeKey != nil {
		return *l.CodeKey
	}
	return l.Code
}

// LacksCodeKey reports whether the link has a custom code of the workspace, and no code key.
func (l *Link) LacksCodeKey() bool {
	return l.Strategy == Custom && l.OwnAddress == nil && l.CodeKey == nil
}

// AssignCodeKey gives a custom link its code key if its workspace has such keys.
func (l *Link) AssignCodeKey() {
	if l.LacksCodeKey() && !l.In.Workspace().CaseSensitiveCodes {
		l.CodeKey = new(shortcode.Key(l.Code))
	}
}

// AssignRootCodes has codes of a workspace work at the root too, unless other links have them
// there, and returns how many now do.
func AssignRootCodes(ctx context.Context, tx bun.Tx, workspaceID string, linkIDs []string) (int64, error) {
	n, err := db.Affected(tx.NewUpdate().Model((*Link)(nil)).Set("root_code = code").Where("workspace_id = ?",
		workspaceID).
		Where("root_code IS NULL").Where("domain_id IS NULL").Where("purged_at IS NULL").
		Where("id IN (?)", bun.In(linkIDs)).
		Where("NOT EXISTS (SELECT 1 FROM links AS other WHERE other.root_code = ?TableAlias.code)").Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("assigning codes at the root: %w", err)
	}
	return n, nil
}

// FoldCodes gives all custom links of a workspace their code keys, and locks them first, as
// restoring one does. A deleted link gets none if the key belongs to another one. It returns
// Conflict, which names two codes, if two links that are not deleted have the same key.
func (s *Store) FoldCodes(m workspace.Membership) func(context.Context, bun.Tx) error {
	return func(ctx context.Context, tx bun.Tx) error {
		custom := func() *bun.SelectQuery {
			return tx.NewSelect().Model((*Link)(nil)).Where("workspace_id = ?", m.ID()).Where("strategy = ?", Custom).
				Where("own_address IS NULL")
		}
		if err := s.DB.ForUpdate(custom().Column("id").Where("code_key IS NULL").Order("id")).
			Scan(ctx, new([]string)); err != nil {
			return fmt.Errorf("locking custom links: %w", err)
		}
		var one, other string
		err := custom().ColumnExpr("min(code), max(code)").Where("deleted_at IS NULL").GroupExpr("lower(code)").
			Having("count(*) > 1").OrderExpr("1").Limit(1).Scan(ctx, &one, &other)
		if err == nil {
			return errs.New(errs.Conflict, "The codes %s and %s differ in case only. Delete one of the links first.",
				one, other).
				At("caseSensitiveCodes")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("comparing codes: %w", err)
		}
		ranked := custom().Column("id", "code_key").
			ColumnExpr("row_number() OVER (PARTITION BY lower(code) ORDER BY deleted_at IS NOT NULL, id DESC) AS place")
		_, err = tx.NewUpdate().Model((*Link)(nil)).Set("code_key = lower(code)").
			Where("id IN (?)", tx.NewSelect().TableExpr("(?) AS ranked", ranked).Column("id").
				Where("place = 1 AND code_key IS NULL")).Exec(ctx)
		if db.IsUniqueViolation(err) {
			return errs.New(errs.Conflict, "Custom links were created meanwhile. Repeat the call.").
				At("caseSensitiveCodes")
		}
		if err != nil {
			return fmt.Errorf("writing code keys: %w", err)
		}
		return nil
	}
}

// takenCodeKeys returns which of the edits fail because another link has the code key that the edit
// gives to its link.
func (p *pass) takenCodeKeys(ctx context.Context, conn bun.IDB, m workspace.Membership) (failed []int, err error) {
	holders, err := holdersOf(ctx, conn, m, "code_key", slices.Collect(maps.Keys(p.codeKeys)))
	if err != nil {
		return nil, err
	}
	for key, edits := range p.codeKeys {
		if holders[key] == "" {
			edits = edits[1:] // the first one gets it
		}
		failed = append(failed, edits...)
	}
	return failed, nil
}

// ErrCodeTaken refuses a custom code because of the link that has it.
func ErrCodeTaken(holder *Link) *errs.Error {
	return errs.New(errs.CodeTaken, "The link with the code %s exists already, for another URL. Choose another code.",
		holder.ShownCode()).
		At("customCode")
}

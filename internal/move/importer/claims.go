package importer

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// claim is something that a row of a dry run would have taken. Later steps count it as taken, as
// they would in an import.
type claim struct {
	bun.BaseModel `bun:"table:import_claims,alias:claim"`

	TaskID      string `bun:",pk"`
	Claim       string `bun:",pk"`
	Number      int64
	WorkspaceID string
}

// The texts of claims.
func claimOfCode(identity string) string         { return "code:" + identity }
func claimOfExternalID(externalID string) string { return "externalId:" + externalID }
func claimOfURL(canonicalHash []byte) string     { return "url:" + hex.EncodeToString(canonicalHash) }

// claimOfRestrictions is that of the restrictions of a link with the code of the item, or with its
// destination if it has no code.
func (it *item) claimOfRestrictions() string {
	claimed := claimOfURL(it.row.CanonicalHash)
	if it.identity != "" {
		claimed = claimOfCode(it.identity)
	}
	return "restrictions:" + it.from.restrictions + ":" + claimed
}

const folderClaims = "folder:"

func claimOfFolder(name string) string { return folderClaims + validate.Fold(name) }

// claims are the codes and URLs that the row of an item has taken in the step.
func (b *step) claims(it *item) (all []string) {
	if it.link == nil || it.decision.act != creates && it.decision.act != changes || it.written.Outcome == Unchanged {
		return nil
	}
	if it.identity != "" && (it.decision.act == creates || it.decision.outcome == Created) {
		all = append(all, claimOfCode(it.identity))
	}
	if it.code == "" && it.link.Strategy == link.Deterministic {
		all = append(all, claimOfURL(it.row.CanonicalHash))
	}
	if len(all) > 0 && it.from.restrictions != "" {
		all = append(all, it.claimOfRestrictions())
	}
	if it.link.ExternalID != nil {
		all = append(all, claimOfExternalID(*it.link.ExternalID))
	}
	if it.hasNewFolder {
		all = append(all, claimOfFolder(*it.from.Folder))
	}
	return all
}

// saveDry writes the claims, the outcomes and the progress of a dry run.
func (b *step) saveDry(ctx context.Context, tx bun.Tx) error {
	var rows []*claim
	for _, it := range b.items {
		for _, text := range b.claims(it) {
			rows = append(rows,
				&claim{TaskID: b.ID, Claim: text, Number: it.written.Number, WorkspaceID: b.WorkspaceID})
		}
	}
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: "ON CONFLICT (task_id, claim) DO NOTHING"}, rows); err != nil {
		return fmt.Errorf("writing the claims of a dry run: %w", err)
	}
	return b.save(ctx, tx)
}

// addClaims reads what earlier rows of a dry run would have taken of what items want.
func (b *step) addClaims(ctx context.Context, k *known, items []*item) error {
	if !b.in.DryRun {
		return nil
	}
	var texts []string
	for _, it := range items {
		if it.identity != "" {
			texts = append(texts, claimOfCode(it.identity))
		} else if len(it.row.CanonicalHash) > 0 {
			texts = append(texts, claimOfURL(it.row.CanonicalHash))
		}
		if it.from.restrictions != "" {
			texts = append(texts, it.claimOfRestrictions())
		}
		if it.from.ExternalID.To != nil {
			texts = append(texts, claimOfExternalID(*it.from.ExternalID.To))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	var rows []struct {
		Row   `bun:",extend"`
		Claim string
	}
	err := b.DB.NewSelect().TableExpr("import_claims AS claim").
		Join("JOIN import_rows AS row ON row.task_id = claim.task_id AND row.number = claim.number").
		ColumnExpr("row.*, claim.claim").Where("claim.task_id = ?", b.ID).Where("claim.claim IN (?)", bun.In(texts)).
		Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("reading the claims of a dry run: %w", err)
	}
	for _, row := range rows {
		k.claimed[row.Claim] = &row.Row
		if identity, ok := strings.CutPrefix(row.Claim, claimOfCode("")); ok {
			k.holders[identity] = &holder{code: optional.Value(row.Code), canonicalHash: row.CanonicalHash,
				isFixed: true, isDeleted: row.Outcome == Closed, host: row.Host}
			for other, h := range k.holders { // the link of an import that was undone, by its other spellings
				if row.LinkID != nil && h.linkID == *row.LinkID {
					k.holders[other] = k.holders[identity]
				}
			}
		}
	}
	for _, it := range items {
		if h := k.holders[it.identity]; h != nil && it.from.restrictions != "" &&
			k.claimed[it.claimOfRestrictions()] != nil {
			h.restrictions = it.from.restrictions
		}
	}
	return nil
}

// claimedFolders returns the names of the folders that earlier rows of a dry run would have
// created.
func (b *step) claimedFolders(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	if !b.in.DryRun {
		return names, nil
	}
	var texts []string
	err := b.DB.NewSelect().Model((*claim)(nil)).Column("claim").Where("task_id = ?", b.ID).
		Where("claim LIKE ?", folderClaims+"%").
		Scan(ctx, &texts)
	if err != nil {
		return nil, fmt.Errorf("reading the folders of a dry run: %w", err)
	}
	for _, text := range texts {
		names[strings.TrimPrefix(text, folderClaims)] = true
	}
	return names, nil
}

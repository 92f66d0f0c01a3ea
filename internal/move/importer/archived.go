package importer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Archived returns the records that an archive has of links, in their order, without the numbers of
// their clicks. Short URLs are those at the instance itself, or at the domain that has the code. It
// returns Forbidden.
func (s *Store) Archived(
	ctx context.Context, m workspace.Membership, links []*link.Link,
) ([]*importsource.ArchivedLink, error) {
	if len(links) == 0 {
		return nil, nil
	}
	var ids, folderIDs []string
	for _, l := range links {
		if ids = append(ids, l.ID); l.FolderID != nil {
			folderIDs = append(folderIDs, *l.FolderID)
		}
	}
	tags, err := s.Links.TagsOf(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	origins, err := s.Origins(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	folders, err := s.Folders.Rows().ByID(ctx, m, folderIDs...)
	if err != nil {
		return nil, err
	}
	names := map[string]*string{}
	for _, f := range folders {
		names[f.ID] = &f.Name
	}
	records := make([]*importsource.ArchivedLink, 0, len(links))
	for _, l := range links {
		r := &importsource.ArchivedLink{
			ID: l.ID, ShortURL: s.Links.ShortURLBelow(m.Slug(), l), Code: l.ShownCode(), Strategy: string(l.Strategy),
			Values: l.Values, Folder: names[optional.Value(l.FolderID)], Metadata: map[string]string{},
			Routing: importsource.NewArchivedRouting(l.Routing), Origins: []importsource.Past{},
			CreatedAt: l.CreatedAt.UTC(), UpdatedAt: l.UpdatedAt.UTC(), DeletedAt: utc(l.DeletedAt),
			DisabledAt: utc(l.DisabledAt),
		}
		r.Tags, r.FolderID, r.StartsAt, r.ExpiresAt = tags[l.ID], nil, utc(l.StartsAt), utc(l.ExpiresAt)
		if l.RootCode != nil {
			r.RootProof = s.proveRoot(l)
		}
		if l.OwnAddress != nil {
			host, _, _ := strings.Cut(*l.OwnAddress, "/")
			r.Domain = &host
		}
		pairs, err := l.Metadata.Pairs()
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			r.Metadata[pair.Key] = pair.Value
		}
		for _, o := range origins[l.ID] {
			r.Origins = append(r.Origins, importsource.Past{
				Source: o.Source, Label: o.Label, SourceID: o.SourceID, SourceURL: o.SourceURL,
				CreatedAt: utc(o.SourceCreatedAt),
				Clicks:    o.Clicks, LastClickedAt: utc(o.LastClickedAt), ImportedAt: o.ImportedAt.UTC(),
			})
		}
		records = append(records, r)
	}
	return records, nil
}

// RestoreRootCodes has codes work at the root of the instance if they did before their links were
// exported from an instance with the same public URL and secret of codes, which has signed them.
// Imports leave them alone. It returns the number of these codes, and those that the archive has at
// the root without such a signature, in alphabetical order: it may have been edited.
func (s *Store) RestoreRootCodes(
	ctx context.Context, tx bun.Tx, workspaceID string,
) (restored int64, refused []string, err error) {
	var origins []struct{ LinkID, Code, SourceID, RootProof string }
	err = tx.NewSelect().TableExpr("link_origins AS origin").
		ColumnExpr("origin.link_id, linked.code, origin.source_id, origin.root_proof").
		Join("JOIN links AS linked ON linked.id = origin.link_id").Where("origin.workspace_id = ?", workspaceID).
		Where("origin.source = ?", importsource.Linkforge).Where("linked.root_code IS NULL").
		Where("linked.domain_id IS NULL").Where("linked.purged_at IS NULL").
		Where("origin.source_url = ? || '/' || linked.code", s.PublicURL).OrderExpr("linked.code").Scan(ctx, &origins)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the origins of links: %w", err)
	}
	proved := []string{""} // none
	for _, o := range origins {
		// The import has verified it. Commands may run without the keys that a server has created.
		if o.RootProof != "" && (len(s.RootKeys) == 0 || s.hasSigned(o.RootProof, o.Code, o.SourceID)) {
			proved = append(proved, o.LinkID)
		} else {
			refused = append(refused, o.Code)
		}
	}
	refused = slices.Compact(refused)
	for chunk := range slices.Chunk(proved, rootCodesBatch) {
		n, err := link.AssignRootCodes(ctx, tx, workspaceID, chunk)
		if restored += n; err != nil {
			return 0, nil, err
		}
	}
	return restored, refused, nil
}

// rootCodesBatch is how many codes a statement assigns.
const rootCodesBatch = 1000

// proveRoot signs the code of a link that works at the root; nil without a key.
func (s *Store) proveRoot(l *link.Link) *string {
	if len(s.RootKeys) == 0 {
		return nil
	}
	return new(rootProof(s.RootKeys[0], s.PublicURL, l.Code, l.ID))
}

// rootProof is the signature that a code of a link works at the root of an instance.
func rootProof(key []byte, publicURL, code, linkID string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("linkforge root code\n" + publicURL + "\n" + code + "\n" + linkID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hasSigned reports whether a signature is that of this server for a code of a link.
func (s *Store) hasSigned(proof, code, linkID string) bool {
	return slices.ContainsFunc(s.RootKeys, func(key []byte) bool {
		return hmac.Equal([]byte(proof), []byte(rootProof(key, s.PublicURL, code, linkID)))
	})
}

// provedRoot returns the signature of the code that a row of an archive has at the root; empty
// unless this server has signed it.
func (s *Store) provedRoot(row *importsource.Row) string {
	code, isAtRoot := strings.CutPrefix(row.SourceURL, s.PublicURL+"/")
	if row.Record == nil || !isAtRoot {
		return ""
	}
	if proof := optional.Value(row.Record.RootProof); s.hasSigned(proof, code, row.SourceID) {
		return proof
	}
	return ""
}

func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	return new(at.UTC())
}

// own is a link of this workspace that an archive has a record of.
type own struct {
	*link.Link
	record *importsource.ArchivedLink
}

// loadOwn reads which rows of an archive are links of this workspace, by their ids.
func (b *step) loadOwn(ctx context.Context) (map[string]*own, error) {
	if b.in.Source != importsource.Linkforge {
		return nil, nil
	}
	var ids []string
	for _, from := range b.from {
		ids = append(ids, from.SourceID)
	}
	links, err := linksBy(ctx, b, "id", link.ValidIDs(ids), "purged_at IS NULL")
	if err != nil {
		return nil, err
	}
	if links, err = b.withoutUndone(ctx, links); err != nil {
		return nil, err
	}
	for _, l := range links {
		l.In = b.Member
	}
	records, err := b.Archived(ctx, b.Member, links)
	if err != nil {
		return nil, err
	}
	all := map[string]*own{}
	for i, l := range links {
		all[l.ID] = &own{l, records[i]}
	}
	return all, nil
}

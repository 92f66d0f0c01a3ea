package archive

import (
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// The records of sections. Those of links are in package importsource, those of clicks in package
// stats, and those of the audit log in package workspace.
type (
	archivedFolder struct {
		ID        string    `json:"id"`
		Name      string    `json:"name"`
		CreatedAt time.Time `json:"createdAt"`
	}
	archivedDomain struct {
		ID            string           `json:"id"`
		Host          string           `json:"host"`
		CodeSpace     domain.CodeSpace `json:"codeSpace"`
		CaseSensitive bool             `json:"caseSensitive"`
		Status        domain.Status    `json:"status"`
		Primary       bool             `json:"primary"`
	}
	archivedMember struct {
		Email string         `json:"email"`
		Role  workspace.Role `json:"role"`
	}
	archivedVersion struct {
		LinkID         string                        `json:"linkId"`
		Number         int                           `json:"number"`
		From           time.Time                     `json:"from"`
		To             *time.Time                    `json:"to"`
		Cause          link.Cause                    `json:"cause"`
		OperationID    *string                       `json:"operationId"`
		OriginalURL    string                        `json:"originalUrl"`
		Title          *string                       `json:"title"`
		Note           *string                       `json:"note"`
		Tags           []string                      `json:"tags"`
		FolderID       *string                       `json:"folderId"`
		ExternalID     *string                       `json:"externalId"`
		Metadata       linkfield.Metadata            `json:"metadata"`
		Archived       bool                          `json:"archived"`
		StatsPublic    bool                          `json:"statsPublic"`
		StartsAt       *time.Time                    `json:"startsAt"`
		ExpiresAt      *time.Time                    `json:"expiresAt"`
		MaxClicks      *int64                        `json:"maxClicks"`
		RedirectStatus int                           `json:"redirectStatus"`
		Routing        *importsource.ArchivedRouting `json:"routing"`
		Deleted        bool                          `json:"deleted"`
		Disabled       bool                          `json:"disabled"`
	}
)

// newArchivedVersion returns the record of a version, without its actor, whom not all readers of
// archives may see.
func newArchivedVersion(v *link.Version) archivedVersion {
	return archivedVersion{
		LinkID: v.Link.ID, Number: v.Number, From: v.From, To: v.To, Cause: v.Cause, OperationID: v.OperationID,
		OriginalURL: v.URL,
		Title:       v.Title, Note: v.Note, Tags: append([]string{}, v.Tags...), FolderID: v.FolderID,
		ExternalID: v.ExternalID,
		Metadata:   v.Metadata, Archived: v.Archived, StatsPublic: v.StatsPublic, StartsAt: v.StartsAt,
		ExpiresAt: v.ExpiresAt,
		MaxClicks: v.MaxClicks, RedirectStatus: v.RedirectStatus, Routing: importsource.NewArchivedRouting(v.Routing),
		Deleted: v.Deleted, Disabled: v.Disabled,
	}
}

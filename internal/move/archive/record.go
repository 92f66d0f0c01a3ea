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
)

// newArchivedVersion returns the record of a version, without its actor, whom not all readers of
// archives may see.
func newArchivedVersion(v *link.Version) map[string]any {
	r := map[string]any{
		"linkId": v.Link.ID, "number": v.Number, "from": v.From, "to": v.To, "cause": v.Cause,
		"operationId": v.OperationID, "deleted": v.Deleted, "disabled": v.Disabled,
	}
	for _, f := range linkfield.Fields {
		r[f.Name] = f.Value(&v.Values)
	}
	r["originalUrl"], r["routing"] = r["url"], importsource.NewArchivedRouting(v.Routing)
	delete(r, "url")
	return r
}

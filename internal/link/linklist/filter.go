package linklist

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Filter selects the links that meet all of its conditions.
type Filter struct {
	// Search is words that must all occur in the title, the note, the URL or the code, in any case, or
	// a short URL: see resolve.ParsePasted.
	Search *string
	// Tags are the tags that a link must have: any of them by default, or as TagMatch says.
	Tags     []string
	TagMatch TagMatch
	// Status are the permitted states at the time of the query. Empty permits all but Deleted.
	Status []routing.Status
	// Strategy are the permitted strategies of the code. Empty permits all.
	Strategy []link.Strategy
	// Archived selects archived links or the others; nil selects both.
	Archived *bool
	// Created, Updated, Expires and LastClicked bound the creation, the last change, the expiration
	// and the last click. Links that were never clicked are in a LastClicked without From.
	Created, Updated, Expires, LastClicked Range
	// ExternalIDs are up to maxExternalIDs ids of the caller's own; empty permits all.
	ExternalIDs []string
	// Metadata is a pair that a link must have.
	Metadata *linkfield.Pair
	// CreatedByID is the user who created or claimed the links; it needs the permission to read
	// members.
	CreatedByID *string
	// Host is the host of the destination, or one above it.
	Host *string
	// FolderIDs are up to maxFolders folders: links in any of them. Empty permits all.
	FolderIDs []string
	// InFolder selects the links that are in a folder, or the others; nil selects both.
	InFolder *bool
	// WithoutTags are tags that a link must not have.
	WithoutTags []string
	// Destination are the permitted states of the worst URL. Empty permits all.
	Destination []link.DestinationState
	// HasRouting and HasScheduledChanges select the links that have some, or the others; nil
	// selects both.
	HasRouting, HasScheduledChanges *bool
	// Origin is a source that the links were imported from; nil permits all.
	Origin *importsource.Source
	// DomainIDs are up to maxDomains domains: links with own codes of any of them. Empty permits
	// all.
	DomainIDs []string
}

// Range bounds instants, To exclusively; nil means open.
type Range struct{ From, To *time.Time }

func (r Range) isOpen() bool { return r.From == nil && r.To == nil }

// TagMatch is how many of the filter's tags a link must have.
type TagMatch string

// The matches.
const (
	AnyTag  TagMatch = "ANY"
	AllTags TagMatch = "ALL"
)

// Order is a sort order of links. The zero Order lists the newest first. Ties are sorted by ID.
type Order struct {
	Field OrderField
	// Direction is empty for the field's default: newest, most clicked or first title first.
	Direction Direction
}

// OrderField is the field that links are sorted by.
type OrderField string

// The fields.
const (
	ByCreation OrderField = "CREATED_AT" // by ID: IDs are in the order of creation
	ByClicks   OrderField = "CLICKS"     // all clicks ever counted
	ByTitle    OrderField = "TITLE"      // in lower case, by code point
	ByUpdate   OrderField = "UPDATED_AT"
	// ByLastClick sorts links that were never clicked as the oldest.
	ByLastClick OrderField = "LAST_CLICKED_AT"
)

// Direction is a sort direction.
type Direction string

// The directions.
const (
	Ascending  Direction = "ASC"
	Descending Direction = "DESC"
)

// Page checks the arguments of a connection, whose cursors are positions in the order. A nil Order
// is the zero Order. It returns InvalidInput.
func (o *Order) Page(first *int, after *string, last *int, before *string) (page.Request, error) {
	return o.pageOrder().Parse(id.Link, first, after, last, before)
}

func (o *Order) pageOrder() (p page.Order) {
	if o == nil {
		return p
	}
	switch o.Field {
	case ByClicks:
		p = page.Order{Name: string(ByClicks), Numbers: true}
	case ByUpdate, ByLastClick:
		p = page.Order{Name: string(o.Field), Numbers: true} // microseconds
	case ByTitle:
		p = page.Order{Name: string(ByTitle), Ascending: true}
	}
	if o.Direction != "" {
		p.Ascending = o.Direction == Ascending
	}
	return p
}

// Selected returns a query for the ids of the workspace's links with the tag and in the folder; nil
// if both are nil. It returns InvalidInput.
func (s *Store) Selected(m workspace.Membership, tag, folderID *string) (*bun.SelectQuery, error) {
	if tag == nil && folderID == nil {
		return nil, nil
	}
	if tag == nil {
		return s.DB.NewSelect().Table("links").Column("id").Where("workspace_id = ?", m.ID()).
			Where("folder_id = ?", asFolderID(*folderID)).Apply(m.Inside("folder_id")), nil
	}
	names, err := linkfield.CheckTags([]string{*tag})
	if err != nil {
		return nil, errs.From(err).At("tag")
	}
	tagged := s.DB.NewSelect().Table("link_tags").Column("link_id").Where("workspace_id = ?", m.ID()).
		Where("tag IN (?)", bun.In(names)).Apply(m.InsideByID("link_id"))
	if folderID == nil {
		return tagged, nil
	}
	inFolder, err := s.Selected(m, nil, folderID)
	return tagged.Where("link_id IN (?)", inFolder), err
}

// asFolderID returns the id of a folder, or a text that is the id of none.
func asFolderID(folderID string) string {
	if id.Valid(id.Folder, folderID) {
		return folderID
	}
	return ""
}

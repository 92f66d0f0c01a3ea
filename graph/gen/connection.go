package gen

import (
	"context"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/parity"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Connection is a page of objects in the schema, and Edge one of its objects.
type (
	Connection[T any] struct{ page.Page[T] }
	Edge[T any]       struct {
		Cursor string
		Node   T
	}
)

// Nodes are the objects.
func (c *Connection[T]) Nodes() []T { return c.Items }

// TotalCount is the number of objects on all pages.
func (c *Connection[T]) TotalCount(ctx context.Context) (int64, error) { return c.Total(ctx) }

// Edges are the objects with their cursors.
func (c *Connection[T]) Edges() []Edge[T] {
	edges := make([]Edge[T], len(c.Items))
	for i, item := range c.Items {
		edges[i] = Edge[T]{Cursor: c.Cursors[i], Node: item}
	}
	return edges
}

// PageInfo describes the page.
func (c *Connection[T]) PageInfo() *PageInfo {
	info := &PageInfo{HasNextPage: c.HasNext, HasPreviousPage: c.HasPrevious}
	if n := len(c.Cursors); n > 0 {
		info.StartCursor, info.EndCursor = &c.Cursors[0], &c.Cursors[n-1]
	}
	if c.End != "" {
		info.EndCursor = &c.End
	}
	return info
}

// The connections of the schema and their edges. gqlgen binds them by their names.
type (
	APIKeyConnection           = Connection[*apikey.Key]
	APIKeyEdge                 = Edge[*apikey.Key]
	ClickConnection            = Connection[*Click]
	ClickEdge                  = Edge[*Click]
	DomainConnection           = Connection[*domain.Domain]
	DomainEdge                 = Edge[*domain.Domain]
	EventEdge                  = Edge[*workspace.LoggedEvent]
	FolderConnection           = Connection[*folder.Folder]
	FolderEdge                 = Edge[*folder.Folder]
	ImportRowConnection        = Connection[*importer.Row]
	ImportRowEdge              = Edge[*importer.Row]
	InvitationConnection       = Connection[*workspace.Invitation]
	InvitationEdge             = Edge[*workspace.Invitation]
	LinkEdge                   = Edge[*link.Link]
	LinkVersionConnection      = Connection[*link.Version]
	LinkVersionEdge            = Edge[*link.Version]
	MemberConnection           = Connection[*workspace.Member]
	MemberEdge                 = Edge[*workspace.Member]
	ParityDifferenceConnection = Connection[*parity.Row]
	ParityDifferenceEdge       = Edge[*parity.Row]
	SessionConnection          = Connection[*account.Session]
	SessionEdge                = Edge[*account.Session]
	TagConnection              = Connection[*linklist.Tag]
	TagEdge                    = Edge[*linklist.Tag]
	TaskConnection             = Connection[*task.Task]
	TaskEdge                   = Edge[*task.Task]
	UtmTemplateConnection      = Connection[*folder.Template]
	UtmTemplateEdge            = Edge[*folder.Template]
	WebhookConnection          = Connection[*webhook.Webhook]
	WebhookEdge                = Edge[*webhook.Webhook]
	WebhookDeliveryConnection  = Connection[*webhook.Delivery]
	WebhookDeliveryEdge        = Edge[*webhook.Delivery]
	WorkspaceConnection        = Connection[workspace.Membership]
	WorkspaceEdge              = Edge[workspace.Membership]
)

// LinkConnection is a page of links. Clicks counts the clicks of the links on all pages.
type LinkConnection struct {
	Connection[*link.Link]

	Clicks func(context.Context) (int64, error)
}

// ClickCount is the number of clicks of the links on all pages.
func (c *LinkConnection) ClickCount(ctx context.Context) (int64, error) { return c.Clicks(ctx) }

// EventConnection is a page of events, and the ID of the newest event; nil in the audit log.
type EventConnection struct {
	Connection[*workspace.LoggedEvent]

	Head *string
}

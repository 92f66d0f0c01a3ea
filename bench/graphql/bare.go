package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/bench/internal/rig2"
	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/linklist"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// bareDatabase names the variable with the URL of the database for new links: command lines are
// visible to all users.
const bareDatabase = "BARE_DATABASE_URL"

// serveBare is the helper that is the baseline: gqlgen over net/http as its users write it, with the
// schema of Linkforge and constants, or with a table for new links.
func serveBare(ctx context.Context, args []string) {
	c := newConstants("http://" + args[1])
	if database := os.Getenv(bareDatabase); database != "" {
		c.inserter = openInserter(ctx, database, args[0] == "batched")
	}
	server := handler.New(gen.NewExecutableSchema(gen.Config{Resolvers: c}))
	server.AddTransport(transport.POST{})
	server.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	mux := http.NewServeMux()
	mux.Handle("/graphql", server)
	rig.ServeHTTP(ctx, args[1], mux)
}

// constants are all that the resolvers return. The embedded interfaces are nil: no measured
// operation calls their other methods.
type constants struct {
	gen.ResolverRoot
	me       *account.Account
	page     *gen.LinkConnection
	created  *gen.CreateLinkPayload
	tags     []string
	short    string
	inserter *inserter // nil when new links are not stored
}

type (
	bareQuery struct {
		gen.QueryResolver
		c *constants
	}
	bareMutation struct {
		gen.MutationResolver
		c *constants
	}
	bareWorkspace struct {
		gen.WorkspaceResolver
		c *constants
	}
	bareLink struct {
		gen.LinkResolver
		c *constants
	}
)

func newConstants(publicURL string) *constants {
	now := time.Now().UTC()
	c := &constants{
		me:    &account.Account{ID: id.New(id.Account), Email: rig.TenantEmail, Name: rig.TenantName},
		page:  &gen.LinkConnection{PageInfo: &gen.PageInfo{HasNextPage: true}},
		tags:  listedTags(1),
		short: publicURL + "/" + constantCode,
	}
	for number := range pageSize {
		title := listedTitle(number)
		l := &link.Link{ID: id.New(id.Link), Code: constantCode, OriginalURL: listedURL(number), Title: &title,
			CreatedAt: now}
		end := page.Cursor(l.ID)
		c.page.Edges = append(c.page.Edges, &gen.LinkEdge{Cursor: end, Node: l})
		c.page.PageInfo.EndCursor = &end
	}
	title := newTitle
	c.created = &gen.CreateLinkPayload{Created: true, Errors: []*gen.UserError{}, Link: &link.Link{
		ID: id.New(id.Link), Code: constantCode, Title: &title, CreatedAt: now,
		OriginalURL: strings.ReplaceAll(newURL, rig.NumberPlace, strings.Repeat("0", len(rig.NumberPlace))),
	}}
	return c
}

// constantCode is as long as codes are.
const constantCode = "7pxQa2mKzR"

func (c *constants) Query() gen.QueryResolver { return bareQuery{c: c} }

func (c *constants) Mutation() gen.MutationResolver { return bareMutation{c: c} }

func (c *constants) Workspace() gen.WorkspaceResolver { return bareWorkspace{c: c} }

func (c *constants) Link() gen.LinkResolver { return bareLink{c: c} }

func (q bareQuery) Me(context.Context) (*account.Account, error) { return q.c.me, nil }

func (q bareQuery) Workspace(context.Context, gen.WorkspaceBy) (*workspace.Membership, error) {
	return &workspace.Membership{}, nil
}

func (m bareMutation) CreateLink(ctx context.Context, in gen.CreateLinkInput) (*gen.CreateLinkPayload, error) {
	if m.c.inserter != nil {
		return m.c.inserter.create(ctx, in, *m.c.created.Link)
	}
	return m.c.created, nil
}

func (w bareWorkspace) Links(
	context.Context, *workspace.Membership, *int, *string, *int, *string, *linklist.Filter, *linklist.Order,
) (*gen.LinkConnection, error) {
	return w.c.page, nil
}

func (l bareLink) ShortURL(context.Context, *link.Link) (string, error) { return l.c.short, nil }

func (l bareLink) Tags(context.Context, *link.Link) ([]string, error) { return l.c.tags, nil }

func (l bareLink) Status(context.Context, *link.Link) (routing.Status, error) {
	return routing.Active, nil
}

func (l bareLink) CreatedBy(context.Context, *link.Link) (*account.Account, error) {
	return l.c.me, nil
}

func (l bareLink) ClickCount(context.Context, *link.Link) (int64, error) { return 0, nil }

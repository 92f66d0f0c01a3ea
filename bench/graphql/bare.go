package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// bareDatabase names the variable with the URL of the database for new links: command lines are
// visible to all users.
const bareDatabase = "BARE_DATABASE_URL"

// serveBare is the helper that is the baseline: gqlgen over net/http as its users write it, with
// the schema of Linkforge and constants, or with a table for new links.
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
		page:  &gen.LinkConnection{},
		tags:  listedTags(1),
		short: publicURL + "/" + constantCode,
	}
	for number := range pageSize {
		title := listedTitle(number)
		l := &link.Link{ID: id.New(id.Link), Code: constantCode, CreatedAt: now,
			Values: linkfield.Values{OriginalURL: listedURL(number), Title: &title}}
		c.page.Items, c.page.Cursors = append(c.page.Items, l), append(c.page.Cursors, page.Cursor(l.ID))
	}
	c.page.HasNext = true
	title := newTitle
	c.created = &gen.CreateLinkPayload{Created: true, Errors: []*gen.UserError{}, Link: &link.Link{
		ID: id.New(id.Link), Code: constantCode, CreatedAt: now, Values: linkfield.Values{Title: &title,
			OriginalURL: strings.ReplaceAll(newURL, rig.NumberPlace, strings.Repeat("0", len(rig.NumberPlace)))},
	}}
	return c
}

// constantCode is as long as codes are.
const constantCode = "7pxQa2mKzR"

func (c *constants) Query() gen.QueryResolver                    { return bareQuery{c: c} }
func (c *constants) Mutation() gen.MutationResolver              { return bareMutation{c: c} }
func (c *constants) Workspace() gen.WorkspaceResolver            { return bareWorkspace{c: c} }
func (c *constants) Link() gen.LinkResolver                      { return bareLink{c: c} }
func (q bareQuery) Me(context.Context) (*account.Account, error) { return q.c.me, nil }

func (q bareQuery) Workspace(context.Context, *gen.WorkspaceBy) (*workspace.Membership, error) {
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
func (l bareLink) Tags(context.Context, *link.Link) ([]string, error)   { return l.c.tags, nil }
func (l bareLink) Status(context.Context, *link.Link) (routing.Status, error) {
	return routing.Active, nil
}
func (l bareLink) CreatedBy(context.Context, *link.Link) (*account.Account, error) {
	return l.c.me, nil
}
func (l bareLink) ClickCount(context.Context, *link.Link) (*int64, error) { return new(int64), nil }

// leastTable has the columns and the indexes of links, but no foreign keys, no policies and no
// triggers.
const leastTable = "least_links"

// inserter inserts links into it and does nothing else: the lower bound of a creation. It checks
// and counts nothing, and writes no audit log.
type inserter struct {
	pool *pgxpool.Pool
	// batched means that requests which arrive during a statement of the workspace share the next
	// one.
	batched bool
	calls   batcher.Batcher[string, *link.Link, struct{}]
}

func openInserter(ctx context.Context, databaseURL string, batched bool) *inserter {
	config := rig.Must(pgxpool.ParseConfig(databaseURL))
	config.MaxConns = 20 // as Linkforge has
	return &inserter{pool: rig.Must(pgxpool.NewWithConfig(ctx, config)), batched: batched,
		calls: batcher.Batcher[string, *link.Link, struct{}]{MaxBatch: 100, Serial: true}}
}

// create inserts a link. Its response waits for the commit.
func (k *inserter) create(ctx context.Context, in gen.CreateLinkInput, l link.Link) (*gen.CreateLinkPayload, error) {
	hash := sha256.Sum256([]byte(in.URL))
	l.ID, l.WorkspaceID, l.Title, l.Strategy = id.New(id.Link), in.WorkspaceID, in.Title.Value(), link.Deterministic
	l.OriginalURL, l.CanonicalURL, l.CanonicalHash = in.URL, in.URL, hash[:]
	l.Code = shortcode.Deterministic(in.URL, in.WorkspaceID, 0)
	l.CreatedAt = time.Now()
	var err error
	if k.batched {
		_, err = k.calls.Do(ctx, l.WorkspaceID, &l, func(ctx context.Context, all []*link.Link) (struct{}, error) {
			return struct{}{}, k.insert(ctx, all)
		})
	} else {
		err = k.insert(ctx, []*link.Link{&l})
	}
	return &gen.CreateLinkPayload{Created: true, Errors: []*gen.UserError{}, Link: &l}, err
}

const insertLeast = "INSERT INTO " + leastTable + ` (id, workspace_id, code, root_code, strategy, original_url,
	canonical_url, canonical_hash, title, title_key, search, redirect_status, check_at, created_at, updated_at)
	SELECT id, workspace_id, code, code, 'DETERMINISTIC', url, url, hash, title, title_key, search, 302, at, at, at
	FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BYTEA[], $6::TEXT[], $7::TEXT[], $8::TEXT[],
		$9::TIMESTAMPTZ[]) AS n (id, workspace_id, code, url, hash, title, title_key, search, at)
		ON CONFLICT DO NOTHING`

func (k *inserter) insert(ctx context.Context, all []*link.Link) error {
	var ids, workspaces, codes, urls, titles, keys, searches []string
	var hashes [][]byte
	var at []time.Time
	for _, l := range all {
		ids, workspaces, codes = append(ids, l.ID), append(workspaces, l.WorkspaceID), append(codes, l.Code)
		urls, hashes, at = append(urls, l.OriginalURL), append(hashes, l.CanonicalHash), append(at, l.CreatedAt)
		titles, keys = append(titles, *l.Title), append(keys, strings.ToLower(*l.Title))
		searches = append(searches, strings.ToLower(strings.Join([]string{*l.Title, "", l.OriginalURL, l.Code}, "\n")))
	}
	tag, err := k.pool.Exec(ctx, insertLeast, ids, workspaces, codes, urls, hashes, titles, keys, searches, at)
	if err == nil && tag.RowsAffected() != int64(len(all)) {
		return fmt.Errorf("%d links were inserted of %d", tag.RowsAffected(), len(all))
	}
	return err
}

package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxSelectionBytes and maxSelectionCost bound the selection of a webhook.
	maxSelectionBytes = 2 << 10
	maxSelectionCost  = 500
	// maxSelections is how many documents a node keeps parsed.
	maxSelections = 1000

	// renderHead and renderTail make a query of the selections of events and clicks. The resolvers
	// of the fields above them are replaced: see Renderer.
	renderHead = `query { workspace(by: {id: ""}) { `
	eventsHead = `events { edges { node { ...Selection } } } } } fragment Selection on Event `
	clicksHead = `clicks { edges { node { ...Selection } } } } } fragment Selection on Click `

	defaultSelection = `{ id type at actorId operationId changes { field before after omitted } ` +
		`link { id externalId shortUrl version } }`
	clickSelection = `{ id at status bot country device browser os language referrer utmSource utmMedium ` +
		`utmCampaign utmTerm utmContent qrSource ruleId targetId link { id externalId shortUrl } }`
)

// Renderer renders selections on the type Event with the executor of the API, for webhooks.
type Renderer struct {
	*resolver
	exec   *executor.Executor
	schema graphql.ExecutableSchema
}

// NewRenderer returns a renderer over the stores.
func NewRenderer(c Config) *Renderer {
	r := &resolver{Config: c}
	schema := newSchema(r)
	e := executor.New(schema)
	documents := lru.New[*ast.QueryDocument](maxSelections)
	e.SetParserTokenLimit(c.Maxima.Tokens)
	e.SetQueryCache(documents)
	e.SetDisableSuggestion(!c.Introspection)
	e.SetDefaultRulesFn(limit.ValidationRules)
	e.SetRecoverFunc(func(_ context.Context, value any) error { return errs.Panic(value) })
	e.Use(&limit.Document{Bounds: c.Bounds, Maxima: c.Maxima, Valid: documents})
	e.Use(&limit.Arguments{})
	return &Renderer{resolver: r, exec: e, schema: schema}
}

// renderKey is the context key of the event that an operation renders.
type renderKey struct{}

// rendering has the results of the fields above a selection.
type rendering struct {
	member workspace.Membership
	events *gen.EventConnection
	clicks *gen.ClickConnection
}

// Check validates the selection of a webhook, and reports whether it reads statistics. It returns
// InvalidInput.
func (r *Renderer) Check(selection string) (needsStats bool, err error) {
	operation, points, err := r.cost(selection)
	if err != nil {
		return false, err
	}
	if points > maxSelectionCost {
		return false, errs.New(errs.InvalidInput, "The selection costs %d points. The maximum is %d. "+
			"Select fewer fields.", points, maxSelectionCost).At("selection")
	}
	return r.readsStats(operation)
}

// cost returns a parsed selection and its cost for one event. It returns InvalidInput.
func (r *Renderer) cost(selection string) (operation *graphql.OperationContext, points int, err error) {
	ctx := context.Background()
	if operation, err = r.prepare(ctx, eventsHead, selection); err != nil {
		return nil, 0, err
	}
	baseline, err := r.prepare(ctx, eventsHead, "{ id }")
	if err != nil {
		return nil, 0, err
	}
	points = complexity.Calculate(ctx, r.schema, operation.Operation, nil) -
		complexity.Calculate(ctx, r.schema, baseline.Operation, nil)
	return operation, points / eventsPerPage, nil // a page of events multiplies the cost of an event
}

// eventsPerPage is the size of a page without the argument first.
const eventsPerPage = page.Default

// readsStats reports whether an operation needs STATS_READ. It returns InvalidInput for fields that
// webhooks may not read.
func (r *Renderer) readsStats(operation *graphql.OperationContext) (needsStats bool, err error) {
	fragment := operation.Doc.Fragments.ForName("Selection")
	for name := range typesIn(fragment.SelectionSet, map[string]bool{}) {
		if slices.Contains(auditFields, name) {
			return false, errs.New(errs.InvalidInput, "Webhooks cannot read the field %s. Leave it out.", name).
				At("selection")
		}
		switch needed := typePermissions[name]; needed {
		case "", workspace.ReadLinks:
		case workspace.ReadStats:
			needsStats = true
		default:
			return false, errs.New(errs.InvalidInput, "Webhooks cannot read the type %s. Leave it out.", name).
				At("selection")
		}
	}
	return needsStats, nil
}

// auditFields are the fields that only the audit log shows.
var auditFields = []string{"Workspace.auditLog", "Event.details"}

// typesIn returns the names of the types that fields of a selection return, of a connection that of
// its items, and the names of the fields after those of their types.
func typesIn(selections ast.SelectionSet, found map[string]bool) map[string]bool {
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			if selection.Definition != nil {
				found[strings.TrimSuffix(selection.Definition.Type.Name(), "Connection")] = true
				found[selection.ObjectDefinition.Name+"."+selection.Name] = true
			}
			typesIn(selection.SelectionSet, found)
		case *ast.InlineFragment:
			typesIn(selection.SelectionSet, found)
		}
	}
	return found
}

// prepare parses and validates a selection. It returns InvalidInput. Only a single selection is
// accepted: text after it would be other definitions of the document.
func (r *Renderer) prepare(ctx context.Context, head, selection string) (*graphql.OperationContext, error) {
	if len(selection) > maxSelectionBytes {
		return nil, errs.New(errs.InvalidInput, "The selection has %d bytes. The maximum is %d.", len(selection),
			maxSelectionBytes).At("selection")
	}
	operation, problems := r.exec.CreateOperationContext(graphql.StartOperationTrace(ctx),
		&graphql.RawParams{Query: renderHead + head + strings.TrimSpace(selection)})
	if len(problems) > 0 {
		return nil, errs.New(errs.InvalidInput, "The selection is not valid: %s", problems[0].Message).At("selection")
	}
	if len(operation.Doc.Operations) != 1 || len(operation.Doc.Fragments) != 1 ||
		len(operation.Doc.Fragments[0].Directives) > 0 {
		return nil, errs.New(errs.InvalidInput, "The selection must be fields in braces, as in { id type }.").
			At("selection")
	}
	return operation, nil
}

// Event implements dispatch.Renderer.
func (r *Renderer) Event(
	ctx context.Context, m workspace.Membership, selection *string, e *audit.Event,
) (data json.RawMessage, problem string, err error) {
	if selection != nil {
		_, err := r.Check(*selection)
		if err == nil {
			data, err = r.event(ctx, m, *selection, e)
		}
		if !errs.Is(err, errs.InvalidInput) {
			return data, "", err
		}
		problem = errs.From(err).Public()
	}
	data, err = r.event(ctx, m, defaultSelection, e)
	return data, problem, err
}

// event renders a selection; nil if it has more than MaxBody bytes.
func (r *Renderer) event(
	ctx context.Context, m workspace.Membership, selection string, e *audit.Event,
) (json.RawMessage, error) {
	logged := &workspace.LoggedEvent{Event: e, In: m, ShowsActor: true}
	all := &gen.EventConnection{Edges: []*gen.EventEdge{{Cursor: e.ID, Node: logged}}}
	var links []string
	if id.Valid(id.Link, e.TargetID) {
		links = append(links, e.TargetID)
	}
	data, err := r.render(ctx, eventsHead, selection, rendering{member: m, events: all}, links, 1)
	if err != nil || len(data[0]) > dispatch.MaxBody {
		return nil, err
	}
	return data[0], nil
}

// Clicks implements dispatch.Renderer.
func (r *Renderer) Clicks(
	ctx context.Context, m workspace.Membership, clicks []*click.Click,
) ([]json.RawMessage, error) {
	all := &gen.ClickConnection{}
	links := map[string]bool{}
	for _, c := range clicks {
		all.Edges = append(all.Edges, &gen.ClickEdge{Cursor: c.PublicID(), Node: clickOf(m, c)})
		links[c.LinkID] = true
	}
	return r.render(ctx, clicksHead, clickSelection, rendering{member: m, clicks: all},
		slices.Collect(maps.Keys(links)), len(clicks))
}

// render executes a selection for n objects. It returns InvalidInput if the selection caused an
// error.
func (r *Renderer) render(
	ctx context.Context, head, selection string, fixed rendering, links []string, n int,
) ([]json.RawMessage, error) {
	// Webhooks have the rights of a key without an account.
	ctx = account.WithActor(ctx, account.Actor{Key: &account.Key{
		WorkspaceID: fixed.member.ID(), Scopes: []string{string(workspace.ReadLinks), string(workspace.ReadStats)},
	}})
	ctx = loader.WithLoaders(withLists(ctx), r.sources())
	loader.Of(ctx).In(fixed.member).Links.Expect(links)
	operation, err := r.prepare(ctx, head, selection)
	if err != nil {
		return nil, err
	}
	inner := operation.ResolverMiddleware
	operation.ResolverMiddleware = func(ctx context.Context, resolve graphql.Resolver) (any, error) {
		if value := fixed.field(graphql.GetFieldContext(ctx)); value != nil {
			return value, nil
		}
		return inner(ctx, resolve)
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	checkScopes(operation, actor)
	respond, ctx := r.exec.DispatchOperation(ctx, operation)
	response := respond(ctx)
	if response == nil || ctx.Err() != nil { // no field has failed: there was no time to render them
		return nil, context.Cause(ctx)
	}
	if err := fieldError(response.Errors); err != nil {
		return nil, err
	}
	return nodesIn(response.Data, n)
}

// fieldError returns the error of a response: InvalidInput if the selection caused all errors of
// its fields, so that it fails each time. Otherwise rendering again can succeed.
func fieldError(problems gqlerror.List) error {
	for _, problem := range problems {
		switch errs.From(problem).Kind {
		case errs.Internal, errs.Unavailable, errs.RateLimited:
			return fmt.Errorf("rendering a selection: %w", problem)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errs.New(errs.InvalidInput, "A field of the selection failed: %s", errs.From(problems[0]).Public())
}

// field returns the result of a field above the selection; nil for any other field.
func (r rendering) field(f *graphql.FieldContext) any {
	if f.Object == "Query" && f.Field.Name == "workspace" {
		return &r.member
	}
	if f.Object != "Workspace" || f.Parent == nil || f.Parent.Object != "Query" {
		return nil
	}
	switch f.Field.Name {
	case "events":
		return r.events
	case "clicks":
		return r.clicks
	}
	return nil
}

// nodesIn returns the nodes of a rendered page.
func nodesIn(response json.RawMessage, n int) ([]json.RawMessage, error) {
	type list struct {
		Edges []struct{ Node json.RawMessage }
	}
	var got struct {
		Workspace struct{ Events, Clicks list }
	}
	if err := json.Unmarshal(response, &got); err != nil {
		return nil, fmt.Errorf("reading rendered objects: %w", err)
	}
	edges := append(got.Workspace.Events.Edges, got.Workspace.Clicks.Edges...)
	if len(edges) != n {
		return nil, fmt.Errorf("%d of %d objects were rendered", len(edges), n)
	}
	nodes := make([]json.RawMessage, 0, n)
	for _, e := range edges {
		nodes = append(nodes, e.Node)
	}
	return nodes, nil
}

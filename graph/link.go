package graph

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateLink(ctx context.Context, in gen.CreateLinkInput) (*gen.CreateLinkPayload, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	var m workspace.Membership
	if in.IdempotencyKey == nil && in.Routing.Value() == nil {
		m, err = r.Workspaces.Presume(ctx, actor, in.WorkspaceID, workspace.CreateLinks)
	} else {
		m, err = r.Workspaces.Require(ctx, actor, in.WorkspaceID)
	}
	if err != nil {
		return nil, notFoundAt(err, "workspaceId")
	}
	results, err := r.Creation.CreateMany(ctx, m, creation.Batch{
		Links: []*creation.Input{newLink(&in.NewLinkInput)}, IdempotencyKey: in.IdempotencyKey,
	})
	if len(results) == 0 {
		return nil, err
	}
	return r.created(results[0], in.URL), errs.All(results[0].Err, err)
}

// created is the payload of the creation of a link to a URL.
func (r *mutationResolver) created(one link.Result, url string) *gen.CreateLinkPayload {
	p := &gen.CreateLinkPayload{Link: one.Link, Created: one.Created, Ignored: one.Ignored, Dropped: one.Dropped}
	if one.Link != nil {
		p.ShortURL, p.SameDestination = new(r.Links.ShortURL(one.Link)), one.Link.RedirectsTo(url)
	}
	return p
}

func (r *mutationResolver) CreateLinks(ctx context.Context, in gen.CreateLinksInput) (*gen.CreateLinksPayload, error) {
	links := make([]*creation.Input, 0, len(in.Links))
	for _, one := range in.Links {
		links = append(links, newLink(one))
	}
	results, operationID, err := forLinks(ctx, r, in.WorkspaceID, "NewLinkInput", func(
		m workspace.Membership,
	) ([]link.Result, error) {
		return r.Creation.CreateMany(ctx, m, creation.Batch{
			Links: links, OnError: optional.Or(in.OnError, link.SkipFailed), IdempotencyKey: in.IdempotencyKey,
			OperationID: id.New(id.Operation),
		})
	}, func(i int, one link.Result, found []*gen.UserError) *gen.CreateLinkPayload {
		p := r.created(one, in.Links[i].URL)
		p.Errors = found
		return p
	})
	return &gen.CreateLinksPayload{Results: results, OperationID: operationID}, err
}

func newLink(in *gen.NewLinkInput) *creation.Input {
	l := linkInput(in)
	l.Fields.DropNulls() // null is as good as absent
	return l
}

func linkInput(in *gen.NewLinkInput) *creation.Input {
	return &creation.Input{URL: in.URL, Strategy: in.Strategy, CustomCode: in.CustomCode, DomainID: in.DomainID,
		Fields: changeOf(in.LinkFields, nil)}
}

// forLinks changes links of a workspace that the caller is a member of, and returns the result of
// each, and the id of the operation. An error of the call has those of its links, whose input is of
// the type.
func forLinks[T any](
	ctx context.Context, r *mutationResolver, workspaceID, input string,
	change func(workspace.Membership) ([]link.Result, error),
	result func(i int, one link.Result, found []*gen.UserError) T,
) ([]T, *string, error) {
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	changed, err := change(m)
	var links []*link.Link
	results := make([]T, 0, len(changed))
	for i, one := range changed {
		found, _ := userErrors(one.Err, input) // change returns other errors for the whole call
		if err != nil {
			err = errs.All(err, errs.Under(one.Err, "links", strconv.Itoa(i)))
		}
		results = append(results, result(i, one, found))
		if one.Link != nil {
			links = append(links, one.Link)
		}
	}
	loader.Of(ctx).Expect(links)
	return results, link.OperationOf(changed), err
}

func (r *mutationResolver) DeleteLink(ctx context.Context, in gen.DeleteLinkInput) (*gen.DeleteLinkPayload, error) {
	l, err := forItem(ctx, &r.Config, in.ID, r.Links.WorkspaceOf, r.Edit.Delete)
	return &gen.DeleteLinkPayload{Link: l, DeletedID: &in.ID}, err
}

func (r *mutationResolver) DeleteLinks(ctx context.Context, in gen.DeleteLinksInput) (*gen.DeleteLinksPayload, error) {
	results, operationID, err := forLinks(ctx, r, in.WorkspaceID, "", func(
		m workspace.Membership,
	) ([]link.Result, error) {
		if err := (*resolver)(r).chargeStored(ctx, m, linklist.Keys{IDs: in.Ids}, linklist.Keys{}); err != nil {
			return nil, err
		}
		return r.Edit.DeleteMany(ctx, m, in.Ids, optional.Or(in.OnError, link.SkipFailed))
	}, func(i int, one link.Result, found []*gen.UserError) *gen.DeleteLinkPayload {
		p := &gen.DeleteLinkPayload{Link: one.Link, Errors: found}
		if one.Link != nil {
			p.DeletedID = &in.Ids[i]
		}
		return p
	})
	return &gen.DeleteLinksPayload{Results: results, OperationID: operationID}, err
}

func (r *mutationResolver) UpdateLink(ctx context.Context, in gen.UpdateLinkInput) (*gen.UpdateLinkPayload, error) {
	update := func(ctx context.Context, m workspace.Membership, _ string) (*link.Link, error) {
		c := updateOf(&in)
		if err := r.chargeChanges(ctx, m, c); err != nil {
			return nil, err
		}
		return r.Edit.Update(ctx, m, c)
	}
	l, err := forItem(ctx, &r.Config, in.ID, r.Links.WorkspaceOf, update)
	return &gen.UpdateLinkPayload{Link: l}, err
}

func (r *mutationResolver) UpdateLinks(ctx context.Context, in gen.UpdateLinksInput) (*gen.UpdateLinksPayload, error) {
	changes := make([]linkfield.Change, 0, len(in.Links))
	for _, one := range in.Links {
		changes = append(changes, updateOf(one))
	}
	results, operationID, err := forLinks(ctx, r, in.WorkspaceID, "UpdateLinkInput", func(
		m workspace.Membership,
	) ([]link.Result, error) {
		if err := r.chargeChanges(ctx, m, changes...); err != nil {
			return nil, err
		}
		return r.Edit.UpdateMany(ctx, m, changes, optional.Or(in.OnError, link.SkipFailed))
	}, func(_ int, one link.Result, found []*gen.UserError) *gen.UpdateLinkPayload {
		return &gen.UpdateLinkPayload{Link: one.Link, Errors: found}
	})
	return &gen.UpdateLinksPayload{Results: results, OperationID: operationID}, err
}

// chargeChanges is chargeStored for changes.
func (r *mutationResolver) chargeChanges(
	ctx context.Context, m workspace.Membership, changes ...linkfield.Change,
) error {
	var all, pending linklist.Keys
	for _, c := range changes {
		if all.IDs = append(all.IDs, c.ID); c.NeedsValidStates() {
			pending.IDs = append(pending.IDs, c.ID)
		}
	}
	return (*resolver)(r).chargeStored(ctx, m, all, pending)
}

func updateOf(in *gen.UpdateLinkInput) linkfield.Change {
	c := changeOf(in.LinkFields, in.URL)
	c.ID, c.Seen = in.ID, in.UpdatedAt
	return c
}

func changeOf(in gen.LinkFields, url *string) linkfield.Change {
	return in.Change(url, routingChange(in.Routing.Value()))
}

func (r *mutationResolver) RestoreLink(ctx context.Context, in gen.RestoreLinkInput) (*gen.RestoreLinkPayload, error) {
	l, err := forItem(ctx, &r.Config, in.ID, r.Links.WorkspaceOf, r.Edit.Restore)
	return &gen.RestoreLinkPayload{Link: l}, err
}

func (r *mutationResolver) CheckLink(ctx context.Context, in gen.CheckLinkInput) (*gen.CheckLinkPayload, error) {
	l, err := forItem(ctx, &r.Config, in.ID, r.Links.WorkspaceOf, outside(r.Checker.Check))
	return &gen.CheckLinkPayload{Link: l}, err
}

func (r *queryResolver) Link(ctx context.Context, by gen.LinkBy) (*link.Link, error) {
	if _, err := account.Current(ctx); err != nil {
		return nil, err // anonymous users must not learn which codes exist
	}
	switch {
	case by.ID != nil:
		return ifFound(forItem(ctx, &r.Config, *by.ID, r.Links.WorkspaceOf, r.Links.Get))
	case by.External != nil:
		return ifFound(linkIn(ctx, r, by.External.WorkspaceID, by.External.ExternalID, r.Links.ByExternalID))
	case by.Code != nil:
		return ifFound(linkIn(ctx, r, by.Code.WorkspaceID, by.Code.Code, func(
			ctx context.Context, m workspace.Membership, code string,
		) (*link.Link, error) {
			return r.Links.ByCode(ctx, m, code, by.Code.DomainID)
		}))
	}
	return r.linkAt(ctx, *by.ShortURL)
}

// linkIn looks up a link of a workspace that the caller is a member of.
func linkIn(
	ctx context.Context, r *queryResolver, workspaceID, key string,
	lookUp func(context.Context, workspace.Membership, string) (*link.Link, error),
) (*link.Link, error) {
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	return lookUp(ctx, m, key)
}

// linkAt returns the link at a short URL; nil if there is none, or the caller may not read it.
func (r *queryResolver) linkAt(ctx context.Context, shortURL string) (*link.Link, error) {
	at, err := r.Links.Pasted(ctx, shortURL, "")
	if errs.Is(err, errs.NotFound) { // takes the same statements as a link of another workspace
		at, err = &link.Link{WorkspaceID: id.PublicWorkspace}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := r.membership(ctx, at.WorkspaceID)
	if err != nil {
		return ifFound[link.Link](nil, err)
	}
	return ifFound(r.Links.Get(ctx, m, at.ID))
}

func (r *queryResolver) PreviewCode(ctx context.Context, workspaceID, url string) (*creation.Preview, error) {
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	return r.Creation.Preview(ctx, m, url)
}

func (r *linkResolver) Workspace(_ context.Context, l *link.Link) (*workspace.Membership, error) {
	if l.In.IsPublic() {
		return nil, nil
	}
	return &l.In, nil
}

func (r *linkResolver) Tags(ctx context.Context, l *link.Link) ([]string, error) {
	if tags, ok := l.EffectiveTags(); ok {
		return tags, nil
	}
	return notNull(loader.Of(ctx).In(l.In).Tags.Get(ctx, l.ID))
}

func (r *linkResolver) ShortURL(_ context.Context, l *link.Link) (string, error) {
	return r.Links.ShortURL(l), nil
}

func (r *linkResolver) Status(_ context.Context, l *link.Link) (routing.Status, error) {
	return l.Status(r.Now()), nil
}

func (r *linkResolver) CreatedBy(ctx context.Context, l *link.Link) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, optional.Value(l.CreatedBy))
}

func (r *linkResolver) DestinationState(ctx context.Context, l *link.Link) (*link.DestinationState, error) {
	checks, err := r.DestinationChecks(ctx, l)
	return new(link.WorstState(checks)), err
}

func (r *linkResolver) DestinationChecks(ctx context.Context, l *link.Link) ([]*link.URLCheck, error) {
	if len(l.Routing.URLs()) == 0 {
		return l.Checks(nil), nil
	}
	ofRouting, err := loader.Of(ctx).In(l.In).Checks.Get(ctx, l.ID)
	return l.Checks(ofRouting), err
}

// totalOf returns the click total of a link. If stats of the link are requested once, it is of the same
// instant.
func totalOf(ctx context.Context, l *link.Link) (clickstore.LinkTotal, error) {
	if requested(ctx, "stats") == 1 {
		if t := loader.SharedTotalOf(ctx, graphql.GetFieldContext(ctx).Parent).Wait(ctx); t != nil {
			return *t, nil
		}
	}
	return loader.Of(ctx).In(l.In).Totals.Get(ctx, l.ID)
}

// requested returns how often fields are requested of the object that has the current field.
func requested(ctx context.Context, fields ...string) (n int) {
	current := graphql.GetFieldContext(ctx)
	object := current.Parent
	for object != nil && object.Field.Field == nil { // an element of a list
		object = object.Parent
	}
	if object == nil {
		return 0
	}
	types := []string{current.Object, "Node"}
	for _, f := range graphql.CollectFields(graphql.GetOperationContext(ctx), object.Field.Selections, types) {
		if slices.Contains(fields, f.Name) {
			n++
		}
	}
	return n
}

func (r *linkResolver) ClickCount(ctx context.Context, l *link.Link) (*int64, error) {
	t, err := totalOf(ctx, l)
	return &t.Clicks, err
}

func (r *linkResolver) LastClickedAt(ctx context.Context, l *link.Link) (*time.Time, error) {
	t, err := totalOf(ctx, l)
	if err != nil || t.Clicks == 0 {
		return nil, err
	}
	return &t.LastAt, nil
}

func (r *linkResolver) AverageRedirectMs(ctx context.Context, l *link.Link) (*float64, error) {
	t, err := totalOf(ctx, l)
	return t.Mean(), err
}

func (r *linkResolver) HitQuota(ctx context.Context, l *link.Link) (*gen.Quota, error) {
	used, err := loader.Of(ctx).In(l.In).Hits.Get(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	return quotaOf(r.hitLimit(l.In), used, click.MonthOf(r.Now())), nil
}

// totals returns the click totals of links. Links without a click are missing.
func (c *Config) totals(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string]clickstore.LinkTotal, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return c.Ledger.Totals(ctx, m.ID(), linkIDs...)
}

// hitsUsed returns the used hits of links in this month: the hits of the counters, and at least the
// clicks. Hits of open leases are missing until their clicks are ingested, or the leases end.
func (c *Config) hitsUsed(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]int64, error) {
	this := click.MonthOf(c.Now())
	entered, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	used, err := c.Ledger.MonthClicks(entered, linkIDs, this)
	if err != nil || c.Quotas == nil {
		return used, err
	}
	counted, err := c.Quotas.Hits.Used(ctx, this, linkIDs...)
	if err != nil { // the clicks are known
		c.Log.WarnContext(ctx, "reading used hits failed", "error", err)
	}
	for linkID, hits := range counted {
		used[linkID] = max(used[linkID], hits)
	}
	return used, nil
}

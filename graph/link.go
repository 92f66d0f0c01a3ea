package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/workspace"
)

// CreateLink implements gen.MutationResolver.
func (r mutation) CreateLink(ctx context.Context, in gen.CreateLinkInput) (*gen.CreateLinkPayload, error) {
	l, created, err := r.createLink(ctx, in)
	mend, err := userErrors(err)
	return &gen.CreateLinkPayload{
		Link: l, Created: created, SameDestination: l != nil && l.RedirectsTo(in.URL), Errors: mend,
	}, err
}

func (r mutation) createLink(ctx context.Context, in gen.CreateLinkInput) (l *link.Link, created bool, err error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, false, err
	}
	results, err := r.Links.CreateMany(ctx, m, link.Batch{
		Links: []*link.New{{
			URL:            in.URL,
			Strategy:       in.Strategy,
			CustomCode:     in.CustomCode,
			Title:          in.Title,
			Note:           in.Note,
			Tags:           in.Tags,
			RedirectStatus: in.RedirectStatus,
			StartsAt:       in.StartsAt,
			ExpiresAt:      in.ExpiresAt,
			MaxClicks:      in.MaxClicks,
		}},
		IdempotencyKey: in.IdempotencyKey,
	})
	if err != nil {
		return nil, false, err
	}
	return results[0].Link, results[0].Created, results[0].Err
}

// CreateLinks implements gen.MutationResolver.
func (r mutation) CreateLinks(ctx context.Context, in gen.CreateLinksInput) (*gen.CreateLinksPayload, error) {
	results, err := r.inWorkspace(ctx, in.WorkspaceID, func(m workspace.Membership) ([]link.Result, error) {
		return r.Links.CreateMany(ctx, m, link.Batch{Links: in.Links, OnError: policy(in.OnError), IdempotencyKey: in.IdempotencyKey})
	})
	mend, err := userErrors(err)
	payload := &gen.CreateLinksPayload{Results: []*gen.CreateLinkResult{}, Errors: mend}
	for i, one := range results {
		mend, _ := userErrors(one.Err) // what cannot be mended is an error of the whole call
		payload.Results = append(payload.Results, &gen.CreateLinkResult{
			Link: one.Link, Created: one.Created, SameDestination: one.Link != nil && one.Link.RedirectsTo(in.Links[i].URL), Errors: mend,
		})
	}
	return payload, err
}

// inWorkspace does something with many links of a workspace that the caller is a member of.
func (r mutation) inWorkspace(
	ctx context.Context, workspaceID string, do func(workspace.Membership) ([]link.Result, error),
) ([]link.Result, error) {
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	results, err := do(m)
	var links []*link.Link
	for _, one := range results {
		if one.Link != nil {
			links = append(links, one.Link)
		}
	}
	loader.Of(ctx).Expect(links)
	return results, err
}

func policy(p *link.Policy) link.Policy {
	if p == nil {
		return link.SkipFailed
	}
	return *p
}

// DeleteLink implements gen.MutationResolver.
func (r mutation) DeleteLink(ctx context.Context, in gen.DeleteLinkInput) (*gen.DeleteLinkPayload, error) {
	l, mend, err := r.one(ctx, in.ID, r.Links.Delete)
	return &gen.DeleteLinkPayload{Link: l, Errors: mend}, err
}

// one does something with one link of a workspace that the caller is a member of.
func (r mutation) one(
	ctx context.Context, linkID string, do func(ctx context.Context, m workspace.Membership, linkID string) (*link.Link, error),
) (*link.Link, []*gen.UserError, error) {
	m, err := r.membershipOfLink(ctx, linkID)
	var l *link.Link
	if err == nil {
		l, err = do(ctx, m, linkID)
	}
	mend, err := userErrors(err)
	return l, mend, err
}

// DeleteLinks implements gen.MutationResolver.
func (r mutation) DeleteLinks(ctx context.Context, in gen.DeleteLinksInput) (*gen.DeleteLinksPayload, error) {
	results, err := r.inWorkspace(ctx, in.WorkspaceID, func(m workspace.Membership) ([]link.Result, error) {
		return r.Links.DeleteMany(ctx, m, in.Ids, policy(in.OnError))
	})
	mend, err := userErrors(err)
	payload := &gen.DeleteLinksPayload{Results: []*gen.DeleteLinkResult{}, Errors: mend}
	for _, one := range results {
		mend, _ := userErrors(one.Err)
		payload.Results = append(payload.Results, &gen.DeleteLinkResult{Link: one.Link, Errors: mend})
	}
	return payload, err
}

// UpdateLink implements gen.MutationResolver.
func (r mutation) UpdateLink(ctx context.Context, in gen.UpdateLinkInput) (*gen.UpdateLinkPayload, error) {
	l, mend, err := r.one(ctx, in.ID, func(ctx context.Context, m workspace.Membership, _ string) (*link.Link, error) {
		return r.Links.Update(ctx, m, changeOf(in))
	})
	return &gen.UpdateLinkPayload{Link: l, Errors: mend}, err
}

// UpdateLinks implements gen.MutationResolver.
func (r mutation) UpdateLinks(ctx context.Context, in gen.UpdateLinksInput) (*gen.UpdateLinksPayload, error) {
	changes := make([]link.Change, 0, len(in.Links))
	for _, one := range in.Links {
		changes = append(changes, changeOf(*one))
	}
	results, err := r.inWorkspace(ctx, in.WorkspaceID, func(m workspace.Membership) ([]link.Result, error) {
		return r.Links.UpdateMany(ctx, m, changes, policy(in.OnError))
	})
	mend, err := userErrors(err)
	payload := &gen.UpdateLinksPayload{Results: []*gen.UpdateLinkResult{}, Errors: mend}
	for _, one := range results {
		mend, _ := userErrors(one.Err)
		payload.Results = append(payload.Results, &gen.UpdateLinkResult{Link: one.Link, Errors: mend})
	}
	return payload, err
}

func changeOf(in gen.UpdateLinkInput) link.Change {
	return link.Change{
		ID:             in.ID,
		URL:            edit(in.URL),
		Title:          replace(in.Title),
		Note:           replace(in.Note),
		Tags:           replace(in.Tags),
		StartsAt:       replace(in.StartsAt),
		ExpiresAt:      replace(in.ExpiresAt),
		MaxClicks:      replace(in.MaxClicks),
		RedirectStatus: edit(in.RedirectStatus),
		Archived:       edit(in.Archived),
		StatsPublic:    edit(in.StatsPublic),
		Seen:           in.UpdatedAt,
	}
}

// replace is the change of a field that null removes.
func replace[T any](value graphql.Omittable[T]) link.Edit[T] {
	return link.Edit[T]{Set: value.IsSet(), To: value.Value()}
}

// edit is the change of a field that cannot be removed: null leaves it as it is.
func edit[T any](value *T) (e link.Edit[T]) {
	if value != nil {
		e.Set, e.To = true, *value
	}
	return e
}

// RestoreLink implements gen.MutationResolver.
func (r mutation) RestoreLink(ctx context.Context, in gen.RestoreLinkInput) (*gen.RestoreLinkPayload, error) {
	l, mend, err := r.one(ctx, in.ID, r.Links.Restore)
	return &gen.RestoreLinkPayload{Link: l, Errors: mend}, err
}

// CheckLink implements gen.MutationResolver.
func (r mutation) CheckLink(ctx context.Context, in gen.CheckLinkInput) (*gen.CheckLinkPayload, error) {
	l, mend, err := r.one(ctx, in.ID, r.Checker.Check)
	return &gen.CheckLinkPayload{Link: l, Errors: mend}, err
}

// Link implements gen.QueryResolver.
func (r query) Link(ctx context.Context, by gen.LinkBy) (*link.Link, error) {
	if _, err := account.Current(ctx); err != nil {
		return nil, err // nobody learns which codes there are
	}
	if by.ID != nil {
		return orNull(r.link(ctx, *by.ID))
	}
	address, err := r.Links.ParseShortURL(*by.ShortURL)
	if err != nil {
		return orNull[link.Link](nil, err)
	}
	at, err := r.Links.At(ctx, address)
	if errs.Is(err, errs.NotFound) { // takes the same statements as a link of another workspace
		at, err = &link.Link{WorkspaceID: workspace.PublicID}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := r.membership(ctx, at.WorkspaceID)
	if err != nil {
		return orNull[link.Link](nil, err)
	}
	return orNull(r.Links.Get(ctx, m, at.ID))
}

// link loads a link of a workspace that the caller is a member of.
func (r *Config) link(ctx context.Context, linkID string) (*link.Link, error) {
	m, err := r.membershipOfLink(ctx, linkID)
	if err != nil {
		return nil, err
	}
	return r.Links.Get(ctx, m, linkID)
}

// membershipOfLink proves that the caller is a member of the link's workspace. A link of others looks like one
// that does not exist.
func (r *Config) membershipOfLink(ctx context.Context, linkID string) (workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return workspace.Membership{}, err
	}
	return r.Workspaces.RequireFor(ctx, actor, linkID, r.Links.WorkspaceOf)
}

// PreviewCode implements gen.QueryResolver.
func (r query) PreviewCode(ctx context.Context, workspaceID, url string) (*link.Preview, error) {
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	return r.Links.Preview(ctx, m, url)
}

// Workspace implements gen.LinkResolver.
func (r linkResolver) Workspace(_ context.Context, l *link.Link) (*workspace.Membership, error) {
	if l.In.IsPublic() {
		return nil, nil
	}
	return &l.In, nil
}

// Tags implements gen.LinkResolver.
func (r linkResolver) Tags(ctx context.Context, l *link.Link) ([]string, error) {
	tags, err := loader.Of(ctx).In(l.In).Tags.Get(ctx, l.ID)
	if tags == nil {
		tags = []string{}
	}
	return tags, err
}

// ShortURL implements gen.LinkResolver.
func (r linkResolver) ShortURL(_ context.Context, l *link.Link) (string, error) {
	return r.Links.ShortURL(l), nil
}

// Status implements gen.LinkResolver.
func (r linkResolver) Status(_ context.Context, l *link.Link) (link.Status, error) {
	return l.Status(r.Now()), nil
}

// CreatedBy implements gen.LinkResolver.
func (r linkResolver) CreatedBy(ctx context.Context, l *link.Link) (*account.Account, error) {
	if l.CreatedBy == nil {
		return nil, nil
	}
	return loader.Of(ctx).Accounts.Get(ctx, *l.CreatedBy)
}

// ClickCount implements gen.LinkResolver.
func (r linkResolver) ClickCount(ctx context.Context, l *link.Link) (int64, error) {
	t, err := loader.Of(ctx).In(l.In).Totals.Get(ctx, l.ID)
	return t.Clicks, err
}

// AverageRedirectMs implements gen.LinkResolver.
func (r linkResolver) AverageRedirectMs(ctx context.Context, l *link.Link) (*float64, error) {
	t, err := loader.Of(ctx).In(l.In).Totals.Get(ctx, l.ID)
	return t.Mean(), err
}

// HitQuota implements gen.LinkResolver.
func (r linkResolver) HitQuota(ctx context.Context, l *link.Link) (*gen.HitQuota, error) {
	used, err := loader.Of(ctx).In(l.In).Hits.Get(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	limit := r.hitLimit(l.In)
	return &gen.HitQuota{
		Limit: limit, Used: used, Remaining: max(0, limit-used), ResetsAt: hitquota.MonthOf(r.Now()).End,
	}, nil
}

// hitsUsed returns the redirects of links in this month.
func (c *Config) hitsUsed(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]int64, error) {
	return c.Clicks.CountsSince(ctx, m, linkIDs, hitquota.MonthOf(c.Now()).Start)
}

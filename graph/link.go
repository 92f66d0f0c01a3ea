package graph

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/workspace"
)

// CreateLink implements gen.MutationResolver.
func (r mutation) CreateLink(ctx context.Context, in gen.CreateLinkInput) (*gen.CreateLinkPayload, error) {
	l, created, err := r.createLink(ctx, in)
	mend, err := userErrors(err)
	return &gen.CreateLinkPayload{Link: l, Created: created, Errors: mend}, err
}

func (r mutation) createLink(ctx context.Context, in gen.CreateLinkInput) (l *link.Link, created bool, err error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, false, err
	}
	m, err := r.Workspaces.Require(ctx, actor, in.WorkspaceID)
	if err != nil {
		return nil, false, err
	}
	return r.Links.Create(ctx, m, actor.AccountID, link.New{
		URL:            in.URL,
		Strategy:       in.Strategy,
		CustomCode:     in.CustomCode,
		Title:          in.Title,
		RedirectStatus: in.RedirectStatus,
		StartsAt:       in.StartsAt,
		ExpiresAt:      in.ExpiresAt,
	})
}

// CreateLinks implements gen.MutationResolver.
func (r mutation) CreateLinks(ctx context.Context, in gen.CreateLinksInput) (*gen.CreateLinksPayload, error) {
	results, err := r.createLinks(ctx, in)
	mend, err := userErrors(err)
	return &gen.CreateLinksPayload{Results: results, Errors: mend}, err
}

func (r mutation) createLinks(ctx context.Context, in gen.CreateLinksInput) ([]*gen.CreateLinkResult, error) {
	answers := []*gen.CreateLinkResult{}
	actor, err := account.Current(ctx)
	if err != nil {
		return answers, err
	}
	m, err := r.Workspaces.Require(ctx, actor, in.WorkspaceID)
	if err != nil {
		return answers, err
	}
	policy := link.SkipFailed
	if in.OnError != nil {
		policy = *in.OnError
	}
	results, err := r.Links.CreateMany(ctx, m, actor.AccountID, in.Links, policy)
	var links []*link.Link
	for _, result := range results {
		mend, _ := userErrors(result.Err) // what cannot be mended is an error of the whole call
		answers = append(answers, &gen.CreateLinkResult{Link: result.Link, Created: result.Created, Errors: mend})
		if result.Link != nil {
			links = append(links, result.Link)
		}
	}
	loadersOf(ctx).expect(links)
	return answers, err
}

// DeleteLink implements gen.MutationResolver.
func (r mutation) DeleteLink(ctx context.Context, in gen.DeleteLinkInput) (*gen.DeleteLinkPayload, error) {
	l, err := r.deleteLink(ctx, in.ID)
	mend, err := userErrors(err)
	return &gen.DeleteLinkPayload{Link: l, Errors: mend}, err
}

func (r mutation) deleteLink(ctx context.Context, linkID string) (*link.Link, error) {
	m, err := r.membershipOfLink(ctx, linkID)
	if err != nil {
		return nil, err
	}
	return r.Links.Delete(ctx, m, linkID)
}

// UpdateLink implements gen.MutationResolver.
func (r mutation) UpdateLink(ctx context.Context, in gen.UpdateLinkInput) (*gen.UpdateLinkPayload, error) {
	l, err := r.updateLink(ctx, in)
	mend, err := userErrors(err)
	return &gen.UpdateLinkPayload{Link: l, Errors: mend}, err
}

func (r mutation) updateLink(ctx context.Context, in gen.UpdateLinkInput) (*link.Link, error) {
	m, err := r.membershipOfLink(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return r.Links.Update(ctx, m, in.ID, link.Change{
		URL:            edit(in.URL),
		Title:          link.Edit[*string]{Set: in.Title.IsSet(), To: in.Title.Value()},
		StartsAt:       link.Edit[*time.Time]{Set: in.StartsAt.IsSet(), To: in.StartsAt.Value()},
		ExpiresAt:      link.Edit[*time.Time]{Set: in.ExpiresAt.IsSet(), To: in.ExpiresAt.Value()},
		RedirectStatus: edit(in.RedirectStatus),
		Seen:           in.UpdatedAt,
	})
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
	l, err := r.restoreLink(ctx, in.ID)
	mend, err := userErrors(err)
	return &gen.RestoreLinkPayload{Link: l, Errors: mend}, err
}

func (r mutation) restoreLink(ctx context.Context, linkID string) (*link.Link, error) {
	m, err := r.membershipOfLink(ctx, linkID)
	if err != nil {
		return nil, err
	}
	return r.Links.Restore(ctx, m, linkID)
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
	target, err := r.Links.Resolve(ctx, address)
	if err != nil {
		return orNull[link.Link](nil, err)
	}
	return orNull(r.link(ctx, target.ID))
}

// link loads a link of a workspace that the caller is a member of.
func (r *resolver) link(ctx context.Context, linkID string) (*link.Link, error) {
	m, err := r.membershipOfLink(ctx, linkID)
	if err != nil {
		return nil, err
	}
	return r.Links.Get(ctx, m, linkID)
}

// membershipOfLink proves that the caller is a member of the link's workspace. A link of others looks like one
// that does not exist.
func (r *resolver) membershipOfLink(ctx context.Context, linkID string) (workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return workspace.Membership{}, err
	}
	workspaceID, err := r.Links.WorkspaceOf(ctx, linkID)
	if err != nil {
		return workspace.Membership{}, err
	}
	m, err := r.Workspaces.Require(ctx, actor, workspaceID)
	return m, link.HideForeign(err)
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
	return &l.In, nil
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
	return loadersOf(ctx).accounts.get(ctx, *l.CreatedBy)
}

// ClickCount implements gen.LinkResolver.
func (r linkResolver) ClickCount(ctx context.Context, l *link.Link) (int64, error) {
	t, err := loadersOf(ctx).totals.get(ctx, l.ID)
	return t.Clicks, err
}

// AverageRedirectMs implements gen.LinkResolver.
func (r linkResolver) AverageRedirectMs(ctx context.Context, l *link.Link) (*float64, error) {
	t, err := loadersOf(ctx).totals.get(ctx, l.ID)
	return t.Mean(), err
}

// HitQuota implements gen.LinkResolver.
func (r linkResolver) HitQuota(ctx context.Context, l *link.Link) (*gen.HitQuota, error) {
	used, err := loadersOf(ctx).hits.get(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	limit := r.hitLimit(l.In)
	return &gen.HitQuota{
		Limit: limit, Used: used, Remaining: max(0, limit-used), ResetsAt: quota.MonthOf(r.Now()).End,
	}, nil
}

// Stats implements gen.LinkResolver.
func (r linkResolver) Stats(ctx context.Context, l *link.Link, span *click.Range, timezone *string) (*click.Stats, error) {
	zone := ""
	if timezone != nil {
		zone = *timezone
	}
	return r.Clicks.Link(ctx, l.In, l.ID, span, zone)
}

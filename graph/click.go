package graph

import (
	"context"
	"strconv"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

func (r *linkResolver) Clicks(
	ctx context.Context, l *link.Link, first *int, after *string, span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, l.In, click.Subject{LinkID: l.ID}, first, after, span, filter)
}

func (r *workspaceResolver) Clicks(
	ctx context.Context, m *workspace.Membership, first *int, after *string, span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, *m, click.Subject{}, first, after, span, filter)
}

func (c *Config) clickPage(
	ctx context.Context, m workspace.Membership, of click.Subject, first *int, after *string,
	span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	var linkIDs []string
	edges, info, err := list(ctx, m, id.Click, first, after,
		func(ctx context.Context, m workspace.Membership, request page.Request) (page.Page[*click.Click], error) {
			return c.Clicks.List(ctx, m, of, span, filterOf(filter), request)
		},
		func(c *click.Click) (string, string) { return c.PublicID(), "" },
		func(cursor string, c *click.Click) *gen.ClickEdge {
			linkIDs = append(linkIDs, c.LinkID)
			return &gen.ClickEdge{Cursor: cursor, Node: clickOf(m, c)}
		})
	loader.Of(ctx).In(m).Links.Expect(linkIDs)
	return &gen.ClickConnection{Edges: edges, PageInfo: info}, err
}

func clickOf(m workspace.Membership, c *click.Click) *gen.Click {
	return &gen.Click{
		ID: c.PublicID(), LinkID: c.LinkID, In: m, At: c.ClickedAt, Status: c.Status, Bot: c.Bot,
		Referrer: optional.Of(c.Referrer), Country: optional.Of(c.Country),
		Device: optional.Of(c.Device), Browser: optional.Of(c.Browser), Os: optional.Of(c.OS),
		Language: optional.Of(c.Language), UtmSource: optional.Of(c.Source), UtmMedium: optional.Of(c.Medium),
		UtmCampaign: optional.Of(c.Campaign), UtmTerm: optional.Of(c.Term), UtmContent: optional.Of(c.Content),
	}
}

// filterOf returns the filter of clicks; null selects all.
func filterOf(in *gen.ClickFilter) click.Filter {
	if in == nil {
		return click.Filter{}
	}
	f := click.Filter{Bots: in.Bots, Values: map[click.Dimension]string{}}
	if in.Status != nil {
		f.Values[click.Status] = strconv.Itoa(*in.Status)
	}
	for dimension, value := range map[click.Dimension]*string{
		click.Referrer: in.Referrer, click.Country: in.Country,
		click.Device: in.Device, click.Browser: in.Browser, click.OS: in.Os,
		click.Language: in.Language, click.Source: in.UtmSource, click.Medium: in.UtmMedium,
		click.Campaign: in.UtmCampaign, click.Term: in.UtmTerm, click.Content: in.UtmContent,
	} {
		if value != nil {
			f.Values[dimension] = *value
		}
	}
	return f
}

func (r *clickResolver) Link(ctx context.Context, c *gen.Click) (*link.Link, error) {
	return loader.Of(ctx).In(c.In).Links.Get(ctx, c.LinkID)
}

func (r *mutationResolver) ExportClicks(
	ctx context.Context, in gen.ExportClicksInput,
) (*gen.ExportClicksPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	of := click.Subject{}
	if in.LinkID != nil {
		if _, err := r.Links.Get(ctx, m, *in.LinkID); err != nil {
			return nil, err
		}
		of.LinkID = *in.LinkID
	}
	s, err := r.Clicks.Stats(ctx, m, of, in.Range, "", filterOf(in.Filter))
	if err != nil {
		return nil, err
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	url, until, err := r.Exports.Sign(s, optional.Or(in.Format, click.CSV), actor.SessionID)
	return &gen.ExportClicksPayload{URL: &url, ExpiresAt: &until}, err
}

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

// defaultSlices is how many values of a dimension are told one by one.
const defaultSlices = 10

// longestBreakdown is the longest one that is priced: more is refused.
const longestBreakdown = 1000

// Stats implements gen.LinkResolver.
func (r linkResolver) Stats(
	ctx context.Context, l *link.Link, span *click.Range, timezone *string, filter *gen.ClickFilter,
) (*click.Stats, error) {
	return r.Config.Clicks.Stats(ctx, l.In, click.Subject{LinkID: l.ID}, span, optional.Value(timezone), filterOf(filter))
}

// Clicks implements gen.LinkResolver.
func (r linkResolver) Clicks(
	ctx context.Context, l *link.Link, first *int, after *string, span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, l.In, click.Subject{LinkID: l.ID}, first, after, span, filter)
}

// Stats implements gen.WorkspaceResolver.
func (r workspaceResolver) Stats(
	ctx context.Context, m *workspace.Membership, span *click.Range, timezone *string, filter *gen.ClickFilter, tag *string,
) (*click.Stats, error) {
	of := click.Subject{}
	if tag != nil {
		var err error
		if of.Links, err = r.Config.Links.Tagged(*m, *tag); err != nil {
			return nil, err
		}
	}
	return r.Config.Clicks.Stats(ctx, *m, of, span, optional.Value(timezone), filterOf(filter))
}

// Clicks implements gen.WorkspaceResolver.
func (r workspaceResolver) Clicks(
	ctx context.Context, m *workspace.Membership, first *int, after *string, span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	return r.clickPage(ctx, *m, click.Subject{}, first, after, span, filter)
}

func (r *Config) clickPage(
	ctx context.Context, m workspace.Membership, of click.Subject, first *int, after *string, span *click.Range, filter *gen.ClickFilter,
) (*gen.ClickConnection, error) {
	request, err := page.Parse(id.Click, first, after, nil, nil)
	if err != nil {
		return nil, err
	}
	p, err := r.Clicks.List(ctx, m, of, span, filterOf(filter), request)
	if err != nil {
		return nil, err
	}
	connection := &gen.ClickConnection{
		Edges: []*gen.ClickEdge{}, PageInfo: pageInfo(p, func(i int) string { return page.Cursor(p.Items[i].PublicID()) }),
	}
	var linkIDs []string
	for _, c := range p.Items {
		connection.Edges = append(connection.Edges, &gen.ClickEdge{Cursor: page.Cursor(c.PublicID()), Node: clickOf(m, c)})
		linkIDs = append(linkIDs, c.LinkID)
	}
	loader.Of(ctx).In(m).Links.Expect(linkIDs)
	return connection, nil
}

func clickOf(m workspace.Membership, c *click.Click) *gen.Click {
	return &gen.Click{
		ID: c.PublicID(), LinkID: c.LinkID, In: m, At: c.ClickedAt, Status: c.Status, Bot: c.Bot,
		Referrer: optional.Of(c.Referrer), Country: optional.Of(c.Country), Device: optional.Of(c.Device), Browser: optional.Of(c.Browser),
		Os: optional.Of(c.OS), Language: optional.Of(c.Language), UtmSource: optional.Of(c.Source), UtmMedium: optional.Of(c.Medium),
		UtmCampaign: optional.Of(c.Campaign), UtmTerm: optional.Of(c.Term), UtmContent: optional.Of(c.Content),
	}
}

// filterOf reads which clicks are meant.
func filterOf(in *gen.ClickFilter) click.Filter {
	if in == nil {
		return click.Filter{}
	}
	f := click.Filter{Bots: in.Bots, Values: map[click.Dimension]string{}}
	if in.Status != nil {
		f.Values[click.Status] = strconv.Itoa(*in.Status)
	}
	for dimension, value := range map[click.Dimension]*string{
		click.Referrer: in.Referrer, click.Country: in.Country, click.Device: in.Device, click.Browser: in.Browser, click.OS: in.Os,
		click.Language: in.Language, click.Source: in.UtmSource, click.Medium: in.UtmMedium, click.Campaign: in.UtmCampaign,
		click.Term: in.UtmTerm, click.Content: in.UtmContent,
	} {
		if value != nil {
			f.Values[dimension] = *value
		}
	}
	return f
}

// Clicks implements gen.StatsResolver.
func (r statsResolver) Clicks(ctx context.Context, s *click.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Clicks, err
}

// Visitors implements gen.StatsResolver.
func (r statsResolver) Visitors(ctx context.Context, s *click.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Visits, err
}

// Bots implements gen.StatsResolver.
func (r statsResolver) Bots(ctx context.Context, s *click.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Bots, err
}

// Latency implements gen.StatsResolver.
func (r statsResolver) Latency(ctx context.Context, s *click.Stats) (*click.Latency, error) {
	return s.Latency(ctx)
}

// AverageRedirectMs implements gen.StatsResolver.
func (r statsResolver) AverageRedirectMs(ctx context.Context, s *click.Stats) (*float64, error) {
	l, err := s.Latency(ctx)
	if l == nil {
		return nil, err
	}
	return &l.Mean, err
}

// Breakdown implements gen.StatsResolver.
func (r statsResolver) Breakdown(ctx context.Context, s *click.Stats, by click.Dimension, first *int) ([]*gen.StatsSlice, error) {
	if first == nil {
		first = new(defaultSlices)
	}
	parts, err := s.Breakdown(ctx, by, *first)
	if err != nil {
		return nil, err
	}
	slices := make([]*gen.StatsSlice, 0, len(parts))
	var linkIDs []string
	for _, p := range parts {
		slice := &gen.StatsSlice{Value: p.Value, IsOther: p.IsOther, Clicks: p.Clicks, Visitors: p.Visits, Bots: p.Bots, In: s.Member()}
		if by == click.ByLink && !p.IsOther {
			slice.LinkID = p.Value
			linkIDs = append(linkIDs, p.Value)
		}
		slices = append(slices, slice)
	}
	loader.Of(ctx).In(s.Member()).Links.Expect(linkIDs)
	return slices, nil
}

// Link implements gen.StatsSliceResolver.
func (r sliceResolver) Link(ctx context.Context, s *gen.StatsSlice) (*link.Link, error) {
	if s.LinkID == "" {
		return nil, nil
	}
	return loader.Of(ctx).In(s.In).Links.Get(ctx, s.LinkID)
}

// Link implements gen.ClickResolver.
func (r clickResolver) Link(ctx context.Context, c *gen.Click) (*link.Link, error) {
	return loader.Of(ctx).In(c.In).Links.Get(ctx, c.LinkID)
}

// Orphans implements gen.WorkspaceResolver.
func (r workspaceResolver) Orphans(ctx context.Context, m *workspace.Membership, first *int) ([]*click.Orphan, error) {
	if first == nil {
		first = new(page.Default)
	}
	return r.Config.Clicks.Orphans(ctx, *m, *first)
}

// Code implements gen.OrphanResolver.
func (r orphanResolver) Code(_ context.Context, o *click.Orphan) (*string, error) {
	return optional.Of(o.Code), nil
}

// ExportClicks implements gen.MutationResolver.
func (r mutation) ExportClicks(ctx context.Context, in gen.ExportClicksInput) (*gen.ExportClicksPayload, error) {
	payload, err := r.exportClicks(ctx, in)
	if payload == nil {
		payload = &gen.ExportClicksPayload{}
	}
	payload.Errors, err = userErrors(err)
	return payload, err
}

func (r mutation) exportClicks(ctx context.Context, in gen.ExportClicksInput) (*gen.ExportClicksPayload, error) {
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
	format := click.CSV
	if in.Format != nil {
		format = *in.Format
	}
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	url, until, err := r.Exports.Sign(s, format, actor.SessionID)
	if err != nil {
		return nil, err
	}
	return &gen.ExportClicksPayload{URL: &url, ExpiresAt: &until}, nil
}

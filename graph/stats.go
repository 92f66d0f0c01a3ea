package graph

import (
	"context"
	"fmt"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// defaultSlices is the default number of slices of a breakdown, maxSlices the maximum.
const (
	defaultSlices = 10
	maxSlices     = 1000
)

func (r *linkResolver) Stats(
	ctx context.Context, l *link.Link, span *clickstore.Range, timezone *string, filter *gen.ClickFilter,
) (*stats.Stats, error) {
	of := clickstore.Subject{LinkID: l.ID}
	return atOneInstant(ctx, func() (*stats.Stats, error) {
		return r.Config.Stats.Stats(ctx, l.In, of, span, optional.Value(timezone), filterOf(filter))
	})
}

func (r *workspaceResolver) Stats(
	ctx context.Context, m *workspace.Membership, span *clickstore.Range, timezone *string,
	filter *gen.ClickFilter, tag, folderID *string,
) (*stats.Stats, error) {
	links, linksErr := r.LinkList.Selected(*m, tag, folderID)
	of := clickstore.Subject{Links: links}
	return atOneInstant(ctx, func() (*stats.Stats, error) {
		s, err := r.Config.Stats.Stats(ctx, *m, of, span, optional.Value(timezone), filterOf(filter))
		return s, errs.All(err, linksErr)
	})
}

// atOneInstant reads the requested fields of stats at one instant, if there are several or a field of
// the link needs the same instant, see totalOf.
func atOneInstant(ctx context.Context, prepare func() (*stats.Stats, error)) (*stats.Stats, error) {
	isShared := requested(ctx, "clickCount", "lastClickedAt", "averageRedirectMs") > 0 && requested(ctx, "stats") == 1
	shared := loader.SharedTotalOf(ctx, graphql.GetFieldContext(ctx).Parent)
	defer shared.Publish(nil)
	s, err := prepare()
	if err != nil {
		return nil, err
	}
	parts := partsOf(ctx, s)
	if len(parts) < 2 && !isShared {
		return s, nil
	}
	total, err := s.Read(ctx, parts...)
	if err != nil {
		return nil, err
	}
	shared.Publish(&total)
	return s, nil
}

// partsOf returns the reads of the requested fields of stats.
func partsOf(ctx context.Context, s *stats.Stats) (parts []func(ctx context.Context) error) {
	counts := false
	for _, field := range graphql.CollectFieldsCtx(ctx, nil) {
		arguments := field.ArgumentMap(graphql.GetOperationContext(ctx).Variables)
		switch field.Name {
		case "clicks", "visitors", "bots":
			counts = true
		case "latency":
			parts = append(parts, func(ctx context.Context) error { _, err := s.Latency(ctx); return err })
		case "series", "counts":
			interval := stats.Interval(fmt.Sprint(arguments["interval"]))
			parts = append(parts, func(ctx context.Context) error { _, err := s.Series(ctx, interval); return err })
		case "breakdown":
			by := click.Dimension(fmt.Sprint(arguments["by"])) // all values are read, however many are wanted
			parts = append(parts, func(ctx context.Context) error { _, err := s.Breakdown(ctx, by, 1); return err })
		}
	}
	if counts {
		parts = append(parts, func(ctx context.Context) error { _, err := s.Total(ctx); return err })
	}
	return parts
}

func (r *statsResolver) Clicks(ctx context.Context, s *stats.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Clicks, err
}

func (r *statsResolver) Visitors(ctx context.Context, s *stats.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Visits, err
}

func (r *statsResolver) Bots(ctx context.Context, s *stats.Stats) (int64, error) {
	n, err := s.Total(ctx)
	return n.Bots, err
}

func (r *statsResolver) Breakdown(
	ctx context.Context, s *stats.Stats, by click.Dimension, first *int,
) ([]*gen.StatsSlice, error) {
	parts, err := s.Breakdown(ctx, by, optional.Or(first, defaultSlices))
	if err != nil {
		return nil, err
	}
	slices := make([]*gen.StatsSlice, 0, len(parts))
	var linkIDs []string
	for _, p := range parts {
		slice := &gen.StatsSlice{
			Value: p.Value, IsOther: p.IsOther, Clicks: p.Clicks, Visitors: p.Visits, Bots: p.Bots, In: s.Member,
		}
		if by == click.ByLink && !p.IsOther {
			slice.LinkID = p.Value
			linkIDs = append(linkIDs, p.Value)
		}
		if by == click.Rule || by == click.Target {
			slice.RoutedBy = s.LinkID
		}
		slices = append(slices, slice)
	}
	loader.Of(ctx).In(s.Member).Links.Expect(linkIDs)
	return slices, nil
}

func (r *statsSliceResolver) Label(ctx context.Context, s *gen.StatsSlice) (*string, error) {
	if s.RoutedBy == "" || s.Value == "" {
		return nil, nil
	}
	l, err := loader.Of(ctx).In(s.In).Links.Get(ctx, s.RoutedBy)
	if l == nil || l.Routing == nil {
		return nil, err
	}
	return optional.Of(l.Routing.Label(s.Value, l.OriginalURL)), nil
}

func (r *statsSliceResolver) Link(ctx context.Context, s *gen.StatsSlice) (*link.Link, error) {
	return loader.Of(ctx).In(s.In).Links.Get(ctx, s.LinkID)
}

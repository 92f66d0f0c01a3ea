package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/explain"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// routingChange returns the change of a routing; nil for none.
func routingChange(in *gen.LinkRoutingInput) *routing.Change {
	if in == nil {
		return nil
	}
	return &routing.Change{
		Rules:       gen.SetOrRemove(in.Rules),
		Query:       gen.SetOrRemove(in.Query),
		ForwardPath: gen.SetOrRemove(in.ForwardPath),
		UTM:         gen.SetOrRemove(in.Utm),
		PendingURL:  gen.SetOrRemove(in.PendingURL),
		EndedURL:    gen.SetOrRemove(in.EndedURL),
		Card:        gen.SetOrRemove(in.Card),
		Gate:        optional.Edit[*routing.GateChange]{Set: in.Gate.IsSet(), To: gateChange(in.Gate.Value())},
		Bots:        gen.SetOrRemove(in.Bots),
		QRSources:   gen.SetOrRemove(in.QRSources),
		Tests:       gen.SetOrRemove(in.Tests),
	}
}

// gateChange returns the change of a gate; nil for none.
func gateChange(in *gen.LinkGateInput) *routing.GateChange {
	if in == nil {
		return nil
	}
	c := &routing.GateChange{Notice: gen.SetOrRemove(in.Notice), Confirm: gen.SetOrRemove(in.Confirm)}
	if c.Password.Set = in.Password.IsSet(); in.Password.Value() != nil {
		c.Password.To = &routing.Password{Text: *in.Password.Value()}
	}
	return c
}

func (r *queryResolver) ExplainRedirect(
	ctx context.Context, by gen.LinkBy, visit *routing.Sample, change *gen.LinkRoutingInput,
) (*explain.Explanation, error) {
	l, err := r.Link(ctx, by)
	if err != nil || l == nil {
		return nil, err
	}
	used, err := loader.Of(ctx).In(l.In).Hits.Get(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	var at resolve.Address
	if by.ShortURL != nil {
		if at, err = r.Links.Resolver.ParsePasted(*by.ShortURL, ""); err != nil {
			return nil, err
		}
	}
	return r.Links.Explain(ctx, link.Simulation{
		Link: l, At: at, Visit: visit, Change: routingChange(change), OverQuota: used >= r.hitLimit(l.In),
	})
}

// defaultFlows is the default number of flows of a simulation, maxFlows the maximum.
const (
	defaultFlows = 50
	maxFlows     = 1000
)

func (r *queryResolver) SimulateRouting(
	ctx context.Context, by gen.LinkBy, change gen.LinkRoutingInput, span *clickstore.Range, filter *gen.ClickFilter,
) (*stats.Simulation, error) {
	l, err := r.Link(ctx, by)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, errs.New(errs.NotFound, "There is no such link.").At("by")
	}
	s, statsErr := r.Stats.Stats(ctx, l.In, clickstore.Subject{LinkID: l.ID}, span, "", filterOf(filter))
	draft, err := r.Links.Draft(ctx, l, routingChange(&change))
	if err := errs.All(err, statsErr); err != nil {
		return nil, err
	}
	return s.Simulate(ctx, l.OriginalURL, l.Routing, draft.Routing)
}

func (r *routingSimulationResolver) Flows(
	_ context.Context, s *stats.Simulation, first *int,
) ([]*gen.RoutingFlow, error) {
	most := optional.Or(first, defaultFlows)
	if most < 1 || most > maxFlows {
		return nil, errs.New(errs.InvalidInput, "Request 1 to %d flows.", maxFlows).At("first")
	}
	flows := []*gen.RoutingFlow{}
	for _, f := range s.Flows[:min(most, len(s.Flows))] {
		flows = append(flows, &gen.RoutingFlow{From: routingEnd(f.From), To: routingEnd(f.To), Visits: f.Visits})
	}
	return flows, nil
}

func routingEnd(e stats.End) *gen.RoutingEnd {
	return &gen.RoutingEnd{
		RuleID: optional.Of(e.RuleID), RuleName: optional.Of(e.RuleName), TargetID: optional.Of(e.TargetID),
		URL: optional.Of(e.URL),
	}
}

func (r *linkRoutingResolver) Warnings(ctx context.Context, of *link.LinkRouting) ([]*check.Warning, error) {
	if of.Link == nil { // the defaults of a workspace
		return []*check.Warning{}, nil
	}
	return notNull(r.Links.Warnings(ctx, of.Link, r.Countries.Edition().Type != ""))
}

func (r *routingTargetResolver) ClickCount(ctx context.Context, of *link.LinkTarget) (*int64, error) {
	counts, err := loader.Of(ctx).In(of.Link.In).Targets.Get(ctx, of.Link.ID)
	return new(counts[of.ID]), err
}

package explain

import (
	"net/netip"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// ReadHeaders returns what conditions see of the headers of a visit. A nil agent is a browser
// without a name.
type ReadHeaders func(agent *string, acceptLanguage, referrer string) routing.Visit

// Request returns the request that a visit describes, to a link with the routing. The fields that
// do not depend on the visit are those of base; the visit's instant replaces Now if it is known.
func Request(s *routing.Sample, base routing.Request, r *routing.Routing, read ReadHeaders) routing.Request {
	if s.At != nil {
		base.Now = *s.At
	}
	v := read(s.UserAgent, optional.Value(s.AcceptLanguage), optional.Value(s.Referrer))
	v.Country, v.Private, v.Agent = optional.Value(s.Country), s.Private, optional.Value(s.UserAgent)
	if s.Address != nil {
		v.Address, _ = netip.ParseAddr(*s.Address) // check.Sample refuses others
	}
	base.Visit = v
	if s.PassesGate() {
		base.Gate = routing.GatePassed
	}
	base.Query, base.Path = optional.Value(s.Query), optional.Value(s.Path)
	if rule := ruleOf(r, optional.Value(s.TargetID)); rule != "" {
		base.Cookies = []string{routing.CookieName(rule) + "=" + *s.TargetID}
	}
	return base
}

// ruleOf returns the id of the rule that has a target; empty if there is none.
func ruleOf(r *routing.Routing, targetID string) string {
	if r == nil || targetID == "" {
		return ""
	}
	for _, rule := range r.Rules {
		for _, target := range rule.Targets {
			if target.ID == targetID {
				return rule.ID
			}
		}
	}
	return ""
}

package check

import (
	"net/netip"

	"github.com/linkforge/linkforge/internal/route/routing"
)

func (c *checker) test(t *routing.Test) {
	if t == nil { // as an archive can have it
		c.refuse("A test must not be null.")
		return
	}
	c.text("name", t.Name, maxName)
	switch {
	case t.Visit == nil:
		c.refuse("A test must have a visit.")
		return
	case t.Status == nil && t.Location == nil:
		c.refuse("A test must have a status, a location, or both.")
	case t.Status != nil && (*t.Status < 100 || *t.Status > 599):
		c.in("status", func() { c.refuse("status must be from 100 to 599.") })
	}
	c.bytes("location", t.Location, routing.MaxLocation)
	c.in("visit", func() { c.sample(t.Visit) })
}

func (c *checker) sample(s *routing.Sample) {
	if s.Country != nil {
		if _, refusal := normalCountry(*s.Country); refusal != "" {
			c.in("country", func() { c.refuse("%s", refusal) })
		}
	}
	c.bytes("userAgent", s.UserAgent, maxSampleAgent)
	c.bytes("acceptLanguage", s.AcceptLanguage, maxSampleAgent)
	c.bytes("referrer", s.Referrer, maxReferrer)
	c.bytes("query", s.Query, maxQuery)
	c.bytes("path", s.Path, routing.MaxPath)
	if s.Path != nil && *s.Path != "" && (*s.Path)[0] != '/' {
		c.in("path", func() { c.refuse("path must begin with a slash.") })
	}
	if s.Address != nil {
		if _, err := netip.ParseAddr(*s.Address); err != nil {
			c.in("address", func() { c.refuse("address must be an IPv4 or IPv6 address.") })
		}
	}
	if s.PassesGate() {
		s.GatePassed = nil
	}
	c.bytes("targetId", s.TargetID, maxName)
}

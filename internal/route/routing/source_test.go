package routing

import "testing"

// TestDecide_RecordsSources: a declared source is recorded and not forwarded; all other parameters
// are ordinary ones.
func TestDecide_RecordsSources(t *testing.T) {
	t.Parallel()
	forwarding := &Routing{QRSources: []string{"flyer", "poster-2"}, Query: Forwarding{Mode: Add}}
	replacing := &Routing{QRSources: []string{"flyer"}, Query: Forwarding{Mode: Replace}}
	conditional := &Routing{QRSources: []string{"flyer"}, Rules: []*Rule{
		toTarget("https://example.com/scanned", &Condition{Query: &QueryCondition{Name: "qr"}}),
	}}
	for name, c := range map[string]struct {
		routing                 *Routing
		query, source, location string
	}{
		"declared":       {forwarding, "qr=flyer", "flyer", "own"},
		"second":         {forwarding, "a=1&qr=poster-2&b=2", "poster-2", "own?a=1&b=2"},
		"encoded":        {forwarding, "%71r=%66lyer", "flyer", "own"},
		"other":          {forwarding, "qr=other&a=1", "", "own?qr=other&a=1"},
		"prefix":         {forwarding, "qr=fly&qr=flyers", "", "own?qr=fly&qr=flyers"},
		"upper case":     {forwarding, "QR=flyer&qr=Flyer", "", "own?QR=flyer&qr=Flyer"},
		"without value":  {forwarding, "qr&qr=", "", "own?qr&qr="},
		"both":           {forwarding, "qr=poster-2&qr=flyer&c=3", "poster-2", "own?c=3"},
		"other and own":  {forwarding, "qr=x&qr=flyer", "flyer", "own?qr=x"},
		"no query":       {forwarding, "", "", "own"},
		"OFF":            {&Routing{QRSources: []string{"flyer"}}, "qr=flyer&a=1", "flyer", "own"},
		"replaced":       {replacing, "qr=flyer&b=2", "flyer", "own?b=2"},
		"not declared":   {&Routing{Query: Forwarding{Mode: Add}}, "qr=flyer", "", "own?qr=flyer"},
		"in a condition": {conditional, "qr=flyer", "flyer", "scanned"},
		"plain":          {&Routing{}, "qr=flyer", "", "own"},
	} {
		p := program(c.routing)
		want := "https://example.com/" + c.location
		r := Request{Now: noon, Query: c.query}
		if d := Decide(p, &r); d.Source != c.source || d.Location != want {
			t.Errorf("%s: source %q at %s, want %q at %s", name, d.Source, d.Location, c.source, want)
		}
	}
	// The destination keeps a parameter of its own that REPLACE would replace by a forwarded one.
	p := program(replacing)
	p.Location = "https://example.com/?qr=own"
	if d := Decide(p, &Request{Now: noon, Query: "qr=flyer"}); d.Location != p.Location || d.Source != "flyer" {
		t.Errorf("source %q at %s", d.Source, d.Location)
	}
}

// TestDecide_SourcesAllocateLittle: a link with sources costs visits without a query no allocation.
func TestDecide_SourcesAllocateLittle(t *testing.T) {
	p := program(&Routing{QRSources: []string{"flyer", "poster-2"}})
	for query, most := range map[string]float64{"": 0, "a=1&qr=x": 2, "qr=flyer": 0} {
		r := Request{Now: noon, Query: query}
		if n := testing.AllocsPerRun(100, func() { Decide(p, &r) }); n > most {
			t.Errorf("%q: %v allocations", query, n)
		}
	}
}

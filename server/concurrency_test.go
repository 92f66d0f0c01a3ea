package main

import (
	"sync"
	"testing"
)

// spellings are ways to write one URL.
var spellings = []string{
	"https://example.com/same/page?a=1&b=2",
	"HTTPS://EXAMPLE.COM/same/page?a=1&b=2",
	"https://example.com:443/same/page/?b=2&a=1",
	"https://example.com//same///page?a=1&b=2#part",
	"https://example.com/same/./x/../page?&a=1&&b=2&",
	" \thttps://example.com./%73ame/page?a=1&b=2\n",
}

func TestCreateLink_IsIdempotentConcurrently(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes) // on an empty database: one migrates, the other waits
		who := nodes[0].tenant(t, "eager")
		got := make([]createLinkPayload, 200)
		gate := make(chan struct{})
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				<-gate
				var err error
				got[i], err = who.onServer(nodes[i%len(nodes)]).createAgain(spellings[i/len(nodes)%len(spellings)])
				if err != nil || len(got[i].Errors) > 0 {
					t.Errorf("request %d: %+v: %v", i, got[i].Errors, err)
				}
			})
		}
		close(gate)
		all.Wait()

		ids, created := map[string]int{}, 0
		for _, one := range got {
			ids[one.Link.ID+" "+one.Link.Code+" "+one.Link.ShortURL]++
			if one.Created {
				created++
			}
		}
		if len(ids) != 1 || created != 1 {
			t.Errorf("created is true %d times, links %v; want one", created, ids)
		}
		same(t, "rows", numberOf(t, b, "SELECT count(*) FROM links"), 1)
		same(t, "links used", who.linksUsed(t), 1)
	})
}

package upkeep

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
)

// lies are the name server's answers in the canary's test.
var lies = map[string][][]string{
	"private.test":  {{outboundtest.Private}},
	"both.test":     {{outboundtest.Silent, outboundtest.Private}},
	"six.test":      {{outboundtest.Private6}},
	"mapped.test":   {{"::ffff:127.0.0.1"}},
	"wildcard.test": {{"0.0.0.0"}},
	"rebind.test":   {{outboundtest.Public}, {outboundtest.Private}},
	"return.test":   {{outboundtest.Public}, {outboundtest.Private}},
}

// ways are URLs of links that could reach the canary.
func ways(n *outboundtest.Network) map[string]string {
	const public = "a" + outboundtest.PublicName
	ways := map[string]string{
		"an address":           n.URL("127.0.0.1", "/"),
		"unspecified":          n.URL("0.0.0.0", "/"),
		"IPv4-mapped":          n.URL("::ffff:127.0.0.1", "/"),
		"hexadecimal":          n.URL("0x7f.1", "/"),
		"localhost":            n.URL("localhost", "/"),
		"a name":               n.URL("private.test", "/"),
		"a name of both kinds": n.URL("both.test", "/"),
		"a mapped name":        n.URL("mapped.test", "/"),
		"a name of every host": n.URL("wildcard.test", "/"),
		"a redirect":           n.URL(public, "/to?"+n.URL("127.0.0.1", "/")),
		"a redirect to mapped": n.URL(public, "/to?"+n.URL("::ffff:127.0.0.1", "/")),
		"a redirect to a name": n.URL(public, "/to?"+n.URL("private.test", "/")),
		"two redirects": n.URL(public,
			"/to?"+n.URL("b"+outboundtest.PublicName, "/to?"+n.URL("localhost", "/"))),
		"rebound, for GET":         n.URL("rebind.test", "/"),
		"rebound, by its redirect": n.URL("return.test", "/to?"+n.URL("return.test", "/")),
	}
	if n.IPv6 {
		ways["IPv6"] = n.URL("::1", "/")
		ways["unspecified IPv6"] = n.URL("::", "/")
		ways["an IPv6 name"] = n.URL("six.test", "/")
		ways["a redirect to IPv6"] = n.URL(public, "/to?"+n.URL("::1", "/"))
	}
	return ways
}

// misleading redirects to what stands behind the question mark, and answers HEAD so that GET is
// tried.
func misleading(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/to" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Location", r.URL.RawQuery)
	w.WriteHeader(http.StatusFound)
}

// TestCheck_NeverReachesPrivateAddresses has a server inside the network, and links that redirect
// to it in every possible way. Neither checks by members nor the job's reach it. A checker with an
// unrestricted client reaches it by each of them.
func TestCheck_NeverReachesPrivateAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, d *db.DB){
		"check by a member":      checkByMember,
		"check by the job":       checkByJob,
		"the system's resolver":  checkWithSystemResolver,
		"an unrestricted client": checkWithUnrestrictedClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, test)
		})
	}
}

func checkByMember(t *testing.T, d *db.DB) {
	b := setupChecks(t, d, misleading, lies)
	b.checkAll(t, ways(b.net))
	if got := b.net.Lookups("rebind.test"); got != 2 {
		t.Errorf("%d look-ups of the name that is rebound, want 2", got)
	}
}

func checkByJob(t *testing.T, d *db.DB) {
	b := setupChecks(t, d, misleading, lies)
	links := map[string]*link.Link{}
	for name, url := range ways(b.net) {
		links[name] = b.link(t, url)
	}
	b.run(t)
	if reached := b.net.Reached(t); reached != 0 {
		t.Errorf("the canary was reached %d times", reached)
	}
	for name, l := range links {
		if got := outcome(b.world.Reload(t, l)); got != "nothing" {
			t.Errorf("%s: the destination said %s", name, got)
		}
	}
}

// checkWithSystemResolver uses the client of the server, and hosts that some resolvers take for
// addresses.
func checkWithSystemResolver(t *testing.T, d *db.DB) {
	b := setupChecks(t, d, misleading, nil)
	b.Client = outbound.NewClient(outbound.Config{UserAgent: UserAgent("http://sho.rt")})
	urls := map[string]string{}
	for _, host := range []string{"localhost", "127.0.0.1", "127.1", "::1", "2130706433", "0x7f.1", "0x7f000001",
		"0177.0.0.1"} {
		urls[host] = b.net.URL(host, "/")
	}
	b.checkAll(t, urls)
}

func checkWithUnrestrictedClient(t *testing.T, d *db.DB) {
	b := setupChecks(t, d, misleading, lies)
	b.allow(func(netip.Addr) bool { return true }, 0)
	for name, url := range ways(b.net) {
		got := b.check(t, b.link(t, url))
		if reached := b.net.Reached(t); reached == 0 || outcome(got) != "200" {
			t.Errorf("%s does not lead to the canary: the destination said %s", name, outcome(got))
		}
	}
}

// checkAll checks links to all URLs and expects that none receives a response.
func (b *checks) checkAll(t *testing.T, urls map[string]string) {
	t.Helper()
	for name, url := range urls {
		got := b.check(t, b.link(t, url))
		if reached := b.net.Reached(t); reached != 0 || outcome(got) != "nothing" {
			t.Errorf("%s: the canary was reached %d times, the destination said %s", name, reached, outcome(got))
		}
	}
}

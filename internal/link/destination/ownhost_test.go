package destination

import (
	"net"
	"net/netip"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

func hosts(t *testing.T, publicURL string, bound net.Addr, names ...string) *OwnHosts {
	t.Helper()
	h := must.Value(NewOwnHosts(publicURL, names...))(t)
	if bound != nil {
		h.Listen(bound)
	}
	return h
}

func tcp(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }

func TestHosts_ServesEverySpellingOfItself(t *testing.T) {
	t.Parallel()
	own := []string{"xn--bcher-kva.example", "internal.example", "localhost"}
	proxied := hosts(t, "https://go.example.com", tcp("10.1.2.3:8080"), own...)
	odd := hosts(t, "http://[::ffff:192.0.2.7]:9000", tcp("[::ffff:10.1.2.3]:8080"), own...)
	socket := hosts(t, "https://go.example.com", &net.UnixAddr{Name: "/run/linkforge.sock", Net: "unix"}, own...)
	local := hosts(t, "http://localhost:8080", tcp("127.0.0.1:8080"))
	for name, c := range map[string]struct {
		h    *OwnHosts
		url  string
		want bool
	}{
		"public host":                     {proxied, "https://go.example.com/abc", true},
		"public host, capitals and dot":   {proxied, "HTTPS://GO.Example.COM.:443/abc", true},
		"public host, listening port":     {proxied, "http://go.example.com:8080/abc", true},
		"public host, other port":         {proxied, "https://go.example.com:9443/abc", true},
		"below the public host":           {proxied, "https://www.go.example.com/abc", false},
		"listed name":                     {proxied, "http://internal.example/abc", true},
		"listed name, other port":         {proxied, "http://internal.example:3000/abc", true},
		"listed localhost, other port":    {odd, "http://localhost:3000/abc", false},
		"public localhost, other port":    {local, "http://localhost:3000/abc", false},
		"public localhost, its port":      {local, "http://127.0.0.1:8080/abc", true},
		"listed name in Unicode":          {proxied, "https://BÜCHER.example/abc", true},
		"listed name, full-width dot":     {proxied, "https://internal。example/abc", true},
		"localhost":                       {proxied, "http://localhost:8080/abc", true},
		"localhost, other port":           {proxied, "http://localhost:3000/abc", false},
		"below localhost":                 {proxied, "http://a.b.localhost:8080/abc", true},
		"not below localhost":             {proxied, "http://notlocalhost:8080/abc", false},
		"127.0.0.1":                       {proxied, "http://127.0.0.1:8080/abc", true},
		"127.0.0.1 in full-width digits":  {proxied, "http://１２７.０.０.１:8080/abc", true},
		"127.0.0.1, other port":           {proxied, "http://127.0.0.1:8081/abc", false},
		"127.255.1.2":                     {proxied, "http://127.255.1.2:8080/abc", true},
		"::1":                             {proxied, "http://[::1]:8080/abc", true},
		"127.0.0.1 mapped in hexadecimal": {proxied, "http://[::FFFF:7f00:1]:8080/abc", true},
		"0.0.0.0":                         {proxied, "http://0.0.0.0:8080/abc", true},
		"::":                              {proxied, "http://[::]:8080/abc", true},
		"listening address":               {proxied, "http://10.1.2.3:8080/abc", true},
		"listening address mapped":        {proxied, "http://[::ffff:10.1.2.3]:8080/abc", true},
		"another address":                 {proxied, "http://10.1.2.4:8080/abc", false},
		"public address, unmapped":        {odd, "http://192.0.2.7:9000/abc", true},
		"public address, default port":    {odd, "http://192.0.2.7/abc", true},
		"listening address, unmapped":     {odd, "http://10.1.2.3:8080/abc", true},
		"loopback, default port unused":   {odd, "http://localhost/abc", false},
		"listed name, default port":       {odd, "http://internal.example/abc", true},
		"socket: loopback, public port":   {socket, "https://127.0.0.1/abc", true},
		"socket: loopback, other port":    {socket, "http://127.0.0.1:8080/abc", false},
		"socket: public host":             {socket, "https://go.example.com/abc", true},
		"elsewhere":                       {proxied, "https://example.com/go.example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := must.Value(urlnorm.Canonical(c.url))(t)
			if got := c.h.Serves(u); got != c.want {
				t.Errorf("Serves(%s) = %t, want %t", u, got, c.want)
			}
		})
	}
}

// TestHosts_ServesThePortThatIsBound covers a server that listens on port 0 of all addresses.
func TestHosts_ServesThePortThatIsBound(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ":0")
	must.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	h := hosts(t, "https://go.example.com", nil)
	before, err := urlnorm.Canonical("http://127.0.0.1:" + port)
	if err != nil || h.Serves(before) {
		t.Fatalf("before Listen: %t, %v", h.Serves(before), err)
	}
	h.Listen(l.Addr())
	all, err := net.InterfaceAddrs()
	must.NoError(t, err)
	for _, one := range all {
		host := netip.MustParsePrefix(one.String()).Addr().String()
		u, err := urlnorm.Canonical("http://" + net.JoinHostPort(host, port))
		if err != nil || !h.Serves(u) {
			t.Errorf("%s is not served: %v", u, err)
		}
	}
}

func TestHosts_ReservesItsNames(t *testing.T) {
	t.Parallel()
	h := hosts(t, "https://go.example.com:8443", nil, "internal.example", "localhost")
	for host, want := range map[string]bool{
		"go.example.com": true, "a.b.go.example.com": true, "internal.example": true, "localhost": true,
		"a.localhost": true,
		"example.com": false, "logo.example.com": false, "a.internal.example": false, "localhost.example": false,
	} {
		t.Run(host, func(t *testing.T) {
			if got := h.Reserves(host); got != want {
				t.Errorf("Reserves(%s) = %t, want %t", host, got, want)
			}
		})
	}
}

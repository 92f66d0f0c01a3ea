package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Proxies are the networks of proxies whose word is taken about where a request came from.
type Proxies []netip.Prefix

// Trusts says that an address is a proxy's.
func (p Proxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// Forwarding takes what trusted proxies forward about a client: its address and the scheme of its
// URL. It ignores these headers of other peers, because any client can set them.
type Forwarding struct {
	Proxies
	// Log gets a warning about the first X-Forwarded-For of another sender; nil where clients
	// connect directly.
	Log  *slog.Logger
	once sync.Once
}

// Forward replaces the address of the trusted proxy that sent a request with the client's. It
// removes the headers of other senders.
func (f *Forwarding) Forward(_ http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && f.Trusts(from.Addr()) {
		r.RemoteAddr = netip.AddrPortFrom(f.client(from.Addr(), r.Header.Values(forwardedFor)), 0).String()
		return
	}
	if len(r.Header[forwardedFor]) > 0 && f.Log != nil {
		f.once.Do(func() {
			f.Log.WarnContext(r.Context(), "X-Forwarded-For ignored: its sender is not in LINKFORGE_TRUSTED_PROXIES; "+
				"if it is your proxy, list its address there, because all its visitors count as one")
		})
	}
	for _, header := range []string{forwardedFor, "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"} {
		delete(r.Header, header)
	}
}

const forwardedFor = "X-Forwarded-For"

// client is the nearest address on the way that is no proxy's. Each proxy adds, at the end, where
// it has the request from, so the list is believed from its end, and only as far as proxies wrote
// it.
func (p Proxies) client(from netip.Addr, forwarded []string) netip.Addr {
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := parseHop(hop)
		if !ok {
			return from
		}
		if from = addr; !p.Trusts(addr) {
			return from
		}
	}
	return from
}

// parseHop reads an address as proxies write it: also in brackets, and with a port.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

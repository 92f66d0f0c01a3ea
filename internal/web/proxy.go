package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of proxies whose word is taken about where a request came from.
type Proxies []netip.Prefix

// Trusts says that an address is a proxy's.
func (p Proxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// Forward replaces the address of the proxy that sent a request with the client's. Without proxies,
// X-Forwarded-For is ignored, because any client can set it.
func (p Proxies) Forward(_ http.ResponseWriter, r *http.Request) {
	if len(p) == 0 {
		return
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && p.Trusts(from.Addr()) {
		r.RemoteAddr = netip.AddrPortFrom(p.client(from.Addr(), r.Header.Values("X-Forwarded-For")), 0).String()
	}
}

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

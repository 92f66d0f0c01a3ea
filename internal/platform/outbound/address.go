package outbound

import (
	"net/netip"
	"slices"
)

var (
	// global is all of IPv6 that has been given out as addresses of hosts (RFC 4291, section 2.4,
	// and https://www.iana.org/assignments/ipv6-address-space). What lies outside need not be
	// listed: loopback and unspecified ::/96, IPv4-mapped ::ffff:0:0/96, NAT64 of local use
	// 64:ff9b:1::/48 (RFC 8215), discard 100::/64 (RFC 6666), segment routing 5f00::/16 (RFC 9602),
	// unique local fc00::/7 (RFC 4193), link-local fe80::/10, site-local fec0::/10 (RFC 3879) and
	// multicast ff00::/8.
	global = netip.MustParsePrefix("2000::/3")
	// nat64 holds an IPv4 address in its last 32 bits (RFC 6052): in a network without IPv4 every
	// host outside looks like this, so it is judged by that address.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// special are the addresses of no public host:
// https://www.iana.org/assignments/iana-ipv4-special-registry,
// https://www.iana.org/assignments/iana-ipv6-special-registry, and internal
// addresses of providers in the public space.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),     // RFC 791: this network, and the unspecified address
	netip.MustParsePrefix("10.0.0.0/8"),    // RFC 1918: private
	netip.MustParsePrefix("100.64.0.0/10"), // RFC 6598: behind a carrier's NAT; metadata of Alibaba Cloud
	netip.MustParsePrefix("127.0.0.0/8"),   // RFC 1122: loopback
	// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("169.254.0.0/16"),  // RFC 3927: link-local; metadata of most clouds
	netip.MustParsePrefix("172.16.0.0/12"),   // RFC 1918: private
	netip.MustParsePrefix("192.0.0.0/24"),    // RFC 6890: protocols; metadata of Oracle Cloud
	netip.MustParsePrefix("192.0.2.0/24"),    // RFC 5737: documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // RFC 7526: 6to4 relays that were
	netip.MustParsePrefix("192.168.0.0/16"),  // RFC 1918: private
	netip.MustParsePrefix("198.18.0.0/15"),   // RFC 2544: benchmarking
	netip.MustParsePrefix("198.51.100.0/24"), // RFC 5737: documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // RFC 5737: documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // RFC 5771: multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // RFC 1112: reserved; RFC 919: broadcast

	netip.MustParsePrefix("2001::/23"),     // RFC 2928: protocols, among them Teredo (RFC 4380), which embeds IPv4
	netip.MustParsePrefix("2001:db8::/32"), // RFC 3849: documentation
	netip.MustParsePrefix("2002::/16"),     // RFC 3056: 6to4, which embeds IPv4 and has no relays any more (RFC 7526)
	netip.MustParsePrefix("3fff::/20"),     // RFC 9637: documentation
}

// Public reports whether the address may be that of a public host: neither loopback, private,
// link-local nor of another special use. An address that embeds an IPv4 address is as public as
// that one, if at all.
func Public(a netip.Addr) bool {
	a = plain(a)
	if nat64.Contains(a) {
		last := a.As16()
		a = netip.AddrFrom4([4]byte(last[12:]))
	}
	if !a.Is4() && !global.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// PublicOr returns a function for Config.Allow that accepts public addresses, and those in the
// networks.
func PublicOr(networks []netip.Prefix) func(netip.Addr) bool {
	return func(a netip.Addr) bool {
		return Public(a) || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
	}
}

// plain removes the zone and the IPv4-mapped form, which prefixes do not contain.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

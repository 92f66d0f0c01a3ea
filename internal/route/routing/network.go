package routing

import (
	"net/netip"
)

// ipv4Bits is the length of the prefix of mapped IPv4 addresses.
const ipv4Bits = 96

// appendNetworks writes networks as IPv6 prefixes: IPv4 addresses are mapped.
func appendNetworks(b []byte, networks []string) []byte {
	for _, network := range networks {
		prefix, err := ParseNetwork(network)
		if err != nil { // package check refuses it
			continue
		}
		bits := prefix.Bits()
		if prefix.Addr().Is4() {
			bits += ipv4Bits
		}
		address := prefix.Addr().As16()
		b = append(append(b, byte(bits)), address[:]...)
	}
	return b
}

// ParseNetwork parses an address, or a network in CIDR notation.
func ParseNetwork(network string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(network); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return address.Prefix(address.BitLen())
	}
	prefix, err := netip.ParsePrefix(network)
	if err == nil && prefix.Addr().Is4In6() {
		prefix, err = prefix.Addr().Unmap().Prefix(prefix.Bits() - ipv4Bits)
	}
	return prefix.Masked(), err
}

// networkHas reports whether an address is in a network of a condition.
func networkHas(networks FlatReader, address netip.Addr) bool {
	if address = address.Unmap(); !address.IsValid() {
		return false
	}
	bits16 := address.As16()
	for len(networks) > 0 {
		bits := int(networks.Byte())
		network := string(networks[:len(bits16)])
		networks = networks[len(bits16):]
		if isWider := bits < ipv4Bits; isWider && address.Is4() {
			continue // an IPv6 network that contains all mapped addresses
		}
		if samePrefix(network, bits16[:], bits) {
			return true
		}
	}
	return false
}

// samePrefix reports whether the first bits of two addresses are equal.
func samePrefix(a string, b []byte, bits int) bool {
	whole, rest := bits/8, bits%8
	if a[:whole] != string(b[:whole]) {
		return false
	}
	return rest == 0 || (a[whole]^b[whole])>>(8-rest) == 0
}

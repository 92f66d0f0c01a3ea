package outbound

import (
	"net/netip"
	"testing"
)

func TestAddress_RefusesPrivate(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string][]string{
		"unspecified":  {"0.0.0.0", "::"},
		"this network": {"0.0.0.1", "0.255.255.255"},
		"loopback":     {"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "::1%lo"},
		"private": {"10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0",
			"192.168.255.255"},
		"carrier's NAT": {"100.64.0.0", "100.127.255.255"},
		"link-local":    {"169.254.0.0", "169.254.255.255", "fe80::", "fe80::1%eth0", "febf:ffff::1"},
		"metadata": {"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192",
			"168.63.129.16"},
		"protocols": {"192.0.0.0", "192.0.0.255", "192.88.99.1", "2001:1ff:ffff::1"},
		"documentation": {"192.0.2.1", "198.51.100.1", "203.0.113.255", "2001:db8::", "2001:db8:ffff::1", "3fff::1",
			"3fff:fff::1"},
		"benchmarking":           {"198.18.0.0", "198.19.255.255", "2001:2::1"},
		"multicast":              {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"},
		"reserved and broadcast": {"240.0.0.0", "255.255.255.254", "255.255.255.255"},
		"unique local":           {"fc00::1", "fdff:ffff::1", "fd12::1%eth0"},
		"site-local":             {"fec0::1", "feff::1"},
		"discard":                {"100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::1"},
		"IPv4-mapped": {"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:127.0.0.1%eth0",
			"::ffff:0.0.0.0"},
		"IPv4-compatible": {"::127.0.0.1", "::10.0.0.1", "::8.8.8.8"},
		"IPv4-translated": {"::ffff:0:7f00:1"},
		"NAT64": {"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254%eth0", "64:ff9b:1::1",
			"64:ff9b:1:ffff::8.8.8.8"},
		"6to4":            {"2002:7f00:1::1", "2002:a00:1::1", "2002:808:808::1"},
		"Teredo":          {"2001::1", "2001:0:808:808:0:0:80ff:fffe"},
		"segment routing": {"5f00::1"},
		"never given out": {"1fff::1", "4000::1", "8000::1", "200::1"},
	} {
		for _, a := range addresses {
			if Public(netip.MustParseAddr(a)) {
				t.Errorf("%s: %s is let through", name, a)
			}
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address at all is let through")
	}
}

// TestAddress_AllowsPublic has the neighbours of refused addresses, so that no range is too wide.
func TestAddress_AllowsPublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0",
		"168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
		"191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0",
		"223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
		"2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111",
		"2606:4700:4700::1111%eth0",
		"2a00:1450:4001::200e", "3ffe:ffff::1", "3fff:1000::1",
	} {
		if !Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
}

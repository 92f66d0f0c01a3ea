package destination

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// OwnHosts are the hosts and ports of one instance: links must not redirect to them, and workspaces
// cannot have them. It resolves no names: a domain whose DNS record points to this instance is
// unknown here until a workspace verifies it. It is safe for concurrent use.
type OwnHosts struct {
	public urlnorm.URL
	// publicHost and listed are in the form that normalize returns.
	publicHost string
	listed     []string
	listener   atomic.Pointer[listener]
}

// listener is the address that the server is bound to.
type listener struct {
	port      uint16
	addresses []string
}

// NewOwnHosts returns the hosts of the instance with a public URL and further names in canonical
// form.
func NewOwnHosts(publicURL string, names ...string) (*OwnHosts, error) {
	public, err := urlnorm.Canonical(publicURL)
	if err != nil {
		return nil, fmt.Errorf("the public URL: %w", err)
	}
	return &OwnHosts{public: public, publicHost: normalize(public.Host()), listed: names}, nil
}

// Listen adds the address that the server is bound to. An unspecified address, such as 0.0.0.0,
// adds all addresses of the machine. An address without a port, such as that of a Unix socket, adds
// nothing.
func (h *OwnHosts) Listen(bound net.Addr) {
	at, err := netip.ParseAddrPort(bound.String())
	if err != nil {
		return
	}
	l := &listener{port: at.Port(), addresses: []string{normalize(at.Addr().WithZone("").String())}}
	if at.Addr().IsUnspecified() {
		l.addresses = machineAddresses()
	}
	h.listener.Store(l)
}

// machineAddresses fails open: without them, loopback and the configured names remain.
func machineAddresses() (addresses []string) {
	all, _ := net.InterfaceAddrs()
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			addresses = append(addresses, normalize(prefix.Addr().String()))
		}
	}
	return addresses
}

// Serves reports whether a URL points to this instance. The public host and listed names match at
// any port, because a proxy may forward other ports later. Loopback and listening addresses match
// only at the instance's ports, because other services may use the rest.
func (h *OwnHosts) Serves(u urlnorm.URL) bool {
	host := normalize(u.Host())
	if isLoopback(host) || host != h.publicHost && slices.Contains(h.listening().addresses, host) {
		return h.isOwnPort(u.Port())
	}
	return host == h.publicHost || slices.Contains(h.listed, host)
}

// isOwnPort accepts the listening port and the public one. Behind the default ports, http leads to
// https.
func (h *OwnHosts) isOwnPort(port uint16) bool {
	public := h.public.Port()
	return port == public || port == h.listening().port || isDefault(port) && isDefault(public)
}

func (h *OwnHosts) listening() listener {
	if l := h.listener.Load(); l != nil {
		return *l
	}
	return listener{}
}

// Reserves reports whether no workspace can have a host name in canonical form: the public host
// and all names below it, the listed names, and localhost.
func (h *OwnHosts) Reserves(host string) bool {
	return host == h.publicHost || strings.HasSuffix(host, "."+h.publicHost) ||
		slices.Contains(h.listed, host) || isLoopback(host)
}

// isLoopback accepts an unspecified address too: connecting to it reaches the own machine.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, section 6.3
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// normalize writes an IPv4-mapped IPv6 address as the IPv4 address that it stands for.
func normalize(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

func isDefault(port uint16) bool { return port == 80 || port == 443 }

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
)

// healthcheckCommand is `linkforge healthcheck`.
type healthcheckCommand struct{}

// healthDeadline bounds the question.
const healthDeadline = 5 * time.Second

// Run asks the server on this machine whether it is ready.
func (healthcheckCommand) Run(ctx context.Context, f *config.Flags, std IO) error {
	ctx, cancel := context.WithTimeout(ctx, healthDeadline)
	defer cancel()
	listen, scheme, err := healthAddress(f)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("the address of the server: %w", err)
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1" // a bare container cannot look up localhost
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz",
		nil)
	if err != nil {
		return err
	}
	// The request goes to this machine by its address, which no certificate contains.
	local := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := local.Do(request)
	if err != nil {
		return fmt.Errorf("the server does not respond: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("reading the server's response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	_, err = std.Out.Write(text)
	return err
}

// healthAddress is where the server says whether it is ready: at its own address or, when only
// proxies may connect there, at the one of its metrics.
func healthAddress(f *config.Flags) (listen, scheme string, err error) {
	c, err := f.CheckDatabase()
	switch {
	case err != nil:
		return "", "", fmt.Errorf("the configuration is invalid:\n%w", err)
	case c.ProxyProtocol && c.AdminListen == "":
		return "", "",
			errors.New("the public address accepts proxies only: set LINKFORGE_ADMIN_LISTEN, which reports " +
				"readiness too")
	case c.ProxyProtocol:
		return c.AdminListen, "http", nil
	case c.TLSAuto: // there may be no certificate yet
		return c.ACME.HTTPListen, "http", nil
	case c.HasTLS():
		return c.Listen, "https", nil
	}
	return c.Listen, "http", nil
}

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/linkforge/linkforge/internal/config"
)

// healthcheckCommand is `linkforge healthcheck`.
type healthcheckCommand struct{}

// healthDeadline bounds the question.
const healthDeadline = 5 * time.Second

// Run asks the server on this machine whether it is ready.
func (healthcheckCommand) Run(ctx context.Context, f *config.Flags, std stdio) error {
	ctx, cancel := context.WithTimeout(ctx, healthDeadline)
	defer cancel()
	host, port, err := net.SplitHostPort(cmp.Or(f.Listen, ":8080"))
	if err != nil {
		return fmt.Errorf("LINKFORGE_LISTEN: %w", err)
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1" // a bare container cannot look up localhost
	}
	scheme := "http"
	if f.TLSCertificate != "" {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	// It is this machine that is asked, by its address, which is in no certificate.
	local := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := local.Do(request)
	if err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	_, err = std.out.Write(text)
	return err
}

package main

import (
	"cmp"
	"context"
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
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

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/config"
)

// release is the version, set when a release is built.
var release string

// versionCommand is `linkforge version`.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(io stdio) error {
	_, err := fmt.Fprintln(io.out, "linkforge", version())
	return err
}

// version is the release's, or the commit's that the binary was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(12, len(setting.Value))]
		}
	}
	return "development"
}

// schemaCommand is `linkforge schema`.
type schemaCommand struct{}

// Run prints the schema's SDL.
func (schemaCommand) Run(io stdio) error {
	_, err := fmt.Fprint(io.out, linkforge.Schema)
	return err
}

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

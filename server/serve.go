package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/obs"
	"github.com/linkforge/linkforge/internal/redisx"
	"github.com/linkforge/linkforge/internal/stores"
)

// serveCommand is `linkforge serve`.
type serveCommand struct{}

// Run serves until the context ends.
func (serveCommand) Run(ctx context.Context, f *config.Flags, std cli.IO) error {
	c, err := f.Check()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	memoryOf(c, containerMemory()).tune()
	log := obs.NewLogger(std.Err, !c.LogText, c.LogLevel)
	redisx.LogTo(log)
	return serve(ctx, c, log, std.Out)
}

// serve opens an app and serves until the context ends. It prints where everything is to out.
func serve(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) (err error) {
	a, err := newApp(ctx, c, log, out)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, a.close()); err == nil {
			log.InfoContext(ctx, "stopped")
		}
	}()
	listener, err := listen(c)
	if err != nil {
		return err
	}
	announce(out, a.config)
	return a.serve(ctx, listener)
}

// announce says where everything is.
func announce(w io.Writer, c config.Config) {
	fmt.Fprintf(w, "Linkforge %s is ready.\n", cli.Version())
	if c.Playground {
		fmt.Fprintf(w, "  playground  %s/playground\n", c.PublicURL)
	}
	fmt.Fprintf(w, "  endpoint    %s/graphql\n", c.PublicURL)
	fmt.Fprintf(w, "  short URLs  %s/{code}\n", c.PublicURL)
	fmt.Fprintf(w, "  listening   %s\n", c.Listen)
	if c.Embedded() {
		fmt.Fprintf(w, "  database    SQLite, %s\n", absolute(stores.DatabaseFile(c)))
		fmt.Fprintf(w, "  data        %s\n", absolute(c.DataDir))
	} else {
		fmt.Fprintf(w, "  database    PostgreSQL, %s\n", whereabouts(c.DatabaseURL))
		if c.DatabaseReadURL != "" {
			fmt.Fprintf(w, "  replica     PostgreSQL, %s\n", whereabouts(c.DatabaseReadURL))
		}
	}
	if c.RedisURL == "" {
		fmt.Fprintln(w, "  Redis       in-process")
	} else {
		fmt.Fprintf(w, "  Redis       %s\n", whereabouts(c.RedisURL))
	}
}

// whereabouts is a server's URL, or that of several, without user, password and parameters.
func whereabouts(serverURL string) string {
	_, place, _ := strings.Cut(serverURL, "://")
	hosts, rest := place, ""
	if end := strings.IndexAny(place, "/?#"); end >= 0 {
		hosts, rest = place[:end], place[end:]
	}
	if strings.Contains(rest, "@") { // the hosts are part of a password that is not percent-encoded
		return "(configured)"
	}
	path, _, _ := strings.Cut(rest, "?")
	return hosts[strings.LastIndex(hosts, "@")+1:] + path
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/link"
)

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// withLinks opens the links for an operator's piece of work, also beside a running server: the database bears it,
// and nothing here is counted in memory.
func withLinks(f *config.Flags, work func(*link.Store) error) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		links, err := link.NewStore(link.Config{DB: d, PublicURL: c.PublicURL, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			return err
		}
		return work(links)
	})
}

// besideServers opens the database beside servers that may be running, for a command.
func besideServers(f *config.Flags, work func(config.Config, *db.DB) error) error {
	c, err := f.CheckDatabase()
	if err != nil {
		return fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	if c.Embedded() {
		if _, err := os.Stat(databaseFile(c)); err != nil {
			return fmt.Errorf("there is no database yet: %w", err)
		}
	}
	d, err := openDatabase(c)
	if err != nil {
		return err
	}
	return errors.Join(work(c, d), d.Close())
}

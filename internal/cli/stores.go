package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/mail"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/migrations"
)

// withStores opens the stores for a command. The database coordinates the command with running
// servers.
func withStores(f *config.Flags, work func(*stores.Stores) error) error {
	return withLog(f, discard, func(_ config.Config, s *stores.Stores) error { return work(s) })
}

// withLog is withStores with a log.
func withLog(f *config.Flags, log *slog.Logger, work func(config.Config, *stores.Stores) error) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		mailer, err := mail.New(mail.Config{URL: c.SMTPURL, From: c.MailFrom, Log: discard})
		if err != nil {
			return fmt.Errorf("LINKFORGE_SMTP_URL and LINKFORGE_MAIL_FROM: %w", err)
		}
		s, err := stores.Open(stores.Options{Config: c, DB: d, Mailer: mailer, Log: log, Now: time.Now})
		if err != nil {
			return err
		}
		return work(c, s)
	})
}

// discard is the log of commands that report every problem themselves.
var discard = slog.New(slog.DiscardHandler)

// besideServers opens the database for a command, also while servers are running.
func besideServers(f *config.Flags, work func(config.Config, *db.DB) error) error {
	c, err := f.CheckDatabase()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	if c.Embedded() {
		if _, err := os.Stat(stores.DatabaseFile(c)); err != nil {
			return fmt.Errorf("there is no database yet: %w", err)
		}
	}
	d, err := stores.OpenDatabase(context.Background(), c, 0)
	if err != nil {
		return err
	}
	if err := migrate.Check(context.Background(), d, migrations.Files); err != nil {
		return errors.Join(err, d.Close())
	}
	return errors.Join(work(c, d), d.Close())
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/stores"
)

// secretsCommand is `linkforge secrets rewrap`. It works while servers run.
type secretsCommand struct {
	Rewrap secretsRewrap `cmd:"" help:"Encrypt all secrets with LINKFORGE_ENCRYPTION_KEY, and list the keys in use."`
}

type secretsRewrap struct {
	listing
	asking
	Lost string `placeholder:"KEY" help:"Replace the secrets of this key, which is lost, by random ones: their webhooks, imports and authenticator apps fail. TLS certificates are obtained again."`
}

// Run encrypts secrets again. It ends in exit status 1 when secrets of other keys remain.
func (r secretsRewrap) Run(ctx context.Context, f *config.Flags, io IO) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		if c.Embedded() {
			if err := stores.FillEncryptionKey(&c); err != nil {
				return err
			}
		}
		if r.Lost != "" {
			if err := r.confirm(io, fmt.Sprintf("Replace the secrets of the key %s by random ones? This "+
				"cannot be undone, also if the key is found again.", quoted(r.Lost))); err != nil {
				return err
			}
		}
		s := secrets.Store{DB: d, Box: stores.Box(c)}
		if err := s.Rewrap(ctx, r.Lost); err != nil {
			return err
		}
		uses, err := s.InUse(ctx)
		if err != nil {
			return err
		}
		err = show(io, r.listing, "KEY\tSTATE\tSECRETS", uses, func(u secrets.Use) []string {
			return []string{u.Key, string(u.State), strconv.FormatInt(u.Secrets, 10)}
		})
		if err != nil {
			return err
		}
		for _, u := range uses {
			if u.State != secrets.Current {
				return errors.New("secrets of other keys remain: set the missing keys, wait until all nodes have the " +
					"same LINKFORGE_ENCRYPTION_KEY, " +
					"and run this again")
			}
		}
		return nil
	})
}

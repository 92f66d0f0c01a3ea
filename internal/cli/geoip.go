package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
)

// geoipCommand is `linkforge geoip update`. It works while servers run.
type geoipCommand struct {
	Update geoipUpdate `cmd:"" help:"Download the database of countries. Servers use it within 30 seconds."`
}

type geoipUpdate struct {
	listing
	From string `placeholder:"URL" help:"https URL of the file, in MaxMind's format. Default: LINKFORGE_GEOIP_URL."`
	To   string `placeholder:"FILE" help:"File to replace. Default: LINKFORGE_GEOIP, or countries.mmdb in the data folder."`
}

// Run replaces the file of countries of this machine.
func (g geoipUpdate) Run(ctx context.Context, f *config.Flags, io IO) error {
	c, err := f.CheckDatabase()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	file := cmp.Or(g.To, stores.CountriesFile(c))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	e, err := visitor.Updater{URL: cmp.Or(g.From, c.GeoIPURL), Path: file, Now: time.Now}.Update(ctx)
	if err != nil {
		return err
	}
	err = showOne(io, g.listing, struct {
		File    string    `json:"file"`
		Type    string    `json:"type"`
		BuiltAt time.Time `json:"builtAt"`
	}{file, e.Type, e.BuiltAt}, "wrote %s: %s of %s", file, quoted(e.Type), e.BuiltAt.Format(time.DateOnly))
	if err == nil && e.IsDBIP() {
		fmt.Fprintln(io.Err, "the console and the pages of stats link to DB-IP, as its licence (CC BY 4.0) demands")
	}
	return err
}

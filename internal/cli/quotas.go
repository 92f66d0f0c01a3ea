package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
)

// quotasCommand is `linkforge quotas`. It works while servers run.
type quotasCommand struct {
	At int `default:"80" help:"List workspaces that have used at least this percentage of a quota; 0 lists all."`
}

// Run lists the workspaces that are near one of their quotas this month.
func (q quotasCommand) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withLog(f, discard, func(c config.Config, s *stores.Stores) error {
		usages, err := s.LinkQuotas.List(ctx)
		if err != nil {
			return err
		}
		share := float64(q.At) / 100
		busy, err := s.Ledger.BusyLinks(ctx, click.MonthOf(time.Now()), share, c.HitQuota)
		if err != nil {
			return err
		}
		table := newTable(io.Out)
		fmt.Fprintf(table, "WORKSPACE\tNAME\tLINKS\tQUOTA\tLINKS NEAR HIT QUOTA\tMOST HITS\tHIT QUOTA\n")
		for _, u := range usages {
			b, near := busy[u.ID]
			if near || float64(u.Links) >= share*float64(u.Quota) {
				// Quoted: what tenants write must not move the operator's cursor.
				fmt.Fprintf(table, "%s\t%q\t%d\t%d\t%d\t%d\t%d\n", u.Slug, u.Name, u.Links, u.Quota, b.Links, b.Hits,
					b.Allowed)
			}
		}
		return table.Flush()
	})
}

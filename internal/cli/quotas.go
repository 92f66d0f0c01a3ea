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
	listing
	At int `default:"80" help:"List workspaces that have used at least this percentage of a quota; 0 lists all."`
}

// quotaRow is a workspace with the use of its quotas in a list.
type quotaRow struct {
	Slug      string `json:"slug"`
	Name      string `json:"name"`
	Links     int64  `json:"links"`
	LinkQuota int64  `json:"linkQuota"`
	NearLinks int64  `json:"linksNearHitQuota"`
	MostHits  int64  `json:"mostHits"`
	HitQuota  int64  `json:"hitQuota"`
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
		var rows []quotaRow
		for _, u := range usages {
			b, near := busy[u.ID]
			if near || float64(u.Links) >= share*float64(u.Quota) {
				rows = append(rows, quotaRow{u.Slug, u.Name, u.Links, u.Quota, b.Links, b.Hits, b.Allowed})
			}
		}
		head := "WORKSPACE\tNAME\tLINKS\tQUOTA\tLINKS NEAR HIT QUOTA\tMOST HITS\tHIT QUOTA"
		return show(io, q.listing, head, rows, func(r quotaRow) []string {
			return []string{r.Slug, quoted(r.Name), fmt.Sprint(r.Links), fmt.Sprint(r.LinkQuota),
				fmt.Sprint(r.NearLinks), fmt.Sprint(r.MostHits), fmt.Sprint(r.HitQuota)}
		})
	})
}

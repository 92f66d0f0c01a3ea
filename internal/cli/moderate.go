package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/stores"
)

// blockCommand is `linkforge block add|remove|list|disable|enable`. It works while servers run.
// Changes take effect within a second.
type blockCommand struct {
	Add     blockAdd     `cmd:"" help:"Refuse new links to a host and its subdomains, and cancel scheduled changes to it."`
	Remove  blockRemove  `cmd:"" help:"Allow new links to a host again."`
	List    blockList    `cmd:"" help:"List the blocked hosts."`
	Disable blockDisable `cmd:"" help:"Disable all links to a host and its subdomains: they respond 410."`
	Enable  blockEnable  `cmd:"" help:"Reverse disable for the same host. Links that are disabled for another reason stay so."`
}

type (
	blockAdd struct {
		Host   string `arg:"" help:"The host, such as example.com or 192.0.2.1."`
		Reason string `help:"The reason, for other operators: up to 200 characters."`
	}
	blockRemove struct {
		Host string `arg:"" help:"The host."`
	}
	blockList    struct{ listing }
	blockDisable struct {
		Host string `arg:"" help:"The host."`
	}
	blockEnable struct {
		Host string `arg:"" help:"The host."`
	}
)

// blockRow is a blocked host in a list.
type blockRow struct {
	Host      string    `json:"host"`
	CreatedAt time.Time `json:"createdAt"`
	Reason    string    `json:"reason"`
}

// Run blocks a host.
func (b blockAdd) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		blocked, err := s.Blocklist.Block(ctx, b.Host, b.Reason)
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "blocked %s; to disable existing links: linkforge block disable %s\n",
			blocked.Host, blocked.Host)
		n, err := s.Moderation.CancelHost(ctx, b.Host)
		if n > 0 {
			fmt.Fprintf(io.Out, "canceled %d scheduled changes to it\n", n)
		}
		return err
	})
}

// Run unblocks a host.
func (b blockRemove) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		was, err := s.Blocklist.Unblock(ctx, b.Host)
		if err != nil {
			return err
		}
		if !was {
			return errors.New("this host is not blocked")
		}
		fmt.Fprintln(io.Out, "unblocked; to enable disabled links again: linkforge block enable", b.Host)
		return nil
	})
}

// Run lists the blocked hosts.
func (b blockList) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		hosts, err := s.Blocklist.List(ctx)
		if err != nil {
			return err
		}
		rows := make([]blockRow, 0, len(hosts))
		for _, h := range hosts {
			rows = append(rows, blockRow{h.Host, h.CreatedAt.UTC(), h.Reason})
		}
		return show(io, b.listing, "HOST\tBLOCKED\tREASON", rows, func(r blockRow) []string {
			return []string{r.Host, instant(&r.CreatedAt), cell(r.Reason)}
		})
	})
}

// Run disables links.
func (b blockDisable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		n, err := s.Moderation.DisableHost(ctx, b.Host)
		fmt.Fprintf(io.Out, "disabled %d links\n", n)
		if err != nil {
			return err
		}
		n, err = s.Moderation.ClearHost(ctx, b.Host)
		if n > 0 {
			fmt.Fprintf(io.Out, "removed %d URLs from settings of workspaces and domains\n", n)
		}
		return err
	})
}

// Run enables links.
func (b blockEnable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		n, err := s.Moderation.EnableHost(ctx, b.Host)
		fmt.Fprintf(io.Out, "enabled %d links; those that are disabled for another reason stay so\n", n)
		return err
	})
}

// reportsCommand is `linkforge reports`.
type reportsCommand struct {
	listing
	Limit int `default:"50" help:"Maximum number, latest first."`
}

// reportRow is a report in a list.
type reportRow struct {
	CreatedAt   time.Time         `json:"createdAt"`
	Reason      moderation.Reason `json:"reason"`
	ShortURL    string            `json:"shortUrl"`
	OriginalURL string            `json:"originalUrl"`
	Disabled    bool              `json:"disabled"`
	Details     string            `json:"details"`
}

// Run lists reports.
func (r reportsCommand) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		reports, err := s.Moderation.Reports(ctx, max(1, r.Limit))
		if err != nil {
			return err
		}
		rows := make([]reportRow, 0, len(reports))
		for _, one := range reports {
			rows = append(rows, reportRow{one.CreatedAt.UTC(), one.Reason, one.ShortURL, one.OriginalURL,
				one.DisabledAt != nil, optional.Value(one.Details)})
		}
		head := "REPORTED\tREASON\tSHORT URL\tSTATE\tLEADS TO\tDETAILS"
		return show(io, r.listing, head, rows, func(r reportRow) []string {
			state := ""
			if r.Disabled {
				state = "disabled"
			}
			return []string{instant(&r.CreatedAt), string(r.Reason), r.ShortURL, state,
				strconv.Quote(urlnorm.Location(r.OriginalURL)), strconv.Quote(r.Details)}
		})
	})
}

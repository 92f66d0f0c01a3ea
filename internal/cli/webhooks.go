package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/stores"
)

// webhooksCommand is `linkforge webhooks list|disable|enable|stop|start`, for use next to running
// servers. Changes of a webhook are in its workspace's audit log, without an actor.
type webhooksCommand struct {
	List    webhooksList    `cmd:"" help:"List the webhooks of all workspaces, newest first."`
	Disable webhooksDisable `cmd:"" help:"Disable a webhook, or all of a host; members cannot enable them."`
	Enable  webhooksEnable  `cmd:"" help:"Enable a webhook again; it sends what happened meanwhile, up to 30 days."`
	Stop    webhooksStop    `cmd:"" help:"End all attempts and tests on every node within a second; events are still recorded."`
	Start   webhooksStart   `cmd:"" help:"Send again after stop."`
}

type (
	webhooksList struct {
		listing
		pageFlags
	}
	webhooksDisable struct {
		ID   string `arg:"" optional:"" help:"The webhook's id."`
		Host string `help:"All webhooks of this host and its subdomains."`
	}
	webhooksEnable struct {
		ID string `arg:"" help:"The webhook's id."`
	}
	webhooksStop  struct{}
	webhooksStart struct{}
)

// Run lists webhooks.
func (w webhooksList) Run(ctx context.Context, f *config.Flags, io IO) error {
	if err := checkLimit(w.Limit); err != nil {
		return err
	}
	return withStores(f, func(s *stores.Stores) error {
		rows, err := s.Webhooks.AdminList(ctx, w.After, w.Limit)
		if err != nil {
			return err
		}
		err = show(io, w.listing, "ID\tWORKSPACE\tHOST\tSTATUS\tWAITING\tFAILING SINCE\tCREATED", rows,
			func(row webhook.Listed) []string {
				status := string(row.Status)
				if row.Blocked {
					status = "DISABLED by the operator"
				}
				return []string{row.ID, row.WorkspaceID, row.Host, status, strconv.FormatInt(row.Waiting, 10),
					instant(row.FailingSince), row.CreatedAt.UTC().Format(time.RFC3339)}
			})
		if !w.JSON {
			w.printNext(io, len(rows), func() string { return rows[len(rows)-1].ID })
		}
		return err
	})
}

// Run disables webhooks.
func (w webhooksDisable) Run(ctx context.Context, f *config.Flags, io IO) error {
	if (w.ID == "") == (w.Host == "") {
		return errors.New("give the id of a webhook, or --host")
	}
	return withStores(f, func(s *stores.Stores) error {
		n, err := 1, error(nil)
		if w.Host != "" {
			n, err = s.Webhooks.BlockHost(ctx, w.Host)
		} else {
			err = s.Webhooks.SetBlocked(ctx, w.ID, true)
		}
		if err == nil {
			fmt.Fprintf(io.Out, "disabled %d webhooks; members cannot enable them\n", n)
		}
		return err
	})
}

// Run enables a webhook.
func (w webhooksEnable) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		err := s.Webhooks.SetBlocked(ctx, w.ID, false)
		if err == nil {
			fmt.Fprintln(io.Out, "enabled", w.ID)
		}
		return err
	})
}

// Run stops all webhooks.
func (webhooksStop) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		err := s.Webhooks.Stop(ctx)
		if err == nil {
			fmt.Fprintln(io.Out, "stopped; to send again: linkforge webhooks start")
		}
		return err
	})
}

// Run starts all webhooks.
func (webhooksStart) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		err := s.Webhooks.Start(ctx)
		if err == nil {
			fmt.Fprintln(io.Out, "started; everything that waits is sent")
		}
		return err
	})
}

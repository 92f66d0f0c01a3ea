package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickhouse"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/stores"
)

// clicksCommand is `linkforge clicks adopt|copy`. It works while servers run.
type clicksCommand struct {
	Adopt clicksAdopt `cmd:"" help:"Write the clicks of a node that will not restart to the database."`
	Copy  clicksCopy  `cmd:"" help:"Copy the clicks of the database to ClickHouse, as far as it does not have them."`
}

type clicksCopy struct{}

// Run copies, and prints each day that is done.
func (clicksCopy) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withStores(f, func(s *stores.Stores) error {
		to, ok := s.Clicks.(*clickhouse.Store)
		if !ok {
			return errors.New("set LINKFORGE_CLICKS_URL: the clicks are copied to it")
		}
		var done clickhouse.Copied
		err := to.Copy(ctx, func(c clickhouse.Copied) {
			if done = c; c.Day.Day() == 1 {
				fmt.Fprintf(io.Out, "%s: %d clicks so far\n", c.Day.Format(time.DateOnly), c.Clicks)
			}
		})
		if errs.Is(err, errs.Conflict) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%d clicks are copied, run the command again: %w", done.Clicks, err)
		}
		fmt.Fprintf(io.Out, "copied %d clicks, and %d days of links without single clicks\n", done.Clicks, done.Days)
		return nil
	})
}

type clicksAdopt struct {
	listing
	Dir string `arg:"" help:"The node's data folder, or its folder clicks. Logs are removed afterwards."`
}

// Run adopts the click logs in the folder.
func (c clicksAdopt) Run(ctx context.Context, f *config.Flags, io IO) error {
	return besideServers(f, func(conf config.Config, d *db.DB) error {
		if conf.Embedded() {
			return fmt.Errorf("an embedded server adopts logs within ten seconds: move them into %s",
				filepath.Join(conf.DataDir, stores.ClicksFolder))
		}
		dir, err := clicksBelow(c.Dir)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(io.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		adopted, damaged, err := adopt(ctx, conf, d, dir, log)
		if err != nil {
			return fmt.Errorf("%d clicks of %d logs are written, the others are still in their logs: run the command "+
				"again. %w",
				adopted.Clicks,
				adopted.Logs, err)
		}
		for _, logID := range adopted.Held {
			fmt.Fprintf(io.Err, "skipping %s: a running process holds it\n", logID)
		}
		if damaged > 0 {
			fmt.Fprintf(io.Err, "moved %d damaged records to %s\n", damaged, dir)
		}
		if adopted.Held == nil {
			adopted.Held = []string{}
		}
		return showOne(io, c.listing, struct {
			Logs    int      `json:"logs"`
			Clicks  int      `json:"clicks"`
			Held    []string `json:"held"`
			Damaged int64    `json:"damagedRecords"`
		}{adopted.Logs, adopted.Clicks, adopted.Held, damaged},
			"%d logs, with %d clicks that the database did not have",
			adopted.Logs, adopted.Clicks)
	})
}

// clicksBelow is the folder with the logs: the one that is named, or clicks in it.
func clicksBelow(dir string) (string, error) {
	for _, folder := range []string{filepath.Join(dir, stores.ClicksFolder), dir} {
		info, err := os.Stat(folder)
		if err == nil && info.IsDir() {
			return folder, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("there is no folder %s", dir)
}

// adopt writes the clicks of the logs, and returns the unused hits of their processes, as a server
// does.
func adopt(
	ctx context.Context, c config.Config, d *db.DB, dir string, log *slog.Logger,
) (a ingest.Adopted, damaged int64, err error) {
	k, err := redisx.Open(c.RedisURL, 1)
	if err != nil {
		return a, 0, err
	}
	defer k.Close()
	o := stores.Options{Config: c, DB: d, Redis: k, Log: log, Now: time.Now}
	err = withRecorder(o, func(recorder *ingest.Recorder) error {
		a, err = recorder.AdoptFrom(ctx, dir)
		damaged = recorder.Stats().Poison
		return err
	})
	return a, damaged, err
}

// withRecorder calls work with a recorder whose own click log is empty, and removes that log
// afterwards.
func withRecorder(o stores.Options, work func(*ingest.Recorder) error) error {
	dir, err := os.MkdirTemp("", "linkforge-")
	if err != nil {
		return err
	}
	o.ClickLogDir = dir
	s, err := stores.Open(o)
	if err == nil {
		err = errors.Join(work(s.Recorder), s.Close())
	}
	return errors.Join(err, os.RemoveAll(dir))
}

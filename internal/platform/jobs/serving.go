package jobs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// servingLooks and servingPause are how often and at which interval Serving looks: for longer
	// than the job that runs most often rests on a node that is alone.
	servingLooks = 12
	servingPause = time.Second
)

// Serving returns the name of a node that serves: one that begins a run of a job meanwhile. It
// returns nothing after 12 seconds without a run, during which it calls pause. Clocks do not
// matter, and nodes of any version count.
func Serving(ctx context.Context, d *db.DB, pause func(context.Context, time.Duration) error) (node string, err error) {
	before, err := holders(ctx, d)
	if err != nil {
		return "", err
	}
	for range servingLooks {
		if err := pause(ctx, servingPause); err != nil {
			return "", err
		}
		now, err := holders(ctx, d)
		if err != nil {
			return "", err
		}
		for run, node := range now {
			if _, known := before[run]; !known {
				return node, nil
			}
		}
	}
	return "", nil
}

// Pause is the pause of Serving outside of tests.
func Pause(ctx context.Context, d time.Duration) error { return poll.Wait(ctx, d) }

// holders returns the node of the last run of each job, by the run.
func holders(ctx context.Context, d *db.DB) (map[string]string, error) {
	var rows []State
	err := d.NewSelect().Model(&rows).Column("name", "node", "began_at").Where("began_at IS NOT NULL").
		Scan(db.AsOwner(ctx)) // the scopes of another version may differ
	if err != nil {
		return nil, fmt.Errorf("looking for nodes that serve: %w", err)
	}
	runs := map[string]string{}
	for _, row := range rows {
		runs[row.Name+row.BeganAt.UTC().String()] = *cmp.Or(row.Node, new(string))
	}
	return runs, nil
}

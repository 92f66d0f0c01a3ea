package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// countPatience is how long after the load all redirects may take to be counted: a log that was
	// left is taken over after ten seconds.
	countPatience = 2 * time.Minute
	// asked is how many URLs are asked for again.
	asked = 2000
)

// check holds what is there against what was seen.
func (d *drill) check(ctx context.Context) error {
	d.Say("checking")
	d.promises.Add("no request fails", d.load.failures() == 0, "%d failures", d.load.failures())
	if err := rig.Within(d.Services.DatabaseURL, true,
		func(in *sql.DB) error { return errors.Join(d.checkClicks(ctx, in), d.checkLinks(ctx, in)) }); err != nil {
		return err
	}
	if err := d.checkAgain(ctx); err != nil {
		return err
	}
	return d.checkCommands(ctx)
}

// checkClicks waits until all redirects are counted, and compares link by link.
func (d *drill) checkClicks(ctx context.Context, in *sql.DB) error {
	want, deadline := d.load.redirected(), time.Now().Add(countPatience)
	for {
		var rows int64
		if err := in.QueryRowContext(ctx, "SELECT count(*) FROM clicks").Scan(&rows); err != nil {
			return err
		}
		if rows >= want || time.Now().After(deadline) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	counted, err := rig.Rows[struct {
		Code         string
		Clicks, Rows int64
	}](ctx, in, `SELECT l.code, t.clicks, (SELECT count(*) FROM clicks c WHERE c.link_id = l.id) AS rows
		FROM click_totals t JOIN links l ON l.id = t.subject_id`)
	if err != nil {
		return err
	}
	clicks := make(map[string]int64, len(counted))
	var all, uneven int64
	for _, c := range counted {
		clicks[c.Code] = c.Clicks
		all += c.Clicks
		if c.Rows != c.Clicks {
			uneven++
		}
	}
	var wrong int
	for number, code := range d.estate.codes {
		if clicks[code] != d.load.clicks[number].Load() {
			wrong++
		}
	}
	d.promises.Add("every redirect is counted once", wrong == 0 && all == want && uneven == 0,
		"%d answered, %d counted; %d links differ, of %d the sum is not that of the clicks", want, all, wrong, uneven)
	return nil
}

// checkLinks: the database has the links that were answered, with the codes that were answered.
func (d *drill) checkLinks(ctx context.Context, in *sql.DB) error {
	rows, err := rig.Rows[struct{ OriginalURL, Code string }](ctx, in,
		"SELECT original_url, code FROM links WHERE workspace_id = $1", d.estate.Workspace)
	if err != nil {
		return err
	}
	codes := make(map[string]string, len(rows))
	for _, r := range rows {
		codes[r.OriginalURL] = r.Code
	}
	wrong := 0
	for number, code := range d.estate.codes {
		if codes[urlOf(number)] != code {
			wrong++
		}
	}
	for number, code := range d.load.codes {
		if codes[urlOf(number)] != code {
			wrong++
		}
	}
	want := len(d.estate.codes) + len(d.load.codes)
	d.promises.Add("every link that was answered is there", wrong == 0 && len(rows) == want && len(codes) == want,
		"%d answered, %d in the database; %d without their code", want, len(rows), wrong)
	return nil
}

// checkAgain asks the late server for URLs of the early one's time.
func (d *drill) checkAgain(ctx context.Context) error {
	late := d.estate.At(d.late.Address)
	wrong := 0
	for range asked {
		number := rand.IntN(len(d.estate.codes))
		created, code, err := d.load.createLink(ctx, late, number)
		if err != nil {
			return err
		}
		if created || code != d.estate.codes[number] {
			wrong++
		}
	}
	d.promises.Add("a URL has the code of before", wrong == 0, "%d asked for again, %d with another code", asked, wrong)
	return nil
}

// checkCommands asks the late version's own commands.
func (d *drill) checkCommands(ctx context.Context) error {
	status, err := d.command(ctx, "migrate", "status")
	if err != nil {
		return fmt.Errorf("migrate status: %w\n%s", err, status)
	}
	pending := strings.Count(status, "pending")
	d.promises.Add("migrate status says that all steps are taken", pending == 0, "%d steps, %d pending",
		strings.Count(status, "\n"), pending)
	d.promises.Add("the steps are those that were pending", len(d.steps) == len(todaysSteps())-len(d.revision.steps),
		"%d taken, after %d of the early version", len(d.steps), len(d.revision.steps))
	d.Say("stats verify")
	verify, err := d.command(ctx, "stats", "verify")
	d.promises.Add("stats verify finds no difference", err == nil, "%.300s", strings.Join(strings.Fields(verify), " "))
	left, problem := filepath.Glob(filepath.Join(d.Folder, "data", "clicks", "log_*"))
	d.promises.Add("no log is left of the early server", len(left) == 1, "%d logs, one of which is the late server's",
		len(left))
	return problem
}

func (d *drill) command(ctx context.Context, args ...string) (string, error) {
	return d.Command(ctx, append(d.ServicesEnv(), "LINKFORGE_DATA_DIR="+filepath.Join(d.Folder, "commands"),
		"LINKFORGE_JWT_SECRET="+rig.Secret,
		"LINKFORGE_CODE_SECRET="+rig.Secret, "LINKFORGE_CLICK_MONTHS=1"), args...) // verify reads each month
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// sample is how many links are asked about, one by one.
	sample = 2000
	// fresh is how many links are made of each strategy.
	fresh = 500
	// spare is how much is left of a quota that is to be used up.
	spare = 7
)

// check holds what is there against what was.
func (d *drill) check(ctx context.Context) (err error) {
	clicks, err := d.clicksOf(ctx, d.restored)
	if err != nil {
		return err
	}
	return rig.Within(d.database(d.restored), true, func(in *sql.DB) error {
		for _, one := range []func(context.Context, *sql.DB, []int64) error{
			d.checkCodes, d.checkAgain, d.checkClicks, d.checkVerify, d.checkQuotas, d.checkMaxClicks, d.checkHitQuota,
			d.checkStrategies, d.checkLinkQuota,
		} {
			if err := one(ctx, in, clicks); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkCodes: the database has every link with its code.
func (d *drill) checkCodes(ctx context.Context, in *sql.DB, _ []int64) error {
	rows, err := rig.Rows[struct{ ID, OriginalURL, Code string }](ctx, in, "SELECT id, original_url, code FROM links")
	if err != nil {
		return err
	}
	there := make(map[link]bool, len(rows))
	for _, r := range rows {
		there[link{r.OriginalURL, r.ID, r.Code}] = true
	}
	missing := 0
	for _, l := range d.estate.links {
		if !there[l] {
			missing++
		}
	}
	d.promises.Add("every link is there, with its code", missing == 0, "%d links of before, %d missing; %d in all",
		len(d.estate.links), missing, len(rows))
	return nil
}

// checkAgain asks for URLs that have a link.
func (d *drill) checkAgain(ctx context.Context, _ *sql.DB, _ []int64) error {
	wrong, asked := 0, 0
	for asked < sample {
		var some []any
		var want []link
		for len(some) < batch {
			number := limited + rand.IntN(len(d.estate.links)-limited)
			if !counted(number) { // each call makes another one of those
				some, want = append(some, map[string]any{"url": urlOf(number)}), append(want, d.estate.links[number])
			}
		}
		made, err := d.estate.MakeLinks(ctx, some)
		if err != nil {
			return err
		}
		for i, m := range made {
			if m.Created || m.Link.Code != want[i].code || m.Link.ID != want[i].id {
				wrong++
			}
		}
		asked += len(made)
	}
	d.promises.Add("a URL has the link and the code that it had", wrong == 0, "%d asked for again, %d with another", asked,
		wrong)
	return nil
}

// checkClicks: those that were certainly in the backup are there, and none that cannot have been.
func (d *drill) checkClicks(_ context.Context, _ *sql.DB, clicks []int64) error {
	wrong := 0
	for number, n := range clicks {
		if n < d.least[number] || n > d.most[number] {
			wrong++
		}
	}
	d.promises.Add("every click of the backup is counted once", wrong == 0,
		"%d clicks, from %d to %d may be; %d of %d links differ",
		total(clicks), total(d.least), total(d.most), wrong, len(clicks))
	return nil
}

func (d *drill) checkVerify(ctx context.Context, _ *sql.DB, _ []int64) error {
	var err error
	if problem := d.timed("linkforge stats verify", func() error {
		err = d.linkforge(ctx, append([]string{"LINKFORGE_CLICK_MONTHS=1"}, d.restored...), "stats", "verify")
		return nil
	}); problem != nil {
		return problem
	}
	found := "none"
	if err != nil {
		found = fmt.Sprintf("%.300v", err)
	}
	d.promises.Add("stats verify finds no difference", err == nil, "%s", found)
	return nil
}

// checkQuotas asks for what is used of the monthly hits.
func (d *drill) checkQuotas(ctx context.Context, _ *sql.DB, clicks []int64) error {
	wrong := 0
	for from := 0; from < sample; from += 100 {
		var ids []string
		for _, l := range d.estate.links[from : from+100] {
			ids = append(ids, l.id)
		}
		var got struct {
			Nodes []struct {
				ClickCount int64
				HitQuota   struct{ Used int64 }
			}
		}
		if err := d.estate.Do(ctx, &got, `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { clickCount hitQuota { used } } } }`, map[string]any{"ids": ids}); err != nil {
			return err
		}
		for i, n := range got.Nodes {
			if n.ClickCount != clicks[from+i] || n.HitQuota.Used != clicks[from+i] {
				wrong++
			}
		}
	}
	d.promises.Add("the month's hits are counted from the clicks", wrong == 0, "%d links asked for, %d wrong", sample,
		wrong)
	return nil
}

// checkMaxClicks uses up limited links: what they have answered, before and after the restore, is
// as many as they may. Their number is set near to what they have, because nobody has so much time.
func (d *drill) checkMaxClicks(ctx context.Context, in *sql.DB, clicks []int64) error {
	wrong := 0
	for number := range limited {
		var granted int64
		if err := in.QueryRowContext(ctx, "SELECT granted FROM links WHERE id = $1", d.estate.links[number].id).
			Scan(&granted); err != nil {
			return err
		}
		err := d.estate.Do(ctx, &struct{}{}, `mutation ($id: ID!, $n: Int64!) { updateLink(input: {id: $id, maxClicks: $n}) { errors { message } } }`,
			map[string]any{"id": d.estate.links[number].id, "n": clicks[number] + spare})
		if err != nil {
			return err
		}
		answered, last, err := d.useUp(ctx, number)
		if err != nil {
			return err
		}
		if granted != clicks[number] || answered != spare || last != http.StatusGone {
			wrong++
		}
	}
	d.promises.Add("maxClicks is what the clicks have left of it, exactly", wrong == 0, "%d links with %d left, %d wrong",
		limited, spare, wrong)
	return nil
}

// checkHitQuota sets the workspace's allowance to what a link has used and a little more.
func (d *drill) checkHitQuota(ctx context.Context, _ *sql.DB, clicks []int64) error {
	const number = limited
	if err := d.linkforge(ctx, d.restored, "workspaces", "limits", "drill", "--hits",
		strconv.FormatInt(clicks[number]+spare, 10)); err != nil {
		return err
	}
	if err := d.await(ctx, "hitQuota", clicks[number]+spare); err != nil {
		return err
	}
	answered, last, err := d.useUp(ctx, number)
	d.promises.Add("a link redirects as often as its month allows", answered == spare &&
		last == http.StatusTooManyRequests, "%d times of %d, then %d", answered, spare, last)
	return errors.Join(err, d.linkforge(ctx, d.restored, "workspaces", "limits", "drill", "--hits", "default"))
}

// useUp follows a link until it redirects no more.
func (d *drill) useUp(ctx context.Context, number int) (answered, last int, err error) {
	for ; answered < 10*spare; answered++ {
		if last, err = d.estate.get(ctx, number); err != nil || last != http.StatusFound {
			break
		}
	}
	return answered, last, err
}

// await waits until the server has seen an allowance.
func (d *drill) await(ctx context.Context, field string, want int64) error {
	for ctx.Err() == nil {
		var got struct{ Workspace map[string]int64 }
		if err := d.estate.Do(ctx, &got, "query ($w: ID!) { workspace(by: {id: $w}) { "+field+" } }",
			map[string]any{"w": d.estate.Workspace}); err != nil {
			return err
		}
		if got.Workspace[field] == want {
			return rig.Pause(ctx, 2*time.Second) // redirects see it within a second
		}
	}
	return ctx.Err()
}

// checkStrategies makes new links: nobody was given their codes before, not even after the backup
// was made.
func (d *drill) checkStrategies(ctx context.Context, _ *sql.DB, _ []int64) error {
	for _, strategy := range []string{"COUNTER", "RANDOM", "DETERMINISTIC"} {
		made, again, err := d.estate.makeNew(ctx, fresh, strategy)
		if err != nil {
			return err
		}
		d.promises.Add(fmt.Sprintf("%s gives out new codes", strategy), again == 0, "%d made, %d with a code of before",
			len(made), again)
	}
	return nil
}

// checkLinkQuota sets the workspace's allowance of new links to what it has used and a little more.
// Those made before are counted.
func (d *drill) checkLinkQuota(ctx context.Context, in *sql.DB, _ []int64) error {
	var links int64
	if err := in.QueryRowContext(ctx, "SELECT count(*) FROM links").Scan(&links); err != nil {
		return err
	}
	if err := d.linkforge(ctx, d.restored, "workspaces", "limits", "drill", "--links",
		strconv.FormatInt(links+spare, 10)); err != nil {
		return err
	}
	if err := d.await(ctx, "linkQuota", links+spare); err != nil {
		return err
	}
	made := 0
	for ; made < 3*spare; made++ {
		if _, _, err := d.estate.makeNew(ctx, 1, "DETERMINISTIC"); err != nil {
			break
		}
	}
	d.promises.Add("the month's new links are those that are there", made == spare, "%d made, %d were left", made, spare)
	return nil
}

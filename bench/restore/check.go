package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig2"
)

const (
	// sample is how many links are queried one by one.
	sample = 2000
	// fresh is how many links are created of each strategy.
	fresh = 500
	// spare is how much is left of a quota that is to be used up.
	spare = 7
)

// check compares the restored server with what existed before.
func (d *drill) check(least, most []int64) {
	clicks := d.clicksIn(d.copied)
	d.checkLinks()
	d.checkKnownURLs()
	wrong := 0
	for number, n := range clicks {
		if n < least[number] || n > most[number] {
			wrong++
		}
	}
	d.Promise("every click of the backup is counted once", wrong == 0, "%d clicks, from %d to %d may be; %d of %d links "+
		"differ", total(clicks), total(least), total(most), wrong, len(clicks))
	err := d.exec("stats", "verify")
	d.Promise("stats verify finds no difference", err == nil, "%.300v", err)
	d.checkUsage(clicks)
	d.checkMaxClicks(clicks)
	d.checkHitQuota(clicks)
	for _, strategy := range []string{"COUNTER", "RANDOM", "DETERMINISTIC"} {
		created, again := d.createNew(fresh, strategy)
		d.Promise(strategy+" gives new codes", again == 0, "%d created, %d with a code of before", len(created), again)
	}
	d.checkLinkQuota()
}

// checkLinks compares the links in the database with those that were created.
func (d *drill) checkLinks() {
	rows := rig.Rows[link](d.Run, d.copied, "SELECT original_url, id, code FROM links")
	restored := make(map[link]bool, len(rows))
	for _, r := range rows {
		restored[r] = true
	}
	missing := 0
	for _, l := range d.links {
		if !restored[l] {
			missing++
		}
	}
	d.Promise("every link is there, with its code", missing == 0, "%d links of before, %d missing; %d in all",
		len(d.links), missing, len(rows))
}

// checkKnownURLs creates links of URLs that have one.
func (d *drill) checkKnownURLs() {
	wrong, created := 0, 0
	for created < sample {
		var some []any
		var want []link
		for len(some) < batch {
			number := limited + rand.IntN(len(d.links)-limited)
			if !isCounter(number) { // each call creates another one of those
				some, want = append(some, map[string]any{"url": urlOf(number)}), append(want, d.links[number])
			}
		}
		for i, c := range rig.Must(d.tenant.CreateLinks(some)) {
			if c.Created || c.Link.Code != want[i].Code || c.Link.ID != want[i].ID {
				wrong++
			}
		}
		created += len(some)
	}
	d.Promise("a URL has the link and the code that it had", wrong == 0, "%d created again, %d with another", created,
		wrong)
}

// checkUsage queries what is used of the monthly hits.
func (d *drill) checkUsage(clicks []int64) {
	wrong := 0
	for from := 0; from < sample; from += 100 {
		var ids []string
		for _, l := range d.links[from : from+100] {
			ids = append(ids, l.ID)
		}
		var got struct {
			Nodes []struct {
				ClickCount int64
				HitQuota   struct{ Used int64 }
			}
		}
		rig.Check(d.tenant.Do(&got, `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { clickCount
			hitQuota { used } } } }`, map[string]any{"ids": ids}))
		for i, n := range got.Nodes {
			if n.ClickCount != clicks[from+i] || n.HitQuota.Used != clicks[from+i] {
				wrong++
			}
		}
	}
	d.Promise("the month's hits are counted from the clicks", wrong == 0, "%d links queried, %d wrong", sample, wrong)
}

// checkMaxClicks uses up limited links: before and after the restore they redirect as often as they
// may. Their limit is set close to their clicks, to save time.
func (d *drill) checkMaxClicks(clicks []int64) {
	wrong := 0
	for number := range limited {
		id := d.links[number].ID
		granted := d.Number(d.copied, "SELECT granted FROM links WHERE id = $1", id)
		rig.Check(d.tenant.Do(&struct{}{}, `mutation ($id: ID!, $n: Int64!) { updateLink(input: {id: $id, maxClicks: $n}) {
			errors { message } } }`, map[string]any{"id": id, "n": clicks[number] + spare}))
		if redirects, last := d.useUp(number); granted != clicks[number] || redirects != spare || last != http.StatusGone {
			wrong++
		}
	}
	d.Promise("maxClicks is what the clicks have left of it, exactly", wrong == 0, "%d links with %d left, %d wrong",
		limited, spare, wrong)
}

// checkHitQuota sets the workspace's quota to what a link has used and a little more.
func (d *drill) checkHitQuota(clicks []int64) {
	const number = limited
	d.limit("--hits", "hitQuota", clicks[number]+spare)
	redirects, last := d.useUp(number)
	d.Promise("a link redirects as often as its month allows", redirects == spare && last == http.StatusTooManyRequests,
		"%d times of %d, then %d", redirects, spare, last)
	rig.Check(d.exec("workspaces", "limits", "drill", "--hits", "default"))
}

// useUp follows a link until it does not redirect.
func (d *drill) useUp(number int) (redirects, last int) {
	for ; redirects < 10*spare; redirects++ {
		if last = d.follow(number); last != http.StatusFound {
			break
		}
	}
	return redirects, last
}

// limit sets a quota of the workspace, and waits until the server has read it.
func (d *drill) limit(option, field string, n int64) {
	rig.Check(d.exec("workspaces", "limits", "drill", option, strconv.FormatInt(n, 10)))
	d.Await("the quota is read", func() bool {
		var got struct{ Workspace map[string]int64 }
		rig.Check(d.tenant.Do(&got, fmt.Sprintf("query ($w: ID!) { workspace(by: {id: $w}) { %s } }", field),
			map[string]any{"w": d.tenant.Workspace}))
		return got.Workspace[field] == n
	})
	d.Pause(2 * time.Second) // redirects read it within a second
}

// checkLinkQuota sets the workspace's quota of new links to what it has used and a little more.
func (d *drill) checkLinkQuota() {
	d.limit("--links", "linkQuota", d.Number(d.copied, "SELECT count(*) FROM links")+spare)
	created := 0
	for ; created < 3*spare; created++ {
		if rig.Try(func() { d.createNew(1, "DETERMINISTIC") }) != nil {
			break
		}
	}
	d.Promise("the month's new links are those that exist", created == spare, "%d created, %d were left", created, spare)
}

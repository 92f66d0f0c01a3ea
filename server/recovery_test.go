package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/stores"
)

// The sizes of the fields are 5,000,000 clicks, 1,000 limited links and 16,000 open leases.
var (
	leftClicks   = suitetest.Size(5_000, 20_000)
	limitedLinks = suitetest.Size(10, 20)
)

// startDeadline bounds the start of a server with click logs of any size.
const startDeadline = 2 * time.Second

// TestStart_ServesBeforeItsLogIsIngested: a killed server leaves open leases and a large click log. The
// next one is ready at once, keeps every limit exact while it ingests the log, and counts every
// click once.
func TestStart_ServesBeforeItsLogIsIngested(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const limit = 40
		nextMonth(t)
		node := start(t, b.inProcesses(), fmt.Sprint("LINKFORGE_HIT_QUOTA=", limit), "LINKFORGE_LINK_QUOTA=1000000")
		who := node.tenant(t, "crowded")
		crowded := who.shorten(t, "https://example.com/crowded").Link
		who.many(t, limitedLinks, "limited", nil)
		limited := b.paths(t, "limited")
		before := node.followAll(t, limited, limit/4)
		node.kill()

		b.leaveClicks(t, crowded.ID, who.workspaceID, leftClicks)
		began := time.Now()
		node.again()
		if took := time.Since(began); took > bounded(startDeadline) {
			t.Errorf("ready after %s, want %s", took, bounded(startDeadline))
		} else {
			t.Logf("ready after %s with %d clicks and %d leases", took, leftClicks, limitedLinks)
		}

		during := node.followAll(t, limited, limit/4)
		ingested := b.countClicks(t, crowded.ID)
		limitOfWait := time.Minute + time.Duration(leftClicks)*time.Millisecond
		polltest.Within(t, limitOfWait, "every click is counted", func() bool {
			return b.countClicks(t, crowded.ID) >= int64(leftClicks)
		})
		t.Logf("%d clicks were ingested before the visits of limited links ended, all after %s", ingested,
			time.Since(began))
		after := node.followAll(t, limited, limit)
		polltest.Until(t, "the hits that the dead process has leased are used", func() bool {
			left := map[string]bool{}
			for path := range limited {
				got := before[path] + during[path] + after[path]
				if got > limit {
					t.Fatalf("%s redirected %d + %d + %d times, want %d", path, before[path], during[path], after[path],
						limit)
				}
				if got < limit {
					left[path] = true
				}
			}
			for path, n := range node.followAll(t, left, 1) {
				after[path] += n
			}
			return len(left) == 0
		})
		polltest.Until(t, "the clicks of the limited links are counted", func() bool {
			return b.countClicks(t, "") == int64(leftClicks+limit*limitedLinks)
		})
		node.stop()
		if got := b.countClicks(t, crowded.ID); got != int64(leftClicks) {
			t.Errorf("%d clicks of the large log are counted, want %d", got, leftClicks)
		}
	})
}

// followAll follows every path n times and returns how many of them were redirected.
func (s *server) followAll(t *testing.T, paths map[string]bool, n int) map[string]int {
	t.Helper()
	const visitors = 16
	var all errgroup.Group
	all.SetLimit(visitors)
	results := make(chan map[string]int, len(paths))
	for path := range paths {
		all.Go(func() error {
			redirected := 0
			for range n {
				a, err := s.get(path)
				if err != nil {
					return err
				}
				switch a.status {
				case http.StatusFound:
					redirected++
				case http.StatusTooManyRequests:
				default:
					return fmt.Errorf("%s answered %d", path, a.status)
				}
			}
			results <- map[string]int{path: redirected}
			return nil
		})
	}
	must.NoError(t, all.Wait())
	close(results)
	sum := map[string]int{}
	for result := range results {
		for path, n := range result {
			sum[path] = n
		}
	}
	return sum
}

// paths returns the paths of the links whose destinations contain a text.
func (b backend) paths(t *testing.T, text string) map[string]bool {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	var rows []struct{ Slug, Code string }
	must.NoError(t, d.NewSelect().TableExpr("links AS l").Join("JOIN workspaces AS w ON w.id = l.workspace_id").
		ColumnExpr("w.slug, l.code").Where("l.original_url LIKE ?", "%/"+text+"/%").Scan(db.AsSystem(t.Context()),
		&rows))
	paths := map[string]bool{}
	for _, row := range rows {
		paths["/"+row.Slug+"/"+row.Code] = true
	}
	return paths
}

// countClicks returns the number of stored clicks of a link, or of all links.
func (b backend) countClicks(t *testing.T, linkID string) (clicks int64) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	q := d.NewSelect().Table("clicks").ColumnExpr("count(*)")
	if linkID != "" {
		q.Where("link_id = ?", linkID)
	}
	err := q.Scan(db.AsSystem(t.Context()), &clicks)
	for tries := 0; tries < 5 && isTimeout(err); tries++ { // of a connection to the database of an overloaded machine
		err = q.Scan(db.AsSystem(t.Context()), &clicks)
	}
	must.NoError(t, err)
	return clicks
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// leaveClicks writes n clicks of a link to a click log in the data folder that no process owns.
func (b backend) leaveClicks(t *testing.T, linkID, workspaceID string, n int) {
	t.Helper()
	log := must.Value(ingest.OpenLog(ingest.LogConfig{
		Dir: filepath.Join(folderOf(b.env), stores.ClicksFolder), MaxBytes: 2 << 30,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}))(t)
	now := time.Now()
	for i := range n {
		log.Record(&click.Click{LinkID: linkID, WorkspaceID: workspaceID, ClickedAt: now, Status: http.StatusFound,
			Visitor: int64(i%1000 + 1)})
	}
	must.NoError(t, log.Close())
}

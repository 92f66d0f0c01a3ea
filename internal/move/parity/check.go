package parity

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// originBatch is how many origins a statement reads, and stepSize how many comparisons a step
	// commits.
	originBatch = 500
	stepSize    = 10
	// maxTries bounds the requests of a short URL whose host refuses them by a rate.
	maxTries = 3
	// maxRetryAfter bounds the pause that a host may request: up to maxWait with the slot, or else
	// without it. hostPause is that of a host that has too many requests.
	maxRetryAfter = time.Minute
	maxWait       = 2 * time.Second
	hostPause     = time.Second
	// maxMoved bounds the hosts whose instance is remembered.
	maxMoved = 100
	// requestTimeout bounds a request.
	requestTimeout = 30 * time.Second
	maxLocation    = 8 << 10
	maxInstanceID  = 100
)

// hostRate is how often a host is requested.
var hostRate = ratelimit.Rate{Name: "requests of parity checks", Attempts: 1, Window: time.Second}

// check is a check on this node.
type check struct {
	*Store
	*task.Holding
	in       Settings
	progress *progress
}

// Run implements task.Handler: it compares the origins that are not compared yet.
func (s *Store) Run(ctx context.Context, h *task.Holding) (err error) {
	c := &check{Store: s, Holding: h}
	if err := json.Unmarshal([]byte(h.Input), &c.in); err != nil {
		return fmt.Errorf("decoding the arguments of a parity check: %w", err)
	}
	if c.progress, err = progressOf(h.Task); err != nil {
		return err
	}
	if ctx, err = h.Member.Enter(ctx, workspace.WriteLinks); err != nil {
		return err
	}
	if h.Total == nil {
		if err := c.choose(ctx); err != nil {
			return err
		}
	}
	for {
		some, err := c.origins(ctx, c.progress.After, originBatch)
		if err != nil || len(some) == 0 {
			return err
		}
		for len(some) > 0 {
			n := 0
			for chosen := 0; n < len(some) && chosen < stepSize; n++ {
				if c.progress.chooses(some[n].LinkID) {
					chosen++
				}
			}
			compared, err := c.step(ctx, some[:n])
			if err != nil {
				return err
			}
			if err := h.Rest(ctx, 0); err != nil {
				return err
			}
			some = some[compared:]
		}
	}
}

// origins returns the next origins with a short URL of links that the member sees.
func (c *check) origins(ctx context.Context, after *position, n int64) (rows []*importer.Origin, err error) {
	q := c.DB.NewSelect().Model(&rows).Join("JOIN links AS link ON link.id = origin.link_id").
		Where("origin.workspace_id = ?", c.WorkspaceID).Where("origin.source_url IS NOT NULL").
		Where("link.purged_at IS NULL").
		Apply(c.Member.Inside("link.folder_id")).
		Order("origin.source", "origin.label", "origin.source_id").Limit(n)
	if after != nil {
		q = q.Where("(origin.source, origin.label, origin.source_id) > (?, ?, ?)", after.Source, after.Label,
			after.SourceID)
	}
	if c.in.ImportID != "" {
		q = q.Where("EXISTS (SELECT 1 FROM import_rows AS imported WHERE imported.task_id = ? AND imported.link_id = "+
			"origin.link_id)",
			c.in.ImportID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the origins of links: %w", err)
	}
	return rows, nil
}

func positionOf(o *importer.Origin) *position {
	return &position{string(o.Source), o.Label, o.SourceID}
}

// choose counts the origins of the sample: those of the links with the smallest hashes, so that two
// checks choose the same ones.
func (c *check) choose(ctx context.Context) error {
	total := int64(0)
	var smallest hashes
	for after := (*position)(nil); ; {
		some, err := c.origins(ctx, after, originBatch)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		for _, o := range some {
			if total++; c.in.Sample == 0 {
				continue
			}
			if heap.Push(&smallest, hashOf(o.LinkID)); len(smallest) > c.in.Sample {
				heap.Pop(&smallest)
			}
		}
		after = positionOf(some[len(some)-1])
	}
	if c.in.Sample > 0 && total > int64(c.in.Sample) {
		total, c.progress.Below = int64(c.in.Sample), smallest[0]
	}
	c.Total = &total
	return c.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		return c.Step(ctx, tx, encode(c.progress), 0, &total)
	})
}

// chooses reports whether a link is in the sample.
func (p *progress) chooses(linkID string) bool { return p.Below == 0 || hashOf(linkID) <= p.Below }

// hashes is a heap with the largest hash first.
type hashes []uint64

func (h hashes) Len() int           { return len(h) }
func (h hashes) Less(i, j int) bool { return h[i] > h[j] }
func (h hashes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hashes) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *hashes) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func hashOf(linkID string) uint64 {
	sum := sha256.Sum256([]byte(linkID))
	return binary.BigEndian.Uint64(sum[:8])
}

// step compares origins, and commits the comparisons. It returns how many origins are done: fewer
// than all if its turn is over. Before it returns the error of one that has to wait, it commits
// those before.
func (c *check) step(ctx context.Context, some []*importer.Origin) (compared int, err error) {
	next := *c.progress
	next.Counts, next.Moved = maps.Clone(next.Counts), maps.Clone(next.Moved)
	var ids []string
	for _, o := range some {
		ids = append(ids, o.LinkID)
	}
	links, err := c.Links.Many(ctx, c.Member, ids...)
	if err != nil {
		return 0, err
	}
	var rows []*Row
	var paused error
	for _, o := range some {
		if len(rows) > 0 && c.IsOver() {
			break
		}
		l := links[o.LinkID]
		if l != nil && next.chooses(o.LinkID) && c.Done+int64(len(rows)) < *c.Total {
			row, err := c.compare(ctx, &next, l, *o.SourceURL)
			if paused = err; err != nil {
				break
			}
			row.Number = c.Done + int64(len(rows)) + 1
			rows = append(rows, row)
			next.Counts[row.Verdict]++
		}
		next.After, next.Tries = positionOf(o), 0
		compared++
	}
	done := c.Done + int64(len(rows))
	hasLearnt := next.Tries > c.progress.Tries || len(next.Moved) != len(c.progress.Moved)
	if ctx.Err() == nil && (compared > 0 || hasLearnt) {
		err = c.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			if err := db.InsertRows(ctx, tx, db.Insert{}, rows); err != nil {
				return fmt.Errorf("writing the rows of a parity check: %w", err)
			}
			if err := c.AddRows(ctx, tx, len(rows)); err != nil {
				return fmt.Errorf("counting the rows of a parity check: %w", err)
			}
			return c.Step(ctx, tx, encode(&next), done, c.Total)
		})
	}
	if err != nil {
		return 0, err
	}
	c.progress, c.Done = &next, done
	return compared, paused
}

// compare compares the redirect of a link with that of its source, and notes in the progress what
// it has learnt about the host.
func (c *check) compare(ctx context.Context, next *progress, l *link.Link, sourceURL string) (*Row, error) {
	here, err := c.Links.Explain(ctx, link.Simulation{Link: l, Visit: &routing.Sample{UserAgent: &c.UserAgent}})
	if err != nil {
		return nil, err
	}
	row := &Row{
		TaskID: c.ID, WorkspaceID: c.WorkspaceID, LinkID: l.ID, SourceURL: sourceURL, Status: here.Status,
		Location: here.Location,
	}
	there, isMoved, err := c.request(ctx, next, sourceURL)
	if err != nil {
		return nil, err
	}
	row.Verdict = Compare(there, Answer{here.Status, optional.Value(here.Location)}, isMoved)
	row.SourceStatus, row.SourceLocation, row.CheckedAt = optional.Of(there.Status), optional.Of(
		there.Location), db.Instant(c.Store.Now())
	return row, nil
}

// request requests a short URL of a source, unless its host leads to this instance. It returns only
// errors of the context, and the one with which the check leaves its slot to others.
func (c *check) request(ctx context.Context, next *progress, sourceURL string) (a Answer, isMoved bool, err error) {
	u, err := url.Parse(sourceURL)
	if err != nil || u.Host == "" {
		return a, false, nil
	}
	if _, isKnown := next.Moved[u.Host]; !isKnown {
		known := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/.well-known/linkforge"}
		instance, err := c.get(ctx, &known, maxInstanceID)
		if err != nil {
			return a, false, err
		}
		if next.Moved == nil || len(next.Moved) >= maxMoved {
			next.Moved = map[string]bool{}
		}
		next.Moved[u.Host] = instance.status == http.StatusOK && instance.body == c.InstanceID
	}
	if next.Moved[u.Host] {
		return a, true, nil
	}
	for {
		response, err := c.get(ctx, u, 0)
		if err != nil {
			return a, false, err
		}
		a = Answer{response.status, absolute(u, response.location)}
		if next.Tries++; a.Status != http.StatusTooManyRequests || next.Tries >= maxTries {
			break
		}
		if response.wait > maxWait {
			return a, false, task.Later(response.wait)
		}
		if err := poll.Wait(ctx, response.wait); err != nil {
			return a, false, err
		}
	}
	if len(a.Location) > maxLocation {
		a.Location = strings.ToValidUTF8(a.Location[:maxLocation], "")
	}
	return a, false, nil
}

// response is a response of a source; a status of zero means that there was none.
type response struct {
	status         int
	location, body string
	// wait is how long a host that refuses a request by a rate asks to wait.
	wait time.Duration
}

// get requests a URL, and reads up to a number of bytes. It returns the errors of request.
func (c *check) get(ctx context.Context, u *url.URL, size int64) (r response, err error) {
	if err := c.Limits.Wait(ctx, hostRate, u.Host, c.Account()); err != nil {
		return r, cmp.Or(ctx.Err(), task.Later(hostPause))
	}
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, u.String(), nil)
	if err != nil {
		return r, nil
	}
	answer, err := c.Transport.RoundTrip(request) // a http.Client would refuse a Location that is no URL
	if err != nil {
		return r, ctx.Err()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, size))
	if err != nil && ctx.Err() != nil {
		return r, ctx.Err()
	}
	return response{
		status: answer.StatusCode, location: answer.Header.Get("Location"), body: string(body),
		wait: max(time.Second, min(outbound.RetryAfter(answer, c.Store.Now(), time.Second), maxRetryAfter)),
	}, nil
}

func encode(p *progress) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // JSON knows all types of progress
	}
	return string(text)
}

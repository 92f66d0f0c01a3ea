// Package bench measures, each thing beside its baseline in the same run: quote the ratio, since machines differ
// and are shared.
package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/redirect"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/workspace"
)

// bundle is what a benchmark works with: a store of links, a member of a workspace, and a redirect handler.
type bundle struct {
	db        *db.DB
	links     *link.Store
	member    workspace.Membership
	accountID string
	redirects http.Handler
}

// each runs the benchmark on either database; PostgreSQL goes with the Redis server.
func each(b *testing.B, run func(b *testing.B, w *bundle)) {
	b.Run("sqlite", func(b *testing.B) { run(b, setup(b, dbtest.SQLite(b), "")) })
	b.Run("postgres", func(b *testing.B) { run(b, setup(b, dbtest.Postgres(b), dbtest.ServerURL(b, dbtest.RedisURL))) })
}

func setup(b *testing.B, d *db.DB, redisURL string) *bundle {
	b.Helper()
	dbtest.Migrated(b, d)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	clickLog, k := clicktest.OpenLog(b, time.Now), dbtest.Redis(b, redisURL)
	quotas := hitquota.New(hitquota.Config{
		ClickLog: clickLog, Clicks: &click.Store{DB: d, Now: time.Now}, KV: k, DB: d, Fallback: true, Log: log, Now: time.Now,
	})
	clicks := clicktest.WithLeases(d, clickLog, quotas)
	links, err := link.NewStore(link.Config{DB: d, Clicks: clicks, PublicURL: "http://sho.rt", CodeSecrets: [][]byte{[]byte("a secret")}, LinkQuota: 1 << 40, Domains: &domain.Store{DB: d}, Log: log, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	w := &bundle{db: d, links: links, accountID: id.New(id.Account)}
	ctx, now := b.Context(), db.Instant(time.Now())
	a := account.Account{ID: w.accountID, Email: "ada@example.com", Name: "Ada", CreatedAt: now, UpdatedAt: now}
	if _, err := d.NewInsert().Model(&a).Exec(ctx); err != nil {
		b.Fatal(err)
	}
	workspaces := workspace.Store{DB: d, Now: time.Now}
	if w.member, err = workspaces.Create(ctx, account.Actor{AccountID: w.accountID}, "Ada", "ada"); err != nil {
		b.Fatal(err)
	}
	clicktest.Run(b, clicks.Recorder, quotas)
	if err := links.CatchUp(ctx); err != nil {
		b.Fatal(err)
	}
	keys := &click.Keys{DB: d, Log: log, Now: time.Now}
	if err := keys.Fetch(ctx); err != nil {
		b.Fatal(err)
	}
	handler := &redirect.Handler{
		Links: links, Quotas: quotas, HitQuota: 1 << 40, Clicks: clicks.Recorder,
		Visits: visitor.NewReader(nil), Keys: keys, Orphans: &click.Orphans{DB: d, Log: log, Now: time.Now}, Log: log, Now: time.Now,
	}
	w.redirects = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := redirect.AddressOf(r.URL.Path)
		handler.Serve(w, r, at)
	})
	return w
}

func (w *bundle) create(b *testing.B, url string) *link.Link {
	l, _, err := w.links.Create(b.Context(), w.member, link.New{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkCreateLink creates new links, and asks for one that is there, beside inserting the bare row.
func BenchmarkCreateLink(b *testing.B) {
	each(b, func(b *testing.B, w *bundle) {
		var n atomic.Int64
		b.Run("baseline=insert", func(b *testing.B) {
			model := *w.create(b, "https://example.com/baseline")
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					one := rowOf(model, fmt.Sprintf("https://example.com/row/%d", n.Add(1)))
					if _, err := w.db.NewInsert().Model(&one).Exec(db.AsSystem(b.Context())); err != nil {
						b.Error(err)
					}
				}
			})
		})
		b.Run("new", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					w.create(b, fmt.Sprintf("https://example.com/%d", n.Add(1)))
				}
			})
		})
		b.Run("existing", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					w.create(b, "https://example.com/baseline")
				}
			})
		})
	})
}

// BenchmarkCreateLinks creates a thousand new links a call, and asks for them again, beside one statement that inserts
// as many rows of the same content. They take turns, so that a noisy machine and growing indexes are the same for
// all. An operation is a turn; the figures are medians for one link, and the baseline's divided by each of them.
func BenchmarkCreateLinks(b *testing.B) {
	each(b, func(b *testing.B, w *bundle) {
		model, n := *w.create(b, "https://example.com/baseline"), 0
		var took struct{ insert, created, existing, single []float64 }
		for b.Loop() {
			rows := make([]row, link.MaxBatch)
			for i := range rows {
				rows[i] = rowOf(model, fmt.Sprintf("https://example.com/rows/%d", n+i))
			}
			measure(&took.insert, link.MaxBatch, func() {
				if err := w.insert(db.AsSystem(b.Context()), rows); err != nil {
					b.Fatal(err)
				}
			})
			measure(&took.created, link.MaxBatch, func() { w.createMany(b, "https://example.com/links/%d", n) })
			measure(&took.existing, link.MaxBatch, func() { w.createMany(b, "https://example.com/links/%d", n) })
			measure(&took.single, 1, func() { w.create(b, fmt.Sprintf("https://example.com/single/%d", n)) })
			n += link.MaxBatch
		}
		base := median(took.insert)
		for name, figures := range map[string][]float64{"new": took.created, "existing": took.existing, "single": took.single} {
			b.ReportMetric(median(figures), name+"-µs/link")
			b.ReportMetric(base/median(figures), name+"-ratio")
		}
		b.ReportMetric(base, "insert-µs/link")
	})
}

// measure adds what one of n links took, in microseconds.
func measure(figures *[]float64, n int, do func()) {
	began := time.Now()
	do()
	*figures = append(*figures, float64(time.Since(began).Microseconds())/float64(n))
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// createMany creates MaxBatch links to numbered URLs.
func (w *bundle) createMany(b *testing.B, format string, from int) {
	in := make([]*link.New, link.MaxBatch)
	for i := range in {
		in[i] = &link.New{URL: fmt.Sprintf(format, from+i)}
	}
	if _, err := w.links.CreateMany(b.Context(), w.member, link.Batch{Links: in}); err != nil {
		b.Fatal(err)
	}
}

// row is a link with the columns that a Link does not show.
type row struct {
	link.Link `bun:",extend"`

	TitleKey, Search string
}

// rowOf is another row of the same shape.
func rowOf(model link.Link, url string) row {
	r := row{Link: model}
	hash := sha256.Sum256([]byte(url))
	r.ID, r.OriginalURL, r.CanonicalURL, r.CanonicalHash = id.New(id.Link), url, url, hash[:]
	r.Code = hex.EncodeToString(hash[:5])
	r.RootCode = &r.Code
	r.Search = "\n\n" + url + "\n" + r.Code
	return r
}

// insert inserts rows as plainly as the database can: PostgreSQL reads arrays, SQLite a list.
func (w *bundle) insert(ctx context.Context, rows []row) error {
	if w.db.Kind == db.SQLite {
		_, err := w.db.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
		return err
	}
	var ids, codes, urls, searches []string
	var hashes [][]byte
	for _, r := range rows {
		ids, codes, urls = append(ids, r.ID), append(codes, r.Code), append(urls, r.OriginalURL)
		searches, hashes = append(searches, r.Search), append(hashes, r.CanonicalHash)
	}
	_, err := w.db.DB.DB.ExecContext(ctx, `INSERT INTO links (id, code, root_code, original_url, canonical_url, search, canonical_hash,
			workspace_id, strategy, redirect_status, created_by, created_at, updated_at, check_at)
		SELECT id, code, code, url, url, search, hash, $6, 'DETERMINISTIC', 302, $7, $8, $8, $8
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) AS u (id, code, url, search, hash)
		ON CONFLICT DO NOTHING`,
		ids, codes, urls, searches, hashes, rows[0].WorkspaceID, *rows[0].CreatedBy, rows[0].CreatedAt)
	return err
}

// BenchmarkRedirect follows a link with everything on, beside a handler that answers a constant redirect. Both go
// without a network: what is compared is the work of the handler.
func BenchmarkRedirect(b *testing.B) {
	visit := func(b *testing.B, h http.Handler, path string) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				if answer.Code != http.StatusFound {
					b.Errorf("answered %d", answer.Code)
				}
			}
		})
	}
	b.Run("baseline=constant", func(b *testing.B) {
		visit(b, http.RedirectHandler("https://example.com/", http.StatusFound), "/abc")
	})
	each(b, func(b *testing.B, w *bundle) {
		visit(b, w.redirects, "/"+w.create(b, "https://example.com/").Code)
	})
}

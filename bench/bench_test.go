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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/redirect"
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
	links, err := link.NewStore(link.Config{DB: d, PublicURL: "http://sho.rt", LinkQuota: 1 << 40, Log: log, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	recorder := click.NewRecorder(d, log)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := recorder.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	w := &bundle{db: d, links: links, accountID: id.New(id.Account)}
	now := db.Instant(time.Now())
	a := account.Account{ID: w.accountID, Email: "ada@example.com", Name: "Ada", CreatedAt: now, UpdatedAt: now}
	if _, err := d.NewInsert().Model(&a).Exec(ctx); err != nil {
		b.Fatal(err)
	}
	workspaces := workspace.Store{DB: d, Now: time.Now}
	if w.member, err = workspaces.Create(ctx, account.Actor{AccountID: w.accountID}, "Ada", "ada"); err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{code}", &redirect.Handler{
		Links: links, Hits: quota.Hits{KV: dbtest.Redis(b, redisURL)}, HitQuota: 1 << 40, Clicks: recorder,
		Counts: &click.Store{DB: d, Now: time.Now}, Log: log, Now: time.Now,
	})
	w.redirects = mux
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
					row, i := model, n.Add(1)
					row.ID, row.Code, row.RootCode = id.New(id.Link), fmt.Sprintf("row%d", i), nil
					row.CanonicalHash = fmt.Appendf(nil, "%032d", i)
					if _, err := w.db.NewInsert().Model(&row).Exec(b.Context()); err != nil {
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

// BenchmarkCreateLinks creates a thousand new links a call, beside one statement that inserts as many bare rows.
// An operation is one link.
func BenchmarkCreateLinks(b *testing.B) {
	each(b, func(b *testing.B, w *bundle) {
		n := 0
		b.Run("baseline=insert", func(b *testing.B) {
			model := *w.create(b, "https://example.com/baseline")
			for done := 0; done < b.N; done += link.MaxBatch {
				rows := make([]link.Link, link.MaxBatch)
				for i := range rows {
					n++
					rows[i] = model
					rows[i].OriginalURL = fmt.Sprintf("https://example.com/rows/%d", n)
					rows[i].CanonicalURL = rows[i].OriginalURL
					hash := sha256.Sum256([]byte(rows[i].CanonicalURL))
					rows[i].ID, rows[i].CanonicalHash = id.New(id.Link), hash[:]
					rows[i].Code = hex.EncodeToString(hash[:5])
					rows[i].RootCode = &rows[i].Code
				}
				if _, err := w.db.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("new", func(b *testing.B) {
			for done := 0; done < b.N; done += link.MaxBatch {
				in := make([]*link.New, link.MaxBatch)
				for i := range in {
					n++
					in[i] = &link.New{URL: fmt.Sprintf("https://example.com/links/%d", n)}
				}
				if _, err := w.links.CreateMany(b.Context(), w.member, link.Batch{Links: in}); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
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

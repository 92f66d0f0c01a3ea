package creation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/codecounter"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func (b *bundle) createMany(t *testing.T, policy link.Policy, in ...*Input) []link.Result {
	t.Helper()
	results := must.Value(b.CreateMany(t.Context(), b.Mine, Batch{Links: in, OnError: policy}))(t)
	return results
}

func TestStore_CreateManyReturnsResultsInOrder(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		there, _ := b.create(t, Input{URL: "https://example.com/there"})
		promo, other := "promo", "other"
		in := []*Input{
			{URL: "https://example.com/a"},
			{URL: "https://EXAMPLE.com/a/"}, // the same
			{URL: "https://example.com/there"},
			{URL: "ftp://example.com/"},
			{URL: "https://example.com/a", CustomCode: &promo},
			{URL: "https://example.com/a", CustomCode: &promo}, // the same
			{URL: "https://example.com/b", CustomCode: &promo}, // another URL
			{URL: "https://example.com/b", CustomCode: &other},
			{URL: "https://example.com/a", Strategy: new(link.Counter)},
			{URL: "https://example.com/a", Strategy: new(link.Random)},
		}
		results := b.createMany(t, link.SkipFailed, in...)
		want := []string{"created", "there", "there", "INVALID_URL", "created", "there", "CODE_TAKEN", "created",
			"created",
			"created"}
		linktest.Equal(t, want, outcomes(results), "difference")
		if results[0].Link.ID != results[1].Link.ID || results[2].Link.ID != there.ID ||
			results[4].Link.ID != results[5].Link.ID {
			t.Error("what is the same has not the same link")
		}
		for _, i := range []int{8, 9} {
			if l := results[i].Link; len(l.Code) != shortcode.CounterLength || b.ShortURL(l) != "http://sho.rt/"+
				l.Code {
				t.Errorf("%s link at %s", l.Strategy, b.ShortURL(l))
			}
		}
		if got := b.Used(t); got != 6 {
			t.Errorf("%d links used, want 6", got)
		}
		again := outcomes(b.createMany(t, link.SkipFailed, in[:8]...))
		linktest.Equal(t, []string{"there", "there", "there", "INVALID_URL", "there", "there", "CODE_TAKEN", "there"},
			again, "again")
		if got := b.Used(t); got != 6 {
			t.Errorf("%d links used after the same again, want 6", got)
		}
	})
}

// linkInserts records whether links were inserted.
type linkInserts struct{ any bool }

func (i *linkInserts) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (i *linkInserts) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	i.any = i.any || strings.Contains(event.Query, `INSERT INTO "links"`)
}

// TestStore_FailingBatchesWriteNothing: a batch that fails as a whole because of a taken code or
// the quota inserts no links that are rolled back.
func TestStore_FailingBatchesWriteNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var written linkInserts
		b := setup(t, &db.DB{DB: d.WithQueryHook(&written), Kind: d.Kind})
		b.Quota.Default = 5
		promo := "promo"
		b.create(t, Input{URL: "https://example.com/there", CustomCode: &promo})
		if !written.any {
			t.Fatal("the creation of a link is not seen")
		}
		for name, batch := range map[string][]*Input{
			"a taken code": append(urls(0, 2), &Input{URL: "https://example.com/b", CustomCode: &promo}),
			"the quota":    urls(0, 5),
		} {
			for _, key := range []*string{nil, &name} {
				written.any = false
				results, err := b.CreateMany(t.Context(), b.Mine,
					Batch{Links: batch, OnError: link.AllOrNothing, IdempotencyKey: key})
				if err != nil || written.any ||
					slices.ContainsFunc(results, func(r link.Result) bool { return r.Err == nil }) {
					t.Errorf("%s: %v, inserted: %t, error: %v", name, outcomes(results), written.any, err)
				}
			}
		}
	})
}

func TestStore_CreateManyAllOrNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 5
		promo := "promo"
		b.create(t, Input{URL: "https://example.com/there", CustomCode: &promo})
		for name, bad := range map[string]*Input{
			"invalid": {URL: "nothing"},
			"taken":   {URL: "https://example.com/b", CustomCode: &promo},
		} {
			got := outcomes(b.createMany(t, link.AllOrNothing, &Input{URL: "https://example.com/a"}, bad))
			if got[0] != "CONFLICT" || got[1] == "CONFLICT" {
				t.Errorf("%s: %v", name, got)
			}
		}
		if got := outcomes(b.createMany(t, link.AllOrNothing, urls(0, 5)...)); !slices.Contains(got,
			"QUOTA_EXCEEDED") ||
			slices.Contains(got, "created") {
			t.Errorf("beyond the quota: %v", got)
		}
		n, err := b.DB.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context()))
		if err != nil || n != 1 || b.Used(t) != 1 {
			t.Errorf("%d links, %d used, want the one that was there: %v", n, b.Used(t), err)
		}
		if got := outcomes(b.createMany(t, link.AllOrNothing, urls(0, 4)...)); slices.ContainsFunc(got,
			func(s string) bool { return s != "created" }) {
			t.Errorf("within the quota: %v", got)
		}
	})
}

// TestStore_CreateManyUsesTheRemainingQuota lets batches that overlap race for fewer links than
// they want.
func TestStore_CreateManyUsesTheRemainingQuota(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 60
		var mu sync.Mutex
		said := map[string]int{}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				// 80 in all, most of them twice
				results, err := b.CreateMany(t.Context(), b.Mine, Batch{Links: urls(i*10, i*10+30)})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, one := range outcomes(results) {
					said[one]++
				}
			})
		}
		all.Wait()
		n, err := b.DB.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context()))
		if err != nil || n != 60 || said["created"] != 60 || b.Used(t) != 60 {
			t.Errorf("%d links, %v, %d used, want 60 created: %v", n, said, b.Used(t), err)
		}
		if got := outcomes(b.createMany(t, link.SkipFailed, urls(0, 80)...)); slices.Contains(got, "created") {
			t.Errorf("beyond the quota: %v", got)
		}
	})
}

// TestStore_CreateManyOnTwoNodesIssuesDistinctCounters has two stores create at once, as two nodes
// would: no code comes twice, also when a node is replaced and its block is lost.
func TestStore_CreateManyOnTwoNodesIssuesDistinctCounters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 10_000
		var mu sync.Mutex
		codes := map[string]bool{}
		for range 2 {
			var all sync.WaitGroup
			for range 2 {
				node := NewStore(b.config)
				all.Go(func() {
					for range 3 {
						in := urls(0, 500)
						for _, one := range in {
							one.Strategy = new(link.Counter)
						}
						results, err := node.CreateMany(t.Context(), b.Mine, Batch{Links: in})
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						for _, r := range results {
							codes[r.Link.Code] = true
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
		}
		if len(codes) != 6000 {
			t.Errorf("%d codes, want 6000", len(codes))
		}
		var next int64
		if err := b.DB.NewRaw("SELECT next FROM counters WHERE name = 'code'").Scan(t.Context(), &next); err != nil ||
			next > 6000+4*codecounter.BlockSize {
			t.Errorf("%d counters handed out for 6000 links and 4 nodes: %v", next, err)
		}
	})
}

// TestStore_CreateSkipsTakenCounters gives the next counter's code away beforehand.
func TestStore_CreateSkipsTakenCounters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		taken, _ := b.create(t, Input{URL: "https://example.com/taken"})
		for counter := range uint64(2) {
			code := shortcode.NewPermutation(b.config.CodeSecrets[0]).Code(counter)
			other := *taken
			other.ID, other.Code, other.RootCode, other.Strategy = fmt.Sprint(counter), code, &code, link.Random
			must.Value(b.DB.NewInsert().Model(&other).Exec(db.AsSystem(t.Context())))(t)
		}
		l, created := b.create(t, Input{URL: "https://example.com/", Strategy: new(link.Counter)})
		if want := shortcode.NewPermutation(b.config.CodeSecrets[0]).Code(2); !created || l.Code != want {
			t.Errorf("created %t, code %s, want %s", created, l.Code, want)
		}
		if got := b.Used(t); got != 2 {
			t.Errorf("%d links used, want 2", got)
		}
	})
}

func TestStore_CreateManyLimitsTheBatch(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	for _, n := range []int{0, link.MaxBatch + 1} {
		linktest.Refused(b.CreateMany(t.Context(), b.Mine, Batch{Links: urls(0, n)}))(t, errs.InvalidInput, "%d links",
			n)
	}
}

// TestStore_CreateManyReturnsExistingLinks: three calls of a thousand links, and the same again,
// which make nothing and take no quota.
func TestStore_CreateManyReturnsExistingLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 3 * link.MaxBatch
		for _, want := range []string{"created", "there"} {
			for call := range 3 {
				for i, said := range outcomes(b.createMany(t, link.SkipFailed,
					urls(call*link.MaxBatch, (call+1)*link.MaxBatch)...)) {
					if said != want {
						t.Fatalf("row %d of call %d: %s, want %s", i, call, said, want)
					}
				}
			}
			if got := b.Used(t); got != b.Quota.Default {
				t.Errorf("%d links used, want %d", got, b.Quota.Default)
			}
		}
	})
}

// TestStore_CreateManyRetriesAfterRollback: the first attempt is rolled back and repeated.
func TestStore_CreateManyRetriesAfterRollback(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other, _ := b.create(t, Input{URL: "https://example.com/taken"})
		code := shortcode.NewPermutation(b.config.CodeSecrets[0]).Code(0)
		taken := *other
		taken.ID, taken.Code, taken.RootCode, taken.Strategy = id.New(id.Link), code, &code, link.Random
		must.Value(b.DB.NewInsert().Model(&taken).Exec(db.AsSystem(t.Context())))(t)
		for _, r := range b.createMany(t, link.SkipFailed, &Input{URL: "https://example.com/a"},
			counted("https://example.com/b")) {
			if _, err := b.Get(t.Context(), b.Mine, r.Link.ID); err != nil || !r.Created {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if got := b.Used(t); got != 3 {
			t.Errorf("%d links used, want 3", got)
		}
	})
}

// TestStore_CreateManyFindsTakenCodesInOneStatement: however many codes are taken, and however
// little quota is left, they are found in one round.
func TestStore_CreateManyFindsTakenCodesInOneStatement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var statements dbtest.Counter
		b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
		var in, others []*Input
		for i := range 50 {
			code := fmt.Sprintf("code-%d", i)
			in = append(in, &Input{URL: fmt.Sprintf("https://example.com/%d", i), CustomCode: &code})
			others = append(others, &Input{URL: fmt.Sprintf("https://example.com/other/%d", i), CustomCode: &code})
		}
		b.createMany(t, link.SkipFailed, in...)
		b.Quota.Default = 51
		before := statements.Load()
		for i, said := range outcomes(b.createMany(t, link.SkipFailed, others...)) {
			if said != "CODE_TAKEN" {
				t.Errorf("row %d: %s", i, said)
			}
		}
		if n := statements.Load() - before; n > 10 {
			t.Errorf("%d statements", n)
		}
	})
}

// TestBatch_LooksUpEachKeyByIndex by who makes others, although most workspaces are so small that
// it were as well to read all their links: the statement is planned once, for the large ones too.
func TestBatch_LooksUpEachKeyByIndex(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const small = "WITH RECURSIVE small (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM small WHERE n < 2000) "
		hash := map[db.Kind]string{db.SQLite: "X'00'", db.Postgres: `'\x00'`}[b.DB.Kind]
		for _, statement := range []string{
			"INSERT INTO workspaces (id, slug, name, created_at, updated_at) " + small +
				"SELECT 'ws_' || n, 'small-' || n, 'Small', ?0, ?0 FROM small",
			"INSERT INTO links (id, workspace_id, code, strategy, original_url, canonical_url, canonical_hash, " +
				"redirect_status, created_at, updated_at) " +
				small + "SELECT 'lnk_' || n, 'ws_' || n, 'code', 'DETERMINISTIC', '', '', " + hash +
				", 302, ?0, ?0 FROM small",
		} {
			must.Value(b.DB.NewRaw(statement, bun.Safe("'2026-01-01 00:00:00+00:00'")).
				Exec(db.AsSystem(t.Context())))(t)
		}
		dbtest.Analyze(t, b.DB)
		defer func(d *db.DB) { b.DB = d }(b.DB)
		plans := dbtest.Plans(t, b.DB, func(watched *db.DB) {
			b.DB = watched
			member := b.Mine
			hashes, codes := wanted[[]byte]{}, wanted[string]{}
			for i := range 3 {
				hashes.add(member.ID(), []byte{byte(i)})
				codes.add(member.ID(), fmt.Sprintf("new-%d", i))
			}
			for _, ctx := range []context.Context{db.InWorkspace(t.Context(), member.ID(), ""),
				db.AsCreator(t.Context(), member.ID())} {
				batch := b.newBatch()
				must.NoError(t, lookUp(batch, watched, new([]*link.Link), "strategy = 'DETERMINISTIC'",
					"canonical_hash", "BYTEA", hashes).Run(ctx))
				must.NoError(t, lookUp(batch, watched, new([]*link.Link), "TRUE", "code", "TEXT", codes).Run(ctx))
			}
		})
		for _, column := range []string{"canonical_hash", "code"} {
			whole := regexp.MustCompile(`(Index Cond|USING INDEX).*workspace_id *=.* AND \(?` + column + ` *=`)
			if n := len(slices.DeleteFunc(slices.Clone(plans),
				func(p string) bool { return !whole.MatchString(p) })); n != 2 {
				t.Errorf("in %d of 2 scopes, links are looked up by its workspace and its %s:\n%s", n, column,
					strings.Join(plans, "\n--\n"))
			}
		}
	})
}

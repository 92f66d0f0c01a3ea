package creation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
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
		wanttest.Equal(t, want, outcomes(results), "difference")
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
		b.ExpectUsed(t, 6)
		again := outcomes(b.createMany(t, link.SkipFailed, in[:8]...))
		wanttest.Equal(t, []string{"there", "there", "there", "INVALID_URL", "there", "there", "CODE_TAKEN", "there"},
			again, "again")
		b.ExpectUsed(t, 6)
	})
}

// linkInserts records whether links were inserted.
type linkInserts struct{ any bool }

func (i *linkInserts) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (i *linkInserts) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	i.any = i.any || strings.Contains(event.Query, `INSERT INTO "links"`)
}

// TestStore_FailingBatchesWriteNothing: a batch that fails as a whole inserts no links, also none
// that are rolled back.
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
			"INVALID_URL":    append(urls(0, 2), &Input{URL: "nothing"}),
			"CODE_TAKEN":     append(urls(0, 2), &Input{URL: "https://example.com/b", CustomCode: &promo}),
			"QUOTA_EXCEEDED": urls(0, 5),
		} {
			for _, key := range []*string{nil, &name} {
				written.any = false
				results, err := b.CreateMany(t.Context(), b.Mine,
					Batch{Links: batch, OnError: link.AllOrNothing, IdempotencyKey: key})
				want := slices.Repeat([]string{"CONFLICT"}, len(batch))
				if want[len(want)-1] = name; name == "QUOTA_EXCEEDED" {
					want = slices.Repeat([]string{name}, len(batch))
				}
				if got := outcomes(results); err != nil || written.any || !slices.Equal(got, want) {
					t.Errorf("%v, want %v, inserted: %t, error: %v", got, want, written.any, err)
				}
			}
		}
		if got := outcomes(b.createMany(t, link.AllOrNothing, urls(0, 4)...)); slices.Contains(got, "CONFLICT") {
			t.Errorf("within the quota: %v", got)
		}
		b.ExpectUsed(t, 5)
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

// TestStore_CreateManyRetriesAfterRollback: the codes of the next counters are taken, so the first
// attempts are rolled back and repeated.
func TestStore_CreateManyRetriesAfterRollback(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other, _ := b.create(t, Input{URL: "https://example.com/taken"})
		codes := shortcode.NewPermutation(b.config.CodeSecrets[0])
		for counter := range uint64(2) {
			taken, code := *other, codes.Code(counter)
			taken.ID, taken.Code, taken.RootCode, taken.Strategy = id.New(id.Link), code, &code, link.Random
			must.Value(b.DB.NewInsert().Model(&taken).Exec(db.AsSystem(t.Context())))(t)
		}
		results := b.createMany(t, link.SkipFailed, &Input{URL: "https://example.com/a"},
			counted("https://example.com/b"))
		for _, r := range results {
			if _, err := b.Get(t.Context(), b.Mine, r.Link.ID); err != nil || !r.Created {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if got, want := results[1].Link.Code, codes.Code(2); got != want {
			t.Errorf("the code %s, want %s", got, want)
		}
		b.ExpectUsed(t, 3)
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

func TestStore_CreateReturnsOnlyTheLinkWithTheExternalID(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const url = "https://example.com/a"
		plain, _ := b.create(t, Input{URL: "https://example.com/plain"})
		own, _ := b.create(t, Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("A-1")),
			Metadata: to(pairs("k", "v"))}})
		for name, c := range map[string]struct {
			in    Input
			there *link.Link
			want  string
		}{
			"the same": {in: Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("A-1")),
				Title: to(new("other"))}}, there: own},
			"none": {in: Input{URL: url}, there: own},
			"another": {in: Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("A-9"))}},
				want: "CONFLICT"},
			"in other letters": {in: Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("a-1"))}},
				want: "CONFLICT"},
			"with a space": {in: Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("A-1 "))}},
				want: "CONFLICT"},
			"of a link without": {in: Input{URL: "https://example.com/plain",
				Fields: linkfield.Change{ExternalID: to(new("A-9"))}},
				want: "CONFLICT"},
			"taken": {in: Input{URL: "https://example.com/new", Fields: linkfield.Change{ExternalID: to(new("A-1"))}},
				want: "EXTERNAL_ID_TAKEN"},
		} {
			t.Run(name, func(t *testing.T) {
				l, created, err := b.Create(t.Context(), b.Mine, c.in)
				if kindOf(err) != c.want || created {
					t.Errorf("created %t, %v", created, err)
				}
				if c.want == "CONFLICT" && !strings.Contains(err.Error(), "upsertLink") {
					t.Error("the error does not name upsertLink:", err)
				}
				if c.there != nil && (l.ID != c.there.ID || l.Title != nil) {
					t.Errorf("%+v, want %s", l, c.there.ID)
				}
			})
		}
		l, _, err := b.Create(t.Context(), b.Foreign, Input{URL: url,
			Fields: linkfield.Change{ExternalID: to(new("A-1"))}})
		if err != nil || l.ID == own.ID {
			t.Errorf("in another workspace: %v", err)
		}
		if l, err := b.Get(t.Context(), b.Mine, plain.ID); err != nil || l.ExternalID != nil || l.Version != 1 {
			t.Errorf("a refused creation has changed %+v: %v", l, err)
		}
	})
}

func TestStore_CreateManyComparesExternalIDsInTheBatch(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		url := "https://example.com/a"
		results := b.createMany(t, link.SkipFailed,
			&Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("1"))}},
			&Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("1"))}},
			&Input{URL: url},
			&Input{URL: url, Fields: linkfield.Change{ExternalID: to(new("2"))}},
			&Input{URL: "https://example.com/b", Fields: linkfield.Change{ExternalID: to(new("1"))}},
			&Input{URL: url, Strategy: new(link.Random), Fields: linkfield.Change{ExternalID: to(new("3"))}},
			&Input{URL: url, Strategy: new(link.Random), Fields: linkfield.Change{ExternalID: to(new("3"))}},
		)
		want := []string{"created", "there", "there", "CONFLICT", "EXTERNAL_ID_TAKEN", "created", "EXTERNAL_ID_TAKEN"}
		wanttest.Equal(t, want, outcomes(results), "difference")
	})
}

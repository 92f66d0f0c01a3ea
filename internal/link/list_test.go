package link

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// orders are all there are.
var orders = []*Order{
	nil,
	{Field: ByCreation, Direction: Ascending},
	{Field: ByClicks},
	{Field: ByClicks, Direction: Ascending},
	{Field: ByTitle},
	{Field: ByTitle, Direction: Descending},
}

// sample is a link as a test has put it into the database, with what other tables know of it.
type sample struct {
	*Link
	clicks int64
}

// total is how often a link was clicked.
type total struct {
	bun.BaseModel `bun:"table:click_totals"`

	SubjectID   string `bun:",pk"`
	WorkspaceID string
	Clicks      int64
	LatencyMean float64
	LatencyM2   float64
}

// put writes samples past all rules.
func put(t *testing.T, d *db.DB, samples []sample) {
	t.Helper()
	for chunk := range slices.Chunk(samples, 1000) {
		var links []*record
		var tags []tag
		var totals []total
		for _, s := range chunk {
			links = append(links, recordOf(s.Link))
			for _, name := range s.tags {
				tags = append(tags, tag{WorkspaceID: s.WorkspaceID, Tag: name, LinkID: s.ID})
			}
			if s.clicks >= 0 {
				totals = append(totals, total{SubjectID: s.ID, WorkspaceID: s.WorkspaceID, Clicks: s.clicks})
			}
		}
		err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			// What comes back would be written through pointers that samples share.
			if _, err := tx.NewInsert().Model(&links).Returning("NULL").Exec(ctx); err != nil {
				return err
			}
			if len(totals) > 0 {
				if _, err := tx.NewInsert().Model(&totals).Returning("NULL").Exec(ctx); err != nil {
					return err
				}
			}
			return insertTags(ctx, tx, tags)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// plain is the i-th of links in which nothing is special, never clicked.
func plain(m workspace.Membership, i int) sample {
	hash := sha256.Sum256(fmt.Append(nil, i))
	url := fmt.Sprintf("https://example.com/%d", i)
	return sample{clicks: -1, Link: &Link{
		ID: id.New(id.Link), WorkspaceID: m.ID(), Code: fmt.Sprintf("c%d", i), Strategy: Random, OriginalURL: url, CanonicalURL: url,
		CanonicalHash: hash[:], RedirectStatus: 302, CreatedAt: noon, UpdatedAt: noon,
	}}
}

// vocabulary has words that are parts of each other, that differ in case, and that mean something somewhere.
var vocabulary = []string{
	"a", "ab", "abc", "Abcd", "ABCDE", "ÜBER", "über", "Straße", "ΣΊΣΥΦΟΣ", "日本", "日本語", "漢", "👩‍🚀", "🚀🚀🚀", "100%", "%", "_", "a_c",
	`\`, `a\b`, `\%`, `"`, `"quoted"`, `say"so`, "'", "it's", "*", "abc*", "AND", "OR", "NOT", "NEAR(", "NEAR(a b)", "-", "--", "a-b", ":", "search:", "^abc", `abc\`, "abc%d", "abc_d", "abc?d",
	"+", "(", ")", "{a}", ";", "?", "?0", "$1", "??", "http", "example.com", "https://", "c1", "/2",
}

// mixed are links in which everything is special now and then.
func mixed(r *rand.Rand, m workspace.Membership, n int) (samples []sample) {
	instants := []time.Time{noon.Add(-48 * time.Hour), noon.Add(-time.Hour), noon, noon.Add(time.Microsecond), noon.Add(time.Hour)}
	words := func() *string {
		var some []string
		for range r.IntN(4) {
			some = append(some, vocabulary[r.IntN(len(vocabulary))])
		}
		return orNil(strings.Join(some, " "))
	}
	rarely := func() *time.Time {
		if r.IntN(6) > 0 {
			return nil
		}
		return &instants[r.IntN(len(instants))]
	}
	for i := range n {
		s := plain(m, i)
		s.Strategy = []Strategy{Deterministic, Counter, Random, Custom}[r.IntN(4)]
		s.CreatedAt = instants[r.IntN(len(instants))]
		s.Title, s.Note = words(), words()
		s.StartsAt, s.ExpiresAt, s.ArchivedAt, s.DeletedAt, s.DisabledAt, s.PurgedAt = rarely(), rarely(), rarely(), rarely(), rarely(), rarely()
		if r.IntN(4) == 0 {
			s.MaxClicks, s.Granted = new(int64(2)), r.Int64N(4)
		}
		s.clicks = r.Int64N(8) - 3 // never, in two of eight even without a row of zero
		for _, name := range []string{"all", "half", "rare"} {
			if name == "all" || r.IntN(2) == 0 && (name == "half" || r.IntN(20) == 0) {
				s.tags = append(s.tags, name)
			}
		}
		samples = append(samples, s)
	}
	r.Shuffle(len(samples), func(i, j int) { samples[i].ID, samples[j].ID = samples[j].ID, samples[i].ID })
	return samples
}

// lets says by itself whether the filter lets the link through.
func (f *Filter) lets(s sample) bool {
	status := s.Status(noon)
	if s.PurgedAt != nil || len(f.Status) == 0 && status == Deleted || len(f.Status) > 0 && !slices.Contains(f.Status, status) {
		return false
	}
	for word := range strings.FieldsSeq(strings.ToLower(deref(f.Search))) {
		texts := []string{deref(s.Title), deref(s.Note), s.OriginalURL, s.Code}
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), word) }) {
			return false
		}
	}
	has := 0
	for _, tag := range f.Tags {
		if slices.Contains(s.tags, tag) {
			has++
		}
	}
	switch {
	case len(f.Tags) > 0 && has == 0, f.TagMatch == AllTags && has < len(f.Tags):
		return false
	case len(f.Strategy) > 0 && !slices.Contains(f.Strategy, s.Strategy):
		return false
	case f.Archived != nil && *f.Archived != (s.ArchivedAt != nil):
		return false
	case f.CreatedFrom != nil && s.CreatedAt.Before(*f.CreatedFrom), f.CreatedTo != nil && !s.CreatedAt.Before(*f.CreatedTo):
		return false
	}
	return true
}

// naive is what a list is to have, by itself.
func naive(samples []sample, f *Filter, o *Order) (ids []string) {
	var let []sample
	for _, s := range samples {
		if f.lets(s) {
			let = append(let, s)
		}
	}
	if o == nil {
		o = &Order{}
	}
	slices.SortFunc(let, func(a, b sample) int {
		byID := strings.Compare(a.ID, b.ID)
		switch o.Field {
		case ByClicks:
			return cmp.Or(cmp.Compare(max(0, a.clicks), max(0, b.clicks)), byID)
		case ByTitle:
			return cmp.Or(strings.Compare(strings.ToLower(deref(a.Title)), strings.ToLower(deref(b.Title))), byID)
		}
		return byID
	})
	if o.Direction == Descending || o.Direction == "" && o.Field != ByTitle {
		slices.Reverse(let)
	}
	for _, s := range let {
		ids = append(ids, s.ID)
	}
	return ids
}

// lister lists as List does, but may take another number of links for few.
type lister struct {
	*bundle
	member workspace.Membership
	few    int
}

func (b *bundle) lister() lister { return lister{bundle: b, member: b.mine, few: few} }

func (l lister) page(t *testing.T, f *Filter, o *Order, first *int, after *string, last *int, before *string) page.Page[*Link] {
	t.Helper()
	r, err := o.Page(first, after, last, before)
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.search(db.InWorkspace(t.Context(), l.member.ID(), ""), l.member, f, l.few)
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.list(db.InWorkspace(t.Context(), n.member.ID(), ""), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func linkIDs(links []*Link) (ids []string) {
	for _, l := range links {
		ids = append(ids, l.ID)
	}
	return ids
}

// forward walks pages from the first to the last.
func (l lister) forward(t *testing.T, f *Filter, o *Order, size int) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		t.Helper()
		var after *string
		for more := true; more; {
			p := l.page(t, f, o, &size, after, nil, nil)
			if p.HasPrevious != (after != nil) {
				t.Errorf("forward after %v: previous %t", after, p.HasPrevious)
			}
			if more = p.HasNext; more {
				after = &p.Cursors[len(p.Cursors)-1]
			}
			if !yield(linkIDs(p.Items)) {
				return
			}
		}
	}
}

// backward walks pages from the last to the first.
func (l lister) backward(t *testing.T, f *Filter, o *Order, size int) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		t.Helper()
		var before *string
		for more := true; more; {
			p := l.page(t, f, o, nil, nil, &size, before)
			if p.HasNext != (before != nil) {
				t.Errorf("backward before %v: next %t", before, p.HasNext)
			}
			if more = p.HasPrevious; more {
				before = &p.Cursors[0]
			}
			if !yield(linkIDs(p.Items)) {
				return
			}
		}
	}
}

// all walks all pages, either way, and returns what they have, in the list's order.
func (l lister) all(t *testing.T, f *Filter, o *Order, size int) (ids, backwards []string) {
	t.Helper()
	for p := range l.forward(t, f, o, size) {
		ids = append(ids, p...)
	}
	for p := range l.backward(t, f, o, size) {
		backwards = append(slices.Clone(p), backwards...)
	}
	return ids, backwards
}

// check compares every page with the naive list, and the count. Of a long list the pages are larger.
func (l lister) check(t *testing.T, samples []sample, f *Filter, o *Order, size int) (n int) {
	t.Helper()
	want := naive(samples, f, o)
	size = max(size, len(want)/15)
	forward, backward := l.all(t, f, o, size)
	if diff := gocmp.Diff(want, forward); diff != "" {
		t.Errorf("%s in pages of %d forward (-want +got):\n%s", describe(f, o, l.few), size, diff)
	}
	if diff := gocmp.Diff(want, backward); diff != "" {
		t.Errorf("%s in pages of %d backward (-want +got):\n%s", describe(f, o, l.few), size, diff)
	}
	search, err := l.search(db.InWorkspace(t.Context(), l.member.ID(), ""), l.member, f, l.few)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := search.count(db.InWorkspace(t.Context(), l.member.ID(), "")); err != nil || n != int64(len(want)) {
		t.Errorf("%s: counted %d, want %d: %v", describe(f, o, l.few), n, len(want), err)
	}
	return len(want)
}

func describe(f *Filter, o *Order, few int) string {
	words := []string{fmt.Sprintf("order %+v, few are %d", o, few)}
	if f.Search != nil {
		words = append(words, fmt.Sprintf("search %q", *f.Search))
	}
	if f.Archived != nil {
		words = append(words, fmt.Sprintf("archived %t", *f.Archived))
	}
	return strings.Join(append(words, fmt.Sprintf("tags %s%q, status %v, strategy %v, created from %v to %v",
		f.TagMatch, f.Tags, f.Status, f.Strategy, f.CreatedFrom, f.CreatedTo)), ", ")
}

// TestListAgainstNaive compares lists with what Go makes of the same links, whichever way the database takes.
func TestListAgainstNaive(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const seed = 20261120
		r := rand.New(rand.NewPCG(seed, seed))
		b := setup(t, d)
		mine, foreign := mixed(r, b.mine, 300), mixed(r, b.foreign, 300)
		put(t, d, mine)
		put(t, d, foreign)
		some, none := 0, 0
		for range 80 {
			l, samples := lister{bundle: b, member: b.mine, few: []int{0, 20, few}[r.IntN(3)]}, mine
			if r.IntN(4) == 0 {
				l.member, samples = b.foreign, foreign
			}
			if l.check(t, samples, randomFilter(r), orders[r.IntN(len(orders))], 1+r.IntN(7)) > 0 {
				some++
			} else {
				none++
			}
		}
		if some < 40 || none < 4 {
			t.Errorf("%d of the lists have links and %d have none: that compares too little", some, none)
		}
	})
}

func randomFilter(r *rand.Rand) *Filter {
	f := &Filter{}
	given := func() bool { return r.IntN(4) == 0 }
	if given() || given() {
		words := vocabulary[r.IntN(len(vocabulary))]
		if given() {
			words += "  " + vocabulary[r.IntN(len(vocabulary))]
		}
		f.Search = &words
	}
	if given() || given() {
		f.TagMatch = []TagMatch{"", AnyTag, AllTags}[r.IntN(3)]
		for _, name := range []string{"half", "rare", "all", "none"} {
			if r.IntN(3) == 0 {
				f.Tags = append(f.Tags, name)
			}
		}
	}
	if given() {
		all := []Status{Scheduled, Active, Expired, Exhausted, Deleted, Disabled}
		f.Status = all[r.IntN(3) : 3+r.IntN(4)]
	}
	if given() {
		f.Strategy = []Strategy{Custom, Counter, Deterministic}[r.IntN(2):]
	}
	if given() {
		f.Archived = new(r.IntN(2) == 0)
	}
	if given() {
		f.CreatedFrom = new(noon.Add(time.Duration(r.IntN(3)-2) * time.Hour))
	}
	if given() {
		f.CreatedTo = new(noon.Add(time.Duration(r.IntN(3)-1) * time.Hour))
	}
	return f
}

func TestEachFilterAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		samples := mixed(rand.New(rand.NewPCG(1, 2)), b.mine, 200)
		put(t, d, samples)
		for name, f := range map[string]*Filter{
			"nothing":             {},
			"search":              {Search: new("abc")},
			"two words":           {Search: new("com  ABC ")},
			"a search of spaces":  {Search: new(" \t ")},
			"a tag":               {Tags: []string{"half"}},
			"any of tags":         {Tags: []string{"rare", "half", "none"}},
			"all of tags":         {Tags: []string{"rare", "half", "half"}, TagMatch: AllTags},
			"a tag of no link":    {Tags: []string{"none"}},
			"all, and one missed": {Tags: []string{"all", "none"}, TagMatch: AllTags},
			"no tags":             {Tags: []string{}, TagMatch: AllTags},
			"status":              {Status: []Status{Expired, Deleted}},
			"strategy":            {Strategy: []Strategy{Custom, Random}},
			"put away":            {Archived: new(true)},
			"not put away":        {Archived: new(false)},
			"created from":        {CreatedFrom: new(noon)},
			"created to":          {CreatedTo: new(noon)},
			"created between":     {CreatedFrom: new(noon.Add(-time.Hour)), CreatedTo: new(noon)},
			"in another zone":     {CreatedFrom: new(noon.In(time.FixedZone("", 5*60*60)))},
		} {
			for _, few := range []int{0, few} {
				l := lister{bundle: b, member: b.mine, few: few}
				if n := l.check(t, samples, f, nil, 50); (n == 0) != strings.Contains(name, "no link") && (n == 0) != strings.Contains(name, "missed") {
					t.Errorf("%s: %d links", name, n)
				}
			}
		}
	})
}

// TestStatusInSQL compares Link.Status with what the database says, in every combination of what it depends on.
func TestStatusInSQL(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ever := []*time.Time{nil, new(noon)}
		times := []*time.Time{nil, new(noon.Add(-time.Microsecond)), new(noon), new(noon.Add(time.Microsecond))}
		var samples []sample
		for _, disabled := range ever {
			for _, deleted := range ever {
				for _, starts := range times {
					for _, expires := range times {
						for _, granted := range []int64{-1, 4, 5, 6} {
							s := plain(b.mine, len(samples))
							s.DisabledAt, s.DeletedAt, s.StartsAt, s.ExpiresAt = disabled, deleted, starts, expires
							if granted >= 0 {
								s.MaxClicks, s.Granted = new(int64(5)), granted
							}
							samples = append(samples, s)
						}
					}
				}
			}
		}
		put(t, d, samples)
		for _, status := range []Status{Scheduled, Active, Expired, Exhausted, Deleted, Disabled} {
			if b.lister().check(t, samples, &Filter{Status: []Status{status}}, nil, 100) == 0 {
				t.Errorf("nothing is %s", status)
			}
		}
		b.lister().check(t, samples, &Filter{}, nil, 100)
	})
}

// TestSearchTakesTextAsItIs looks for everything that means something in LIKE, in FTS5 or in a literal.
func TestSearchTakesTextAsItIs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var samples []sample
		for i, word := range vocabulary {
			for j, title := range []string{word, "x" + word + "y", strings.ToUpper(word)} {
				s := plain(b.mine, 3*i+j)
				s.Title = &title
				samples = append(samples, s)
			}
		}
		put(t, d, samples)
		for _, word := range vocabulary {
			for _, few := range []int{0, few} {
				l := lister{bundle: b, member: b.mine, few: few}
				for _, text := range []string{strings.ToUpper(word), "x" + word} {
					if l.check(t, samples, &Filter{Search: &text}, nil, 100) == 0 {
						t.Errorf("nothing has %q", text)
					}
				}
			}
		}
	})
}

func TestRefusedFilters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		tags := func(n int) (tags []string) {
			for i := range n {
				tags = append(tags, fmt.Sprint(i))
			}
			return tags
		}
		for name, c := range map[string]struct {
			filter Filter
			at     string // empty: it is not refused
		}{
			"200 characters":       {Filter{Search: new(strings.Repeat("ü", 200))}, ""},
			"201 characters":       {Filter{Search: new(strings.Repeat("ü", 201))}, "search"},
			"10 words":             {Filter{Search: new(strings.Repeat("ab ", 10))}, ""},
			"11 words":             {Filter{Search: new(strings.Repeat("ab ", 11))}, "search"},
			"NUL":                  {Filter{Search: new("a\x00b")}, "search"},
			"not UTF-8":            {Filter{Search: new("abc\xff")}, "search"},
			"a control character":  {Filter{Search: new("a\x1bb")}, "search"},
			"a line break":         {Filter{Search: new("a\nb")}, "search"},
			"20 tags":              {Filter{Tags: tags(20)}, ""},
			"20 tags, one twice":   {Filter{Tags: append(tags(20), "7")}, ""},
			"20 tags, all of them": {Filter{Tags: tags(20), TagMatch: AllTags}, ""},
			"21 tags":              {Filter{Tags: tags(21)}, "tags"},
			"NUL in a tag":         {Filter{Tags: []string{"\x00"}}, "tags"},
			"a tag not in UTF-8":   {Filter{Tags: []string{"\xff"}}, "tags"},
			"a huge tag":           {Filter{Tags: []string{strings.Repeat("a", 1<<20)}}, "tags"},
			"SQL in a tag":         {Filter{Tags: []string{`' OR 1=1 --`, `\'`, "?"}}, ""},
		} {
			_, err := b.List(t.Context(), b.mine, &c.filter, page.Request{Size: 1})
			_, countErr := b.Count(t.Context(), b.mine, &c.filter)
			for _, err := range []error{err, countErr} {
				if c.at == "" && err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if c.at != "" && (!errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{"filter", c.at})) {
					t.Errorf("%s: at %v: %v", name, errs.From(err).Field, err)
				}
			}
		}
	})
}

func TestListIsForMembers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		if _, err := b.List(t.Context(), workspace.Membership{}, nil, page.Request{Size: 1}); !errs.Is(err, errs.Forbidden) {
			t.Errorf("nobody lists: %v", err)
		}
		if _, err := b.Count(t.Context(), workspace.Membership{}, nil); !errs.Is(err, errs.Forbidden) {
			t.Errorf("nobody counts: %v", err)
		}
	})
}

// TestCursorsBelongToTheirOrder: a cursor of one order says nothing in another.
func TestCursorsBelongToTheirOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		title, numbers := plain(b.mine, 1), plain(b.mine, 2)
		title.Title, numbers.Title = new("A title"), new("12")
		put(t, d, []sample{title, numbers})
		for _, from := range orders {
			for i, cursor := range b.lister().page(t, nil, from, nil, nil, nil, nil).Cursors {
				for _, to := range orders {
					_, after := to.Page(nil, &cursor, nil, nil)
					_, before := to.Page(nil, nil, nil, &cursor)
					for field, err := range map[string]error{"after": after, "before": before} {
						if from == to && err != nil {
							t.Errorf("cursor %d of %+v in its own: %v", i, from, err)
						}
						if from != to && (!errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{field})) {
							t.Errorf("cursor %d of %+v in %+v: at %v: %v", i, from, to, errs.From(err).Field, err)
						}
					}
				}
			}
		}
	})
}

// TestListWhileLinksAreAdded: what is there from the beginning comes once, in order, whatever comes in between.
func TestListWhileLinksAreAdded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := rand.New(rand.NewPCG(3, 4))
		b := setup(t, d)
		next := 0
		some := func(n int) (samples []sample) {
			for range n {
				s := plain(b.mine, next)
				s.Title, s.clicks = orNil(strings.Repeat("a", r.IntN(9))), r.Int64N(6)-2
				samples = append(samples, s)
				next++
			}
			return samples
		}
		put(t, d, some(20))
		for _, o := range orders {
			for name, pages := range map[string]iter.Seq[[]string]{"forward": b.lister().forward(t, nil, o, 3), "backward": b.lister().backward(t, nil, o, 3)} {
				was, _ := b.lister().all(t, nil, o, 100)
				want, seen := slices.Clone(was), map[string]bool{}
				if name == "backward" {
					slices.Reverse(want)
				}
				var got []string
				added := 0
				for ids := range pages {
					if name == "backward" {
						slices.Reverse(ids)
					}
					for _, linkID := range ids {
						if seen[linkID] {
							t.Errorf("%+v %s: %s comes twice", o, name, linkID)
						}
						seen[linkID] = true
						if slices.Contains(was, linkID) {
							got = append(got, linkID)
						}
					}
					if added++; added <= 5 { // else the end of an order in which the new come last is never reached
						put(t, d, some(3))
					}
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("%+v %s (-want +got):\n%s", o, name, diff)
				}
			}
		}
	})
}

// TestForeignLinksAreNotFound: not even those that are the same but for their workspace.
func TestForeignLinksAreNotFound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var samples []sample
		for _, m := range []workspace.Membership{b.mine, b.foreign} {
			for i := range 5 {
				s := plain(m, i)
				s.Title, s.tags, s.clicks = new("A title"), []string{"tag"}, int64(i)
				samples = append(samples, s)
			}
		}
		put(t, d, samples)
		for _, few := range []int{0, few} {
			l := lister{bundle: b, member: b.mine, few: few}
			for _, f := range []*Filter{{}, {Search: new("title")}, {Tags: []string{"tag"}}, {Tags: []string{"tag"}, TagMatch: AllTags, Search: new("example")}} {
				for _, o := range orders {
					l.check(t, samples[:5], f, o, 2)
				}
			}
		}
	})
}

// plans are how the database goes about each statement of a list of my links.
func (b *bundle) plans(t *testing.T, few int, f *Filter, r page.Request) []string {
	t.Helper()
	defer func(d *db.DB) { b.DB = d }(b.DB)
	return dbtest.Plans(t, b.DB, func(watched *db.DB) {
		b.DB = watched
		ctx := db.InWorkspace(t.Context(), b.mine.ID(), "")
		n, err := b.search(ctx, b.mine, f, few)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.list(ctx, r); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPlans looks at how lists are found where they are long: from an index, without a look at every link, and
// without sorting them.
func TestPlans(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many links")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		// What SQLite plans does not depend on how many there are, and with the race detector it needs long for each.
		many := map[db.Kind]int{db.SQLite: 3000, db.Postgres: 20_000}[d.Kind]
		b := setup(t, d)
		var samples []sample
		for i := range many {
			for _, m := range []workspace.Membership{b.mine, b.foreign} {
				s := plain(m, i)
				s.Title, s.clicks, s.tags = new(fmt.Sprintf("Title %d", i*7919%many)), int64(i%100)-1, []string{"common"}
				if i%1000 == 7 {
					s.Note, s.tags = new("a zebrafish"), []string{"common", "rare"}
				}
				samples = append(samples, s)
			}
		}
		put(t, d, samples)
		deep := samples[len(samples)/2]
		rare, common := &Filter{Search: new("zebrafish")}, &Filter{Search: new("http")}
		byID, byClicks, byTitle := page.Order{}, (&Order{Field: ByClicks}).pages(), (&Order{Field: ByTitle}).pages()
		// Nothing analyzes SQLite in production. PostgreSQL does it by itself, when it likes.
		for _, analyzed := range map[db.Kind][]bool{db.SQLite: {false, true}, db.Postgres: {true}}[d.Kind] {
			if analyzed {
				// VACUUM because a gin index that has not been tidied since many rows came costs much to ask.
				statement := map[db.Kind]string{db.SQLite: "ANALYZE", db.Postgres: "VACUUM ANALYZE links, link_tags, click_totals"}[d.Kind]
				if _, err := d.ExecContext(db.AsOwner(t.Context()), statement); err != nil {
					t.Fatal(err)
				}
			}
			for name, c := range map[string]struct {
				filter *Filter
				order  page.Order
				value  any  // of the place to begin at, if not at the beginning
				sorts  bool // a few links, which is no matter
			}{
				"by creation":               {},
				"by creation, deep":         {value: deep.ID},
				"the oldest":                {order: page.Order{Ascending: true}},
				"not put away":              {filter: &Filter{Archived: new(false)}},
				"by clicks":                 {order: byClicks},
				"by clicks, deep":           {order: byClicks, value: int64(50)},
				"by clicks, none any more":  {order: byClicks, value: int64(0)},
				"the least clicked":         {order: page.Order{Name: byClicks.Name, Numbers: true, Ascending: true}},
				"by title":                  {order: byTitle},
				"by title, deep":            {order: byTitle, value: "title 5"},
				"by title, the last":        {order: page.Order{Name: byTitle.Name}},
				"a rare word":               {filter: rare, sorts: true},
				"a rare word by clicks":     {filter: rare, order: byClicks, sorts: true},
				"a rare word by title":      {filter: rare, order: byTitle, sorts: true},
				"a common word":             {filter: common},
				"a common word by clicks":   {filter: common, order: byClicks},
				"a common word by title":    {filter: common, order: byTitle},
				"a rare tag":                {filter: &Filter{Tags: []string{"rare"}}, sorts: true},
				"a rare tag by clicks":      {filter: &Filter{Tags: []string{"rare"}}, order: byClicks, sorts: true},
				"a rare tag by title":       {filter: &Filter{Tags: []string{"rare"}}, order: byTitle, sorts: true},
				"a common tag":              {filter: &Filter{Tags: []string{"common"}}},
				"a common tag, deep":        {filter: &Filter{Tags: []string{"common"}}, value: deep.ID},
				"a common tag by clicks":    {filter: &Filter{Tags: []string{"common"}}, order: byClicks},
				"a common tag by title":     {filter: &Filter{Tags: []string{"common"}}, order: byTitle},
				"two tags":                  {filter: &Filter{Tags: []string{"common", "rare"}, TagMatch: AllTags}, sorts: true},
				"a common tag and a status": {filter: &Filter{Tags: []string{"common"}, Status: []Status{Active}}},
			} {
				r := page.Request{Order: c.order, Size: 20}
				if c.value != nil {
					r.After, r.AfterValue = deep.ID, c.value
				}
				if c.order == byID {
					r.AfterValue = nil
				}
				plans := b.plans(t, many/10, c.filter, r)
				if len(plans) == 0 || name == "by clicks" && len(plans) > 1 { // the never clicked are not on that page
					t.Errorf("%s asks %d times", name, len(plans))
				}
				for _, plan := range plans {
					if scans(d.Kind, plan) || !c.sorts && sorts(d.Kind, plan) {
						t.Errorf("%s, analyzed %t:\n%s", name, analyzed, plan)
					}
				}
			}
		}
	})
}

// TestLinksAreLookedUpOneByOne by who makes others, although most workspaces are so small that it were as well to read all their links:
// the statement is planned once, for the large ones too.
func TestLinksAreLookedUpOneByOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		const small = "WITH RECURSIVE small (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM small WHERE n < 2000) "
		hash := map[db.Kind]string{db.SQLite: "X'00'", db.Postgres: `'\x00'`}[d.Kind]
		for _, statement := range []string{
			"INSERT INTO workspaces (id, slug, name, created_at, updated_at) " + small + "SELECT 'ws_' || n, 'small-' || n, 'Small', ?0, ?0 FROM small",
			`INSERT INTO links (id, workspace_id, code, strategy, original_url, canonical_url, canonical_hash, redirect_status, created_at, updated_at) ` +
				small + "SELECT 'lnk_' || n, 'ws_' || n, 'code', 'DETERMINISTIC', '', '', " + hash + ", 302, ?0, ?0 FROM small",
		} {
			if _, err := d.NewRaw(statement, bun.Safe("'2026-01-01 00:00:00+00:00'")).Exec(db.AsSystem(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.ExecContext(db.AsOwner(t.Context()), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
		defer func() { b.DB = d }()
		plans := dbtest.Plans(t, d, func(watched *db.DB) {
			b.DB = watched
			batch := &batch{Store: b.Store, member: b.mine, now: noon}
			for i := range 3 {
				batch.add(b.mine, &New{URL: fmt.Sprintf("https://example.com/new/%d", i)})
				batch.add(b.mine, &New{URL: "https://example.com/", Strategy: new(Custom), CustomCode: new(fmt.Sprintf("new-%d", i))})
			}
			ctx := db.InWorkspace(t.Context(), b.mine.ID(), "")
			if err := batch.prepare(ctx); err != nil {
				t.Fatal(err)
			}
			if err := batch.find(ctx, watched, batch.waiting()); err != nil {
				t.Fatal(err)
			}
		})
		for _, column := range []string{"canonical_hash", "code"} {
			whole := regexp.MustCompile(`workspace_id *=.* AND \(?` + column + ` *=`) // in the condition of an index
			if !slices.ContainsFunc(plans, whole.MatchString) {
				t.Errorf("no link is looked up by its workspace and its %s:\n%s", column, strings.Join(plans, "\n--\n"))
			}
		}
	})
}

// scans reports whether a plan looks at every row of a table that has one for each link.
func scans(kind db.Kind, plan string) bool {
	if kind == db.Postgres {
		return strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index")
	}
	return slices.ContainsFunc(strings.Split(plan, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "SCAN") && !strings.HasPrefix(line, "SCAN link_search VIRTUAL TABLE INDEX 0:M")
	})
}

func sorts(kind db.Kind, plan string) bool {
	if kind == db.Postgres {
		return strings.Contains(plan, "Sort")
	}
	return strings.Contains(plan, "USE TEMP B-TREE FOR")
}

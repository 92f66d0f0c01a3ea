package linklist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// noon is the time of the tests.
var noon = dbtest.Noon

// bundle is a store with two workspaces, and the store that creates their links.
type bundle struct {
	*Store
	*creationtest.World
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	w := creationtest.New(t, d)
	w.Quota.Default = 10_000
	return &bundle{&Store{DB: d, links: w.Links, Now: w.Links.Now}, w}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

// vocabulary has words that are parts of each other, that differ in case, and that mean something
// somewhere.
var vocabulary = []string{
	"a", "ab", "abc", "Abcd", "ABCDE", "ÜBER", "über", "Straße", "ΣΊΣΥΦΟΣ", "日本", "日本語", "漢", "👩‍🚀", "🚀🚀🚀", "100%", "%",
	"_", "a_c",
	`\`, `a\b`, `\%`, `"`, `"quoted"`, `say"so`, "'", "it's", "*", "abc*", "AND", "OR", "NOT", "NEAR(", "NEAR(a b)",
	"-",
	"--", "a-b", ":", "search:", "^abc", `abc\`, "abc%d", "abc_d", "abc?d",
	"+", "(", ")", "{a}", ";", "?", "?0", "$1", "??", "http", "example.com", "https://", "c1", "/2",
}

// TestList_MatchesReference compares lists with a naive implementation in Go.
func TestList_MatchesReference(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const seed = 20261120
		rows, lists := suitetest.Size(150, 300), suitetest.Size(40, 80)
		r := rand.New(rand.NewPCG(seed, seed))
		b := setup(t, d)
		mine, foreign := mixed(r, b.Mine, rows), mixed(r, b.Foreign, rows)
		put(t, d, mine)
		put(t, d, foreign)
		some, none := 0, 0
		for range lists {
			l, samples := lister{bundle: b, member: b.Mine, maxCandidates: []int{0, 20, maxCandidates}[r.IntN(3)]}, mine
			if r.IntN(4) == 0 {
				l.member, samples = b.Foreign, foreign
			}
			f := randomFilter(r)
			if r.IntN(3) == 0 {
				f.FolderIDs = foldersOf(samples)[r.IntN(3):]
			}
			// a key that is restricted to these folders, and gives all or none
			if len(f.FolderIDs) > 0 && r.IntN(2) == 0 {
				l.member = workspacetest.Fenced(t, d, l.member.ID(), f.FolderIDs...)
			}
			if l.check(t, samples, f, orders[r.IntN(len(orders))], 1+r.IntN(7)) > 0 {
				some++
			} else {
				none++
			}
		}
		if some < lists/2 || none < lists/20 {
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
		all := []routing.Status{routing.Scheduled, routing.Active, routing.Expired, routing.Exhausted, routing.Deleted,
			routing.Disabled}
		f.Status = all[r.IntN(3) : 3+r.IntN(4)]
	}
	if given() {
		f.Strategy = []link.Strategy{link.Custom, link.Counter, link.Deterministic}[r.IntN(2):]
	}
	if given() {
		f.Archived = new(r.IntN(2) == 0)
	}
	if given() {
		f.Created.From = new(noon.Add(time.Duration(r.IntN(3)-2) * time.Hour))
	}
	if given() {
		f.Created.To = new(noon.Add(time.Duration(r.IntN(3)-1) * time.Hour))
	}
	if given() {
		f.Host = new(hosts[1+r.IntN(len(hosts)-1)])
	}
	if given() {
		f.Origin = new([]importsource.Source{importsource.Bitly, importsource.CSV}[r.IntN(2)])
	}
	if given() {
		f.Updated.From = new(noon.Add(time.Duration(r.IntN(3)-2) * time.Hour))
	}
	return f
}

func TestList_AppliesEachFilter(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		samples := mixed(rand.New(rand.NewPCG(1, 2)), b.Mine, 200)
		put(t, b.DB, samples)
		for name, f := range map[string]*Filter{
			"nothing":             {},
			"two words":           {Search: new("com  ABC ")},
			"a search of spaces":  {Search: new(" \t ")},
			"any of tags":         {Tags: []string{"rare", "half", "none"}},
			"all of tags":         {Tags: []string{"rare", "half", "half"}, TagMatch: AllTags},
			"a tag of no link":    {Tags: []string{"none"}},
			"all, and one missed": {Tags: []string{"all", "none"}, TagMatch: AllTags},
			"no tags":             {Tags: []string{}, TagMatch: AllTags},
			"status":              {Status: []routing.Status{routing.Expired, routing.Deleted}},
			"strategy":            {Strategy: []link.Strategy{link.Custom, link.Random}},
			"not put away":        {Archived: new(false)},
			"created between":     {Created: Range{From: new(noon.Add(-time.Hour)), To: new(noon)}},
			"external ids": {ExternalIDs: []string{"id3", "id7", "id9", "id12", "id15", "id18", "id20", "id33",
				"id40", "id47", "id51", "id58", "id66", "id71"}},
			"no link has the id":  {ExternalIDs: []string{"unknown"}},
			"metadata":            {Metadata: &linkfield.Pair{Key: "k", Value: "v"}},
			"origin of no link":   {Origin: new(importsource.Kutt)},
			"domains":             {DomainIDs: domainsOf(samples)},
			"a domain":            {DomainIDs: domainsOf(samples)[:1]},
			"no link's domain":    {DomainIDs: []string{id.New(id.Domain), "x"}},
			"creator":             {CreatedByID: new(b.Mine.AccountID())},
			"host":                {Host: new("example.com")},
			"host below":          {Host: new("WWW.example.com")},
			"host of no link":     {Host: new("example")},
			"IPv6 address":        {Host: new("2001:DB8::1")},
			"without tags":        {WithoutTags: []string{"half", "rare"}},
			"updated to":          {Updated: Range{To: new(noon)}},
			"expires from":        {Expires: Range{From: new(noon)}},
			"expires to":          {Expires: Range{To: new(noon.Add(time.Hour))}},
			"last clicked before": {LastClicked: Range{To: new(noon)}},
			"last clicked from":   {LastClicked: Range{From: new(noon)}},
			"routing":             {HasRouting: new(true)},
			"plain":               {HasRouting: new(false)},
			"no scheduled change": {HasScheduledChanges: new(false)},
			"unreachable":         {Destination: []link.DestinationState{link.DestinationUnreachable}},
			"broken":              {Destination: []link.DestinationState{link.DestinationBroken}},
			"unchecked or fine": {Destination: []link.DestinationState{
				link.DestinationUnchecked, link.DestinationOK,
			}},
			"several": {Host: new("com"), Updated: Range{To: new(noon.Add(time.Hour))}, Search: new("example"),
				WithoutTags: []string{"rare"}},
			"a folder":                       {FolderIDs: foldersOf(samples)[:1]},
			"no link, a folder that is none": {FolderIDs: []string{"x"}},
			"in another zone":                {Created: Range{From: new(noon.In(time.FixedZone("", 5*60*60)))}},
			"in a folder":                    {InFolder: new(true)},
			"in none":                        {InFolder: new(false)},
		} {
			t.Run(name, func(t *testing.T) {
				for _, limit := range []int{0, maxCandidates} {
					l := lister{bundle: b, member: b.Mine, maxCandidates: limit}
					if n := l.check(t, samples, f, nil, 50); (n == 0) != strings.Contains(name, "no link") &&
						(n == 0) != strings.Contains(name, "missed") {
						t.Errorf("%d links", n)
					}
				}
			})
		}
	})
}

// TestList_StatusMatchesRouting compares Link.Status with the SQL filter in every combination of
// its inputs.
func TestList_StatusMatchesRouting(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ever := []*time.Time{nil, new(noon)}
		times := []*time.Time{nil, new(noon.Add(-time.Microsecond)), new(noon), new(noon.Add(time.Microsecond))}
		var samples []sample
		for _, disabled := range ever {
			for _, deleted := range ever {
				for _, starts := range times {
					for _, expires := range times {
						for _, granted := range []int64{-1, 4, 5, 6} {
							s := plain(b.Mine, len(samples))
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
		put(t, b.DB, samples)
		for _, status := range []routing.Status{routing.Scheduled, routing.Active, routing.Expired, routing.Exhausted,
			routing.Deleted, routing.Disabled} {
			if b.lister().check(t, samples, &Filter{Status: []routing.Status{status}}, nil, 100) == 0 {
				t.Errorf("nothing is %s", status)
			}
		}
		b.lister().check(t, samples, &Filter{}, nil, 100)
	})
}

// TestSearch_TreatsTextLiterally looks for everything that means something in LIKE, in FTS5 or in a
// literal.
func TestSearch_TreatsTextLiterally(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var samples []sample
		for i, word := range vocabulary {
			for j, title := range []string{word, "x" + word + "y", strings.ToUpper(word)} {
				s := plain(b.Mine, 3*i+j)
				s.Title = &title
				samples = append(samples, s)
			}
		}
		put(t, b.DB, samples)
		for _, word := range vocabulary {
			for _, limit := range []int{0, maxCandidates} {
				l := lister{bundle: b, member: b.Mine, maxCandidates: limit}
				for _, text := range []string{strings.ToUpper(word), "x" + word} {
					if l.check(t, samples, &Filter{Search: &text}, nil, 100) == 0 {
						t.Errorf("nothing has %q", text)
					}
				}
			}
		}
	})
}

func TestList_RefusesBadFilters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
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
			"NUL in a tag":         {Filter{Tags: []string{"\x00"}}, "tags 0"},
			"a tag not in UTF-8":   {Filter{Tags: []string{"\xff"}}, "tags 0"},
			"a huge tag":           {Filter{Tags: []string{strings.Repeat("a", 1<<20)}}, "tags 0"},
			"101 external ids":     {Filter{ExternalIDs: tags(101)}, "externalIds"},
			"no external id":       {Filter{ExternalIDs: []string{""}}, "externalIds 0"},
			"a bad key":            {Filter{Metadata: &linkfield.Pair{Key: "a b"}}, "metadata key"},
			"21 tags not to have":  {Filter{WithoutTags: tags(21)}, "withoutTags"},
			"21 domains":           {Filter{DomainIDs: tags(21)}, "domainIds"},
			"no user":              {Filter{CreatedByID: new("lnk_x")}, "createdById"},
			"a URL as host":        {Filter{Host: new("example.com/a")}, "host"},
			"a port":               {Filter{Host: new("example.com:8080")}, "host"},
			"a port of an address": {Filter{Host: new("[2001:db8::1]:8080")}, "host"},
			"an IPv6 address":      {Filter{Host: new("[2001:db8::1]")}, ""},
			"SQL in a tag":         {Filter{Tags: []string{`' OR 1=1 --`, `\'`, "?"}}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := b.List(t.Context(), b.Mine, &c.filter, page.Request{Size: 1})
				_, countErr := b.Count(t.Context(), b.Mine, &c.filter)
				_, clicksErr := b.CountClicks(t.Context(), b.Mine, &c.filter)
				for _, err := range []error{err, countErr, clicksErr} {
					if c.at == "" && err != nil {
						t.Error(err)
					}
					if c.at != "" && (!errs.Is(err, errs.InvalidInput) ||
						!gocmp.Equal(errs.From(err).Field, strings.Fields("filter "+c.at))) {
						t.Errorf("at %v: %v", errs.From(err).Field, err)
					}
				}
			})
		}
	})
}

func TestList_RequiresMembership(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		linktest.Refused(b.List(t.Context(), workspace.Membership{}, nil, page.Request{Size: 1}))(t, errs.Forbidden,
			"listing without a membership")
		linktest.Refused(b.Count(t.Context(), workspace.Membership{}, nil))(t, errs.Forbidden,
			"counting without a membership")
		linktest.Refused(b.CountClicks(t.Context(), workspace.Membership{}, nil))(t, errs.Forbidden,
			"counting clicks without a membership")
	})
}

// TestCursor_BelongsToItsOrder: a cursor of one order says nothing in another.
func TestCursor_BelongsToItsOrder(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title, numbers := plain(b.Mine, 1), plain(b.Mine, 2)
		title.Title, numbers.Title = new(strings.Repeat("\ufdfa", 200)), new("12") // which has the longest folded form
		put(t, b.DB, []sample{title, numbers})
		for _, from := range orders {
			for i, cursor := range b.lister().page(t, nil, from, nil, nil, nil, nil).Cursors {
				for _, to := range orders {
					_, after := to.Page(nil, &cursor, nil, nil)
					_, before := to.Page(nil, nil, nil, &cursor)
					for field, err := range map[string]error{"after": after, "before": before} {
						if from == to && err != nil {
							t.Errorf("cursor %d of %+v in its own: %v", i, from, err)
						}
						if from != to &&
							(!errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{field})) {
							t.Errorf("cursor %d of %+v in %+v: at %v: %v", i, from, to, errs.From(err).Field, err)
						}
					}
				}
			}
		}
	})
}

// TestExport_HasCodesAsShown: also those of links at a domain with codes of its own.
func TestExport_HasCodesAsShown(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		s, domainID, me := plain(b.Mine, 1), id.New(id.Domain), b.Mine.AccountID()
		s.DomainID, s.CreatedBy = &domainID, &me
		s.Code, s.OwnAddress = domainID+"/promo", new(domainID+".example/Promo")
		put(t, b.DB, []sample{s})
		links, next, err := b.Export(t.Context(), account.Actor{AccountID: me}, "")
		if err != nil || next != "" || len(links) != 1 || links[0].Code != "Promo" || links[0].ID != s.ID {
			t.Errorf("%+v, %q, %v", links, next, err)
		}
	})
}

// TestSearch_FindsPastedShortURLs: a text as people copy it finds the link and those that have it as a
// text, of the workspace alone.
func TestSearch_FindsPastedShortURLs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/", CustomCode: new("Promo")})
		leading := b.Make(t, creation.Input{URL: "https://example.com/?to=https://sho.rt/x/promo"})
		b.Make(t, creation.Input{URL: "https://example.org/"})
		const host = "go.example"
		must.Value(b.DB.NewRaw("INSERT INTO domains (id, workspace_id, host, token, created_at, verified_at) "+
			"VALUES (?, ?, ?, 't', ?, ?)", id.New(id.Domain), b.Mine.ID(), host, noon, noon).
			Exec(db.AsSystem(t.Context())))(t)
		slug, foreign := b.Mine.Slug(), b.Foreign.Slug()
		found := func(text string, f Filter) (urls []string) {
			f.Search = &text
			all := must.Value(b.List(t.Context(), b.Mine, &f, page.Request{Size: 9}))(t)
			for _, one := range all.Items {
				urls = append(urls, one.OriginalURL)
			}
			return urls
		}
		for _, text := range []string{
			"http://sho.rt/" + slug + "/Promo", "https://SHO.RT/" + slug + "/promo", "sho.rt/" + slug + "/Promo+",
			" //sho.rt/" + slug + "/Promo?utm_source=x&y=1 ", slug + "/promo", "/" + strings.ToUpper(slug) + "/PROMO",
			"Promo+", "promo?a=b", "https://" + host + "/promo", host + "/Promo", "http://sho.rt/" + slug + "/Promo/",
			"<http://sho.rt/" + slug + "/Promo>", "“" + host + "/promo”",
		} {
			wanttest.Equal(t, []string{l.OriginalURL}, found(text, Filter{}), "%s", text)
			wanttest.Equal(t, []string(nil), found(text, Filter{Tags: []string{"none"}}), "%s with a tag", text)
		}
		wanttest.Equal(t, []string{leading.OriginalURL}, found("https://sho.rt/x/promo", Filter{}), "a text")
		for _, text := range []string{
			"sho.rt/" + foreign + "/promo", "sho.rt/promo", "example.org/Promo", "nowhere/+",
		} {
			wanttest.Equal(t, []string(nil), found(text, Filter{}), "%s", text)
		}
	})
}

// TestList_IsStableDuringInserts: links that exist from the beginning are listed once, in order,
// while others are added.
func TestList_IsStableDuringInserts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := rand.New(rand.NewPCG(3, 4))
		b := setup(t, d)
		next := 0
		some := func(n int) (samples []sample) {
			for range n {
				s := plain(b.Mine, next)
				s.Title, s.clicks = optional.Of(strings.Repeat("a", r.IntN(9))), r.Int64N(6)-2
				samples = append(samples, s)
				next++
			}
			return samples
		}
		put(t, d, some(20))
		for _, o := range orders {
			was, _ := b.lister().all(t, nil, o, 100)
			var got []string
			seen, added := map[string]bool{}, 0
			for ids := range b.lister().forward(t, nil, o, 3) {
				for _, linkID := range ids {
					if seen[linkID] {
						t.Errorf("%+v: %s comes twice", o, linkID)
					}
					seen[linkID] = true
					if slices.Contains(was, linkID) {
						got = append(got, linkID)
					}
				}
				if added++; added <= 5 { // otherwise an order with new links at its end never ends
					put(t, d, some(3))
				}
			}
			wanttest.Equal(t, was, got, "%+v", o)
		}
	})
}

// TestList_FindsCreatedLinks searches what package link has written, instead of a test's own rows.
func TestList_FindsCreatedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := creation.Input{URL: "https://example.com/Straße", CustomCode: new("Promo"),
			Fields: linkfield.Change{Title: optional.Set(new("ÜBER Links")), Note: optional.Set(new("For Ada")),
				Tags: optional.Set([]string{"Launch"})}}
		var samples []sample
		for _, in := range []creation.Input{{URL: "https://example.org/",
			Fields: linkfield.Change{Title: optional.Set(new("Zebra"))}}, in} {
			samples = append(samples, sample{Link: b.Make(t, in), tags: in.Fields.Tags.To})
		}
		for _, f := range []*Filter{
			{Search: new("über")}, {Search: new("ada")}, {Search: new("STRASSE")}, {Search: new("STRAßE")},
			{Search: new("promo")}, {Search: new("com")}, {Tags: in.Fields.Tags.To}, {Tags: []string{"launch"}}, {},
		} {
			for _, o := range orders {
				b.lister().check(t, samples, f, o, 1)
			}
		}
	})
}

// TestLeadingTo_FindsEveryURLAtTheHost of links that are not deleted, as far as the caller sees them.
func TestLeadingTo_FindsEveryURLAtTheHost(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, folder := t.Context(), must.Value(b.Folders.Create(t.Context(), b.Mine, "folder"))(t)
		const at, elsewhere = "https://go.example.com/x", "https://example.com/go.example.com"
		create := func(title, url string, fields linkfield.Change) *link.Link {
			fields.Title = optional.Set(&title)
			return b.Make(t, creation.Input{URL: url, Strategy: new(link.Random), Fields: fields})
		}
		create("its own", "HTTP://GO.example.com:8443", linkfield.Change{FolderID: optional.Set(&folder.ID)})
		create("of its routing", elsewhere, linkfield.Change{
			Routing: optional.Set(&routing.Change{EndedURL: optional.Set(new(at))}),
		})
		b.Plan(t, create("of a change", elsewhere, linkfield.Change{}), time.Hour,
			linkfield.Change{URL: optional.Set(at)})
		create("above", elsewhere, linkfield.Change{})
		create("below", "https://www.go.example.com/x", linkfield.Change{})
		b.Change(t, create("changed", at, linkfield.Change{}), linkfield.Change{URL: optional.Set(elsewhere)})
		b.Remove(t, create("deleted", at, linkfield.Change{}).ID)
		_, _, err := b.Create(ctx, b.Foreign, creation.Input{URL: at})
		must.NoError(t, err)
		key := account.Key{ID: id.New(id.Key), WorkspaceID: b.Mine.ID(), Scopes: []string{"LINKS_READ"},
			Folders: []string{folder.ID}}
		fenced := workspacetest.Require(t, b.Links.DB, account.Actor{Key: &key}, b.Mine.ID())
		for name, c := range map[string]struct {
			m    workspace.Membership
			want []string
		}{
			"a member": {b.Mine, []string{"of a change", "of its routing", "its own"}},
			"a key":    {fenced, []string{"its own"}},
		} {
			var titles []string
			for _, l := range must.Value(b.LeadingTo(ctx, c.m, "go.example.com"))(t) {
				titles = append(titles, optional.Value(l.Title))
			}
			wanttest.Equal(t, c.want, titles, "links for %s", name)
		}
	})
}

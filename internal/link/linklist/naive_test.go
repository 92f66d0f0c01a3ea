package linklist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// orders are all there are.
var orders = []*Order{
	nil,
	{Field: ByCreation, Direction: Ascending},
	{Field: ByClicks},
	{Field: ByClicks, Direction: Ascending},
	{Field: ByTitle},
	{Field: ByTitle, Direction: Descending},
	{Field: ByUpdate},
	{Field: ByUpdate, Direction: Ascending},
	{Field: ByLastClick},
	{Field: ByLastClick, Direction: Ascending},
}

// sample is a link as a test has put it into the database, with what other tables know of it.
type sample struct {
	*link.Link
	tags   []string
	clicks int64
	// lastClick is that of a link with clicks.
	lastClick time.Time
	// pairs are the metadata, and ended the check of its endedUrl if it has routing.
	pairs map[string]string
	ended link.Check
	// image and planned are those of URLs that do not count: of the card, and of a scheduled
	// change.
	image, planned link.Check
	// origin is where it was imported from; empty for nowhere.
	origin importsource.Source
}

// originRow is an origin of a link.
type originRow struct {
	bun.BaseModel `bun:"table:link_origins"`

	WorkspaceID string `bun:",pk"`
	Source      importsource.Source
	Label       string
	SourceID    string
	LinkID      string
	Hash        []byte
	ImportedAt  time.Time
}

// domainRow is a domain with codes of its own.
type domainRow struct {
	bun.BaseModel `bun:"table:domains"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Host        string
	Token       string
	CodeSpace   string
	CreatedAt   time.Time
}

// metadataRow is a pair of the metadata of a link.
type metadataRow struct {
	bun.BaseModel `bun:"table:link_metadata"`

	LinkID      string `bun:",pk"`
	Key         string `bun:",pk"`
	WorkspaceID string
	Value       string
}

// linkURL is a URL of the routing of a link.
type linkURL struct {
	bun.BaseModel `bun:"table:link_urls"`

	LinkID      string `bun:",pk"`
	Field       string `bun:",pk"`
	WorkspaceID string
	Host        string
	URL         string
	link.Check
}

// record is a row of links as package link writes it; TestList_FindsCreatedLinks compares them.
type record struct {
	link.Link `bun:",extend"`

	TitleKey string
	Search   string
	HostKey  string
}

func recordOf(l *link.Link) *record {
	r := &record{Link: *l}
	if l.PurgedAt == nil {
		r.HostKey = link.HostKey(l.Host())
		r.TitleKey = validate.Fold(optional.Value(l.Title))
		r.Search = validate.Fold(strings.Join([]string{r.TitleKey, optional.Value(l.Note), l.OriginalURL, l.Code},
			"\n"))
	}
	return r
}

// tag is a tag of a link.
type tag struct {
	bun.BaseModel `bun:"table:link_tags"`

	WorkspaceID string `bun:",pk"`
	Tag         string `bun:",pk"`
	LinkID      string `bun:",pk"`
}

// grantRow is how often a link with a maximum has redirected.
type grantRow struct {
	bun.BaseModel `bun:"table:grants"`

	SubjectID   string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	MaxClicks   int64
	Granted     int64
}

// total is how often a link was clicked.
type total struct {
	bun.BaseModel `bun:"table:click_totals"`

	SubjectID   string `bun:",pk"`
	WorkspaceID string
	Clicks      int64
	LatencyMean float64
	LatencyM2   float64
	LastAt      time.Time
}

// folderRow is a folder of links.
type folderRow struct {
	bun.BaseModel `bun:"table:folders"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	NameKey     string
	CreatedAt   time.Time
}

// foldersOf returns the folders of samples.
func foldersOf(samples []sample) (ids []string) {
	for _, s := range samples {
		if s.FolderID != nil && !slices.Contains(ids, *s.FolderID) {
			ids = append(ids, *s.FolderID)
		}
	}
	return ids
}

// domainsOf returns the domains of samples.
func domainsOf(samples []sample) (ids []string) {
	for _, s := range samples {
		if s.DomainID != nil && !slices.Contains(ids, *s.DomainID) {
			ids = append(ids, *s.DomainID)
		}
	}
	return ids
}

// put writes samples past all rules.
func put(t *testing.T, d *db.DB, samples []sample) {
	t.Helper()
	var domains []domainRow
	for _, domainID := range domainsOf(samples) {
		of := slices.IndexFunc(samples, func(s sample) bool { return s.DomainID != nil && *s.DomainID == domainID })
		domains = append(domains, domainRow{
			ID: domainID, WorkspaceID: samples[of].WorkspaceID, Host: domainID + ".example", CodeSpace: "OWN",
			CreatedAt: noon,
		})
	}
	var folders []folderRow
	for _, folderID := range foldersOf(samples) {
		of := slices.IndexFunc(samples, func(s sample) bool { return s.FolderID != nil && *s.FolderID == folderID })
		folders = append(folders, folderRow{
			ID: folderID, WorkspaceID: samples[of].WorkspaceID, Name: folderID, NameKey: folderID, CreatedAt: noon,
		})
	}
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		if err := db.InsertRows(ctx, tx, db.Insert{}, domains); err != nil {
			return err
		}
		return db.InsertRows(ctx, tx, db.Insert{}, folders)
	}))
	for chunk := range slices.Chunk(samples, 1000) {
		var links []*record
		var tags []tag
		var totals []total
		var pairs []metadataRow
		var urls []linkURL
		var grants []grantRow
		var origins []originRow
		for _, s := range chunk {
			links = append(links, recordOf(s.Link))
			for _, name := range s.tags {
				tags = append(tags, tag{WorkspaceID: s.WorkspaceID, Tag: name, LinkID: s.ID})
			}
			if s.clicks >= 0 {
				lastAt := neverClicked
				if s.clicks > 0 {
					lastAt = s.lastClick
				}
				totals = append(totals,
					total{SubjectID: s.ID, WorkspaceID: s.WorkspaceID, Clicks: s.clicks, LastAt: lastAt})
			}
			if s.origin != "" {
				origins = append(origins,
					originRow{WorkspaceID: s.WorkspaceID, Source: s.origin, SourceID: s.ID, LinkID: s.ID,
						Hash: []byte("h"), ImportedAt: noon})
			}
			for key, value := range s.pairs {
				pairs = append(pairs, metadataRow{LinkID: s.ID, Key: key, WorkspaceID: s.WorkspaceID, Value: value})
			}
			if s.MaxClicks != nil {
				grants = append(grants, grantRow{SubjectID: s.ID, LinkID: s.ID, WorkspaceID: s.WorkspaceID,
					MaxClicks: *s.MaxClicks, Granted: s.Granted})
			}
			if s.Routing != nil {
				for field, c := range map[string]link.Check{
					"endedUrl": s.ended, "card.imageUrl": s.image, id.New(id.Scheduled) + ".endedUrl": s.planned,
				} {
					urls = append(urls,
						linkURL{LinkID: s.ID, Field: field, WorkspaceID: s.WorkspaceID, Host: "a", URL: "u", Check: c})
				}
			}
		}
		err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			// Returned values would be written through pointers that samples share.
			if _, err := tx.NewInsert().Model(&links).Returning("NULL").Exec(ctx); err != nil {
				return err
			}
			if len(totals) > 0 {
				if _, err := tx.NewInsert().Model(&totals).Returning("NULL").Exec(ctx); err != nil {
					return err
				}
			}
			if err := db.InsertRows(ctx, tx, db.Insert{}, pairs); err != nil {
				return err
			}
			if err := db.InsertRows(ctx, tx, db.Insert{}, origins); err != nil {
				return err
			}
			if err := db.InsertRows(ctx, tx, db.Insert{}, urls); err != nil {
				return err
			}
			if err := db.InsertRows(ctx, tx, db.Insert{}, grants); err != nil {
				return err
			}
			return db.InsertRows(ctx, tx, db.Insert{}, tags)
		})
		must.NoError(t, err)
	}
}

// plain is the i-th link with default properties, never clicked.
func plain(m workspace.Membership, i int) sample {
	hash := sha256.Sum256(fmt.Append(nil, i))
	url := fmt.Sprintf("https://example.com/%d", i)
	return sample{clicks: -1, lastClick: noon, Link: &link.Link{
		ID: id.New(id.Link), WorkspaceID: m.ID(), Code: fmt.Sprintf("c%d", i), Strategy: link.Random, OriginalURL: url,
		CanonicalURL:  url,
		CanonicalHash: hash[:], Settings: routing.Settings{RedirectStatus: 302}, CreatedAt: noon, UpdatedAt: noon,
	}}
}

// mixed are links with random properties.
func mixed(r *rand.Rand, m workspace.Membership, n int) (samples []sample) {
	instants := []time.Time{noon.Add(-48 * time.Hour), noon.Add(-time.Hour), noon, noon.Add(time.Microsecond),
		noon.Add(time.Hour)}
	words := func() *string {
		var some []string
		for range r.IntN(4) {
			some = append(some, vocabulary[r.IntN(len(vocabulary))])
		}
		return optional.Of(strings.Join(some, " "))
	}
	rarely := func() *time.Time {
		if r.IntN(6) > 0 {
			return nil
		}
		return &instants[r.IntN(len(instants))]
	}
	folders := []string{id.New(id.Folder), id.New(id.Folder), id.New(id.Folder)}
	domains := []string{id.New(id.Domain), id.New(id.Domain)}
	for i := range n {
		s := plain(m, i)
		if r.IntN(4) == 0 && m.ID() != "" {
			s.origin = []importsource.Source{importsource.Bitly, importsource.CSV}[r.IntN(2)]
		}
		if r.IntN(2) == 0 {
			s.FolderID = &folders[r.IntN(len(folders))]
		}
		if r.IntN(5) == 0 && m.ID() != "" {
			s.DomainID = &domains[r.IntN(len(domains))]
			s.OwnAddress = new(*s.DomainID + ".example/" + s.Code)
			s.Code = *s.DomainID + "/" + s.Code
		}
		s.Strategy = []link.Strategy{link.Deterministic, link.Counter, link.Random, link.Custom}[r.IntN(4)]
		s.CreatedAt = instants[r.IntN(len(instants))]
		s.UpdatedAt, s.lastClick = instants[r.IntN(len(instants))], instants[r.IntN(len(instants))]
		if host := hosts[r.IntN(len(hosts))]; host != "" {
			s.OriginalURL = "https://" + host + "/"
			s.CanonicalURL = s.OriginalURL
		}
		if r.IntN(3) == 0 && m.ID() != "" {
			s.ExternalID, s.pairs = new(fmt.Sprint("id", i)), map[string]string{"k": []string{"v", "w"}[r.IntN(2)]}
			s.CreatedBy = new(m.AccountID())
		}
		s.Check = check(r)
		if r.IntN(4) == 0 {
			s.Routing = &routing.Routing{EndedURL: new("https://ended.example/"),
				Card: &routing.Card{ImageURL: new("https://image.example/")}}
			s.ended, s.image, s.planned = check(r), check(r), check(r)
		}
		s.Title, s.Note = words(), words()
		s.StartsAt, s.ExpiresAt, s.ArchivedAt, s.DeletedAt, s.DisabledAt, s.PurgedAt =
			rarely(), rarely(), rarely(), rarely(),
			rarely(), rarely()
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

// hosts are parents, children and siblings of each other.
var hosts = []string{
	"", "example.com", "www.example.com", "a.www.example.com", "example.com.evil", "myexample.com", "com",
	"[2001:db8::1]",
}

// check is a random check of a URL.
func check(r *rand.Rand) (c link.Check) {
	if r.IntN(4) > 0 {
		c.LastCheckedAt = new(noon)
	}
	if status := []int{0, 200, 404, 403, 500}[r.IntN(5)]; status > 0 && c.LastCheckedAt != nil {
		c.DestinationStatus = &status
	}
	return c
}

// letsValues says whether the filters by values let the link through.
func (f *Filter) letsValues(s sample) bool {
	within := func(at *time.Time, from, to *time.Time) bool {
		return from == nil && to == nil || at != nil && (from == nil || !at.Before(*from)) &&
			(to == nil || at.Before(*to))
	}
	host, above := s.Host(), strings.Trim(strings.ToLower(optional.Value(f.Host)), "[]")
	state := link.WorstState(s.Checks(map[string]link.Check{"endedUrl": s.ended}))
	switch {
	case len(f.ExternalIDs) > 0 && (s.ExternalID == nil || !slices.Contains(f.ExternalIDs, *s.ExternalID)),
		f.Metadata != nil && s.pairs[f.Metadata.Key] != f.Metadata.Value,
		f.CreatedByID != nil && optional.Value(s.CreatedBy) != *f.CreatedByID,
		f.Host != nil && host != above && !strings.HasSuffix(host, "."+above),
		slices.ContainsFunc(f.WithoutTags, func(tag string) bool { return slices.Contains(s.tags, tag) }),
		len(f.Destination) > 0 && !slices.Contains(f.Destination, state),
		!within(&s.UpdatedAt, f.UpdatedFrom, f.UpdatedTo), !within(s.ExpiresAt, f.ExpiresFrom, f.ExpiresTo),
		f.LastClickedBefore != nil && s.clicks > 0 && !s.lastClick.Before(*f.LastClickedBefore),
		f.Origin != nil && s.origin != *f.Origin,
		len(f.DomainIDs) > 0 && !slices.Contains(f.DomainIDs, optional.Value(s.DomainID)),
		f.HasRouting != nil && *f.HasRouting != (s.Routing != nil),
		f.HasScheduledChanges != nil && *f.HasScheduledChanges != (s.NextChangeAt != nil):
		return false
	}
	return true
}

// lets says by itself whether the filter lets the link through.
func (f *Filter) lets(s sample) bool {
	status := s.Status(noon)
	if s.PurgedAt != nil || len(f.Status) == 0 && status == routing.Deleted || len(f.Status) > 0 &&
		!slices.Contains(f.Status, status) {
		return false
	}
	for word := range strings.FieldsSeq(validate.Fold(optional.Value(f.Search))) {
		texts := []string{optional.Value(s.Title), optional.Value(s.Note), s.OriginalURL, s.Code}
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(validate.Fold(text), word) }) {
			return false
		}
	}
	if !f.letsValues(s) {
		return false
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
	case len(f.FolderIDs) > 0 && (s.FolderID == nil || !slices.Contains(f.FolderIDs, *s.FolderID)):
		return false
	case f.InFolder != nil && *f.InFolder != (s.FolderID != nil):
		return false
	case f.Archived != nil && *f.Archived != (s.ArchivedAt != nil):
		return false
	case f.CreatedFrom != nil && s.CreatedAt.Before(*f.CreatedFrom), f.CreatedTo != nil &&
		!s.CreatedAt.Before(*f.CreatedTo):
		return false
	}
	return true
}

func (s sample) lastClickOrNever() time.Time {
	if s.clicks <= 0 {
		return neverClicked
	}
	return s.lastClick
}

// naive returns the expected IDs of a list.
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
		case ByUpdate:
			return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), byID)
		case ByLastClick:
			return cmp.Or(a.lastClickOrNever().Compare(b.lastClickOrNever()), byID)
		case ByTitle:
			return cmp.Or(strings.Compare(validate.Fold(optional.Value(a.Title)),
				validate.Fold(optional.Value(b.Title))),
				byID)
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

// lister lists as List does, with any number of candidates.
type lister struct {
	*bundle
	member        workspace.Membership
	maxCandidates int
}

func (b *bundle) lister() lister {
	return lister{bundle: b, member: b.mine, maxCandidates: maxCandidates}
}

func (l lister) page(
	t *testing.T, f *Filter, o *Order, first *int, after *string, last *int, before *string,
) page.Page[*link.Link] {
	t.Helper()
	r := must.Value(o.Page(first, after, last, before))(t)
	ctx := db.InWorkspace(t.Context(), l.member.ID(), "")
	q := must.Value(l.prepare(ctx, l.member, f, l.maxCandidates))(t)
	p := must.Value(q.list(ctx, r))(t)
	return p
}

func linkIDs(links []*link.Link) (ids []string) {
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

// all reads all pages in both directions, and returns their IDs in the list's order.
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

// check compares every page with the naive list, and the count. Of a long list the pages are
// larger.
func (l lister) check(t *testing.T, samples []sample, f *Filter, o *Order, size int) (n int) {
	t.Helper()
	want := naive(samples, f, o)
	size = max(size, len(want)/15)
	forward, backward := l.all(t, f, o, size)
	linktest.Equal(t, want, forward, "%s in pages of %d forward", describe(f, o, l.maxCandidates), size)
	linktest.Equal(t, want, backward, "%s in pages of %d backward", describe(f, o, l.maxCandidates), size)
	ctx := db.InWorkspace(t.Context(), l.member.ID(), "")
	q := must.Value(l.prepare(ctx, l.member, f, l.maxCandidates))(t)
	if n, err := q.count(ctx); err != nil || n != int64(len(want)) {
		t.Errorf("%s: counted %d, want %d: %v", describe(f, o, l.maxCandidates), n, len(want), err)
	}
	return len(want)
}

func describe(f *Filter, o *Order, limit int) string {
	words := []string{fmt.Sprintf("order %+v, up to %d candidates", o, limit)}
	if f.Search != nil {
		words = append(words, fmt.Sprintf("search %q", *f.Search))
	}
	if f.Archived != nil {
		words = append(words, fmt.Sprintf("archived %t", *f.Archived))
	}
	return strings.Join(append(words, fmt.Sprintf("tags %s%q, status %v, strategy %v, created from %v to %v",
		f.TagMatch, f.Tags, f.Status, f.Strategy, f.CreatedFrom, f.CreatedTo)), ", ")
}

package linklist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
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

// rows are rows of tables other than links, by the table with its columns.
type rows map[string][][]any

func (r rows) add(into string, row ...any) { r[into] = append(r[into], row) }

func (r rows) insert(ctx context.Context, tx bun.Tx) error {
	for into, all := range r {
		if _, err := tx.NewRaw("INSERT INTO "+into+" VALUES ?", bun.In(all)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// put writes samples past all rules.
func put(t *testing.T, d *db.DB, samples []sample) {
	t.Helper()
	owners, parents := map[string]string{}, rows{}
	for _, s := range samples {
		owners[optional.Value(s.DomainID)], owners[optional.Value(s.FolderID)] = s.WorkspaceID, s.WorkspaceID
	}
	for _, domainID := range domainsOf(samples) {
		parents.add("domains (id, workspace_id, host, token, code_space, created_at)",
			domainID, owners[domainID], domainID+".example", "", "OWN", noon)
	}
	for _, folderID := range foldersOf(samples) {
		parents.add("folders (id, workspace_id, name, name_key, created_at)",
			folderID, owners[folderID], folderID, folderID, noon)
	}
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), parents.insert))
	for chunk := range slices.Chunk(samples, 1000) {
		var links []*record
		children := rows{}
		for _, s := range chunk {
			links = append(links, recordOf(s.Link))
			for _, name := range s.tags {
				children.add("link_tags (workspace_id, tag, link_id)", s.WorkspaceID, name, s.ID)
			}
			if s.clicks >= 0 {
				children.add("click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2, last_at)",
					s.ID, s.WorkspaceID, s.clicks, 0.0, 0.0, s.lastClickOrNever())
			}
			if s.origin != "" {
				children.add("link_origins (workspace_id, source, label, source_id, link_id, hash, imported_at)",
					s.WorkspaceID, s.origin, "", s.ID, s.ID, []byte("h"), noon)
			}
			for key, value := range s.pairs {
				children.add("link_metadata (link_id, key, workspace_id, value)", s.ID, key, s.WorkspaceID, value)
			}
			if s.MaxClicks != nil {
				children.add("grants (subject_id, link_id, workspace_id, max_clicks, granted)",
					s.ID, s.ID, s.WorkspaceID, *s.MaxClicks, s.Granted)
			}
			if s.Routing != nil {
				for field, c := range map[string]link.Check{
					"endedUrl": s.ended, "card.imageUrl": s.image, id.New(id.Scheduled) + ".endedUrl": s.planned,
				} {
					children.add("link_urls (link_id, field, workspace_id, host, url, destination_status, "+
						"last_checked_at)", s.ID, field, s.WorkspaceID, "a", "u", c.DestinationStatus, c.LastCheckedAt)
				}
			}
		}
		must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			// Returned values would be written through pointers that samples share.
			if _, err := tx.NewInsert().Model(&links).Returning("NULL").Exec(ctx); err != nil {
				return err
			}
			return children.insert(ctx, tx)
		}))
	}
}

// plain is the i-th link with default properties, never clicked.
func plain(m workspace.Membership, i int) sample {
	hash := sha256.Sum256(fmt.Append(nil, i))
	url := fmt.Sprintf("https://example.com/%d", i)
	return sample{clicks: -1, lastClick: noon, Link: &link.Link{
		ID: id.New(id.Link), WorkspaceID: m.ID(), Code: fmt.Sprintf("c%d", i), Strategy: link.Random,
		Values:       linkfield.Values{OriginalURL: url, Settings: routing.Settings{RedirectStatus: 302}},
		CanonicalURL: url, CanonicalHash: hash[:], CreatedAt: noon, UpdatedAt: noon,
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
		s.StartsAt, s.ExpiresAt, s.Archived = rarely(), rarely(), rarely() != nil
		s.DeletedAt, s.DisabledAt, s.PurgedAt = rarely(), rarely(), rarely()
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
	within := func(at *time.Time, in Range) bool {
		return in.isOpen() || at != nil && (in.From == nil || !at.Before(*in.From)) &&
			(in.To == nil || at.Before(*in.To))
	}
	last := &neverClicked
	if s.clicks > 0 {
		last = &s.lastClick
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
		!within(&s.CreatedAt, f.Created), !within(&s.UpdatedAt, f.Updated), !within(s.ExpiresAt, f.Expires),
		!within(last, f.LastClicked),
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
	case f.Archived != nil && *f.Archived != s.Archived:
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
	return lister{bundle: b, member: b.Mine, maxCandidates: maxCandidates}
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

// check compares every page with the naive list, and the counts of links and clicks. Of a long list the pages are
// larger.
func (l lister) check(t *testing.T, samples []sample, f *Filter, o *Order, size int) (n int) {
	t.Helper()
	want := naive(samples, f, o)
	size = max(size, len(want)/15)
	forward, backward := l.all(t, f, o, size)
	wanttest.Equal(t, want, forward, "%s in pages of %d forward", describe(f, o, l.maxCandidates), size)
	wanttest.Equal(t, want, backward, "%s in pages of %d backward", describe(f, o, l.maxCandidates), size)
	ctx := db.InWorkspace(t.Context(), l.member.ID(), "")
	q := must.Value(l.prepare(ctx, l.member, f, l.maxCandidates))(t)
	if n, err := q.count(ctx); err != nil || n != int64(len(want)) {
		t.Errorf("%s: counted %d, want %d: %v", describe(f, o, l.maxCandidates), n, len(want), err)
	}
	clicks := int64(0)
	for _, s := range samples {
		if slices.Contains(want, s.ID) {
			clicks += max(0, s.clicks)
		}
	}
	if n, err := q.countClicks(ctx); err != nil || n != clicks {
		t.Errorf("%s: counted %d clicks, want %d: %v", describe(f, o, l.maxCandidates), n, clicks, err)
	}
	return len(want)
}

func describe(f *Filter, o *Order, limit int) string {
	text, _ := json.Marshal(f)
	return fmt.Sprintf("filter %s, order %+v, up to %d candidates", text, o, limit)
}

package page

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

const (
	one = "lnk_01h455vb4pex5vsknk084sn02q"
	two = "lnk_01h455vb4pex5vsknk084sn02r"
)

func TestParse_ReadsArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, last   *int
		after, before *string
		want          Request
	}{
		"nothing":     {want: Request{Size: 20}},
		"first":       {first: new(1), want: Request{Size: 1}},
		"the largest": {first: new(100), want: Request{Size: 100}},
		"last":        {last: new(7), want: Request{Size: 7, Backward: true}},
		"first after": {first: new(7), after: new(Cursor(one)), want: Request{Size: 7, After: one}},
		"after only":  {after: new(Cursor(one)), want: Request{Size: 20, After: one}},
		"last before": {last: new(7), before: new(Cursor(one)),
			want: Request{Size: 7, Backward: true, Before: one}},
		"first between": {first: new(7), after: new(Cursor(one)), before: new(Cursor(two)),
			want: Request{Size: 7, After: one, Before: two}},
		"after one and last": {last: new(7), after: new(Cursor(one)),
			want: Request{Size: 7, Backward: true, After: one}},
	} {
		wanttest.Equal(t, c.want, must.Value(Parse(id.Link, c.first, c.after, c.last, c.before))(t), "%s", name)
	}
}

func TestParse_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, last *int }{
		"first and last":  {new(1), new(1)},
		"none":            {first: new(0)},
		"too many":        {first: new(101)},
		"none at the end": {last: new(0)},
		"the largest int": {first: new(1<<31 - 1)},
	} {
		if r, err := Parse(id.Link, c.first, nil, c.last, nil); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %+v: %v", name, r, err)
		}
	}
}

func TestCursor_RefusesHostileInput(t *testing.T) {
	t.Parallel()
	for name, cursor := range map[string]string{
		"empty":            "",
		"an id itself":     one,
		"padded":           Cursor(one) + "=",
		"another type's":   Cursor("ws_01h455vb4pex5vsknk084sn02q"),
		"an id and more":   Cursor(one + "0"),
		"huge":             strings.Repeat("A", 1<<20),
		"another encoding": base64.RawURLEncoding.EncodeToString([]byte(Cursor(one))),
	} {
		for field, arguments := range map[string][2]*string{"after": {&cursor, nil}, "before": {nil, &cursor}} {
			_, err := Parse(id.Link, nil, arguments[0], nil, arguments[1])
			if !errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{field}) {
				t.Errorf("%s: %s: at %v: %v", name, field, errs.From(err).Field, err)
			}
			if cursor != "" && strings.Contains(err.Error(), cursor) {
				t.Errorf("%s: %s: the answer repeats the cursor", name, field)
			}
		}
	}
}

// TestValueCursor_RefusesHostileInput tries what Cursor never writes.
func TestValueCursor_RefusesHostileInput(t *testing.T) {
	t.Parallel()
	numbers, text := Order{Name: "NUMBER", Numbers: true}, Order{Name: "TEXT", Ascending: true}
	for name, c := range map[string]struct {
		order Order
		place string
	}{
		"nothing":                   {numbers, ""},
		"an id alone":               {numbers, one},
		"no number":                 {numbers, one + " NUMBER "},
		"words for a number":        {numbers, one + " NUMBER many"},
		"past the largest":          {numbers, one + " NUMBER 9223372036854775808"},
		"written otherwise":         {numbers, one + " NUMBER 007"},
		"the other way round":       {numbers, one + " NUMBER+ 7"},
		"of no such order":          {numbers, one + " TEXT 7"},
		"of another type":           {numbers, "ws_01h455vb4pex5vsknk084sn02q NUMBER 7"},
		"NUL in text":               {text, one + " TEXT+ a\x00b"},
		"half a character":          {text, one + " TEXT+ \xc3"},
		"huge text":                 {text, one + " TEXT+ " + strings.Repeat("a", 1<<20)},
		"text the other way":        {text, one + " TEXT a"},
		"a value for ids":           {Order{}, one + " a"},
		"a value for ascending ids": {Order{Ascending: true}, one + " + a"},
		"ascending ids, descending": {Order{}, one + " +"},
		"descending ids, ascending": {Order{Ascending: true}, one},
	} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(c.place))
		for field, arguments := range map[string][2]*string{"after": {&cursor, nil}, "before": {nil, &cursor}} {
			r, err := c.order.Parse(id.Link, nil, arguments[0], nil, arguments[1])
			if !errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{field}) {
				t.Errorf("%s: %s: at %v: %v: %+v", name, field, errs.From(err).Field, err, r)
			}
		}
	}
}

// TestCursor_RefusesSpareBits: base64 has unused bits, so that two different cursors could decode
// to the same value.
func TestCursor_RefusesSpareBits(t *testing.T) {
	t.Parallel()
	cursor := Order{Name: "NUMBER", Numbers: true}.Cursor(int64(12), one)
	other := cursor[:len(cursor)-1] + string(cursor[len(cursor)-1]+1)
	errstest.Want(t, errs.InvalidInput, "%s for %s", other, cursor)((Order{Name: "NUMBER", Numbers: true}).
		Parse(id.Link, nil, &other, nil, nil))
}

func TestValueCursor_RoundTrips(t *testing.T) {
	t.Parallel()
	for _, value := range []any{int64(0), int64(-1), int64(1<<63 - 1), int64(-1 << 63), "", " ", "a title", "7", " + ",
		"'\"\\%_?", "\n", "日本 🚀", strings.Repeat("🚀", 400)} {
		_, numbers := value.(int64)
		for _, ascending := range []bool{true, false} {
			o := Order{Name: "VALUE", Numbers: numbers, Ascending: ascending}
			cursor := o.Cursor(value, one)
			r, err := o.Parse(id.Link, nil, &cursor, nil, &cursor)
			want := Request{Order: o, Size: 20, After: one, Before: one, AfterValue: value, BeforeValue: value}
			must.NoError(t, err)
			wanttest.Equal(t, want, r, "%q", value)
		}
	}
}

func FuzzCursors(f *testing.F) {
	f.Add([]byte(one + " VALUE 7"))
	f.Add([]byte(one + " VALUE+ a title"))
	f.Add([]byte(one))
	f.Fuzz(func(t *testing.T, place []byte) {
		cursor := base64.RawURLEncoding.EncodeToString(place)
		for _, o := range []Order{{}, {Ascending: true}, {Name: "VALUE"},
			{Name: "VALUE", Numbers: true, Ascending: true}} {
			r, err := o.Parse(id.Link, nil, &cursor, nil, nil)
			if err == nil && o.Cursor(r.AfterValue, r.After) != cursor {
				t.Errorf("%q came back as %+v", place, r)
			}
			if s, ok := r.AfterValue.(string); ok && (!utf8.ValidString(s) || strings.Contains(s, "\x00")) {
				t.Errorf("%q would be an error of the database", s)
			}
		}
	})
}

func TestCut_TrimsToPage(t *testing.T) {
	t.Parallel()
	forward, backward := Request{Size: 3}, Request{Size: 3, Backward: true}
	after, before := Request{Size: 3, After: one}, Request{Size: 3, Backward: true, Before: one}
	for name, c := range map[string]struct {
		request Request
		rows    []int
		want    Page[int]
	}{
		"nothing":          {forward, nil, Page[int]{}},
		"exactly a page":   {forward, []int{9, 8, 7}, Page[int]{Items: []int{9, 8, 7}}},
		"more than a page": {forward, []int{9, 8, 7, 6}, Page[int]{Items: []int{9, 8, 7}, HasNext: true}},
		"the next page": {after, []int{9, 8, 7, 6},
			Page[int]{Items: []int{9, 8, 7}, HasNext: true, HasPrevious: true}},
		"the last page":     {after, []int{9}, Page[int]{Items: []int{9}, HasPrevious: true}},
		"backward, exactly": {backward, []int{1, 2, 3}, Page[int]{Items: []int{3, 2, 1}}},
		"backward, more":    {backward, []int{1, 2, 3, 4}, Page[int]{Items: []int{3, 2, 1}, HasPrevious: true}},
		"backward, the previous": {before, []int{1, 2, 3, 4}, Page[int]{Items: []int{3, 2, 1}, HasNext: true,
			HasPrevious: true}},
		"backward, the first": {before, []int{1}, Page[int]{Items: []int{1}, HasNext: true}},
	} {
		wanttest.Equal(t, c.want, Cut(c.request, c.rows), "%s: page", name)
	}
}

// item is a row to be listed.
type item struct {
	bun.BaseModel `bun:"table:items"`

	ID     string `bun:",pk"`
	Number int64
	Text   string
}

// items fills a table and returns its rows, by their ids, newest first. Some differ in case only:
// bytes decide the order.
func items(t *testing.T, d *db.DB) []item {
	t.Helper()
	collation := map[db.Kind]string{db.Postgres: ` COLLATE "C"`}[d.Kind]
	create := fmt.Sprintf("CREATE TABLE items (id TEXT%s PRIMARY KEY, number BIGINT NOT NULL, text TEXT%s NOT NULL)",
		collation, collation)
	must.Value(d.ExecContext(db.AsOwner(t.Context()), create))(t)
	rows := []item{{ID: "a_z"}, {ID: "aB", Number: -1, Text: "ü"}, {ID: "ab", Number: 1<<63 - 1, Text: "u"},
		{ID: "A_", Number: -1 << 63, Text: `'"\\?0`}}
	for i := range 6 {
		rows = append(rows,
			item{ID: fmt.Sprintf("it_%02d", i), Number: int64(i * 3 % 4), Text: strings.Repeat("b", i*3%4)})
	}
	must.Value(d.NewInsert().Model(&rows).Exec(db.AsOwner(t.Context())))(t)
	slices.SortFunc(rows, func(a, b item) int { return strings.Compare(b.ID, a.ID) })
	return rows
}

// list is a page of the table, in the request's order.
func list(t *testing.T, d *db.DB, r Request) Page[item] {
	t.Helper()
	var rows []item
	q := d.NewSelect().Model(&rows)
	switch r.Order.Name {
	case "NUMBER":
		q = LimitBy(q, r, "item.number", "item.id")
	case "TEXT":
		q = LimitBy(q, r, "item.text", "item.id")
	default:
		q = Limit(q, r, "item.id")
	}
	must.NoError(t, q.Scan(db.AsOwner(t.Context())))
	return Cut(r, rows)
}

// orders are orders of items, and how they compare.
var orders = map[Order]func(a, b item) int{
	{}:                              byID,
	{Name: "NUMBER", Numbers: true}: func(a, b item) int { return cmp.Or(cmp.Compare(a.Number, b.Number), byID(a, b)) },
	{Name: "TEXT"}:                  func(a, b item) int { return cmp.Or(strings.Compare(a.Text, b.Text), byID(a, b)) },
}

func byID(a, b item) int { return strings.Compare(a.ID, b.ID) }

func (i item) value(o Order) any {
	return map[string]any{"NUMBER": i.Number, "TEXT": i.Text}[o.Name]
}

func TestPage_WalksATable(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		all := items(t, d)
		for order, compare := range orders {
			for _, order.Ascending = range []bool{true, false} {
				slices.SortFunc(all, compare)
				if !order.Ascending {
					slices.Reverse(all)
				}
				everyPage(t, d, order, all)
			}
		}
	})
}

// everyPage compares every page that there can be with a part of all items.
func everyPage(t *testing.T, d *db.DB, o Order, all []item) {
	t.Helper()
	for start := 0; start < len(all); start++ {
		for end := start + 1; end <= len(all); end++ {
			want := Page[item]{Items: all[start:end], HasNext: end < len(all), HasPrevious: start > 0}
			forward, backward := Request{Order: o, Size: end - start}, Request{Order: o, Size: end - start,
				Backward: true}
			if start > 0 {
				forward.After, forward.AfterValue = all[start-1].ID, all[start-1].value(o)
			}
			if end < len(all) {
				backward.Before, backward.BeforeValue = all[end].ID, all[end].value(o)
			}
			for _, r := range []Request{forward, backward} {
				wanttest.Equal(t, want, list(t, d, r), "%+v", r)
			}
			between := forward
			between.Size, between.Before, between.BeforeValue = 100, backward.Before, backward.BeforeValue
			wanttest.Equal(t, all[start:end], list(t, d, between).Items, "%+v", between)
		}
	}
}

// TestAmong_PagesASlice compares the part of a condition for rows with equal values with the whole
// condition.
func TestAmong_PagesASlice(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		all := items(t, d)
		order := Order{Name: "NUMBER", Numbers: true}
		for _, order.Ascending = range []bool{true, false} {
			for _, after := range all {
				for _, before := range all {
					for _, backward := range []bool{true, false} {
						r := Request{
							Order: order, Size: 100, Backward: backward, After: after.ID, AfterValue: after.Number,
							Before: before.ID, BeforeValue: before.Number,
						}
						want := slices.DeleteFunc(list(t, d, r).Items, func(i item) bool { return i.Number != 0 })
						var got []item
						if among, ok := r.Among(0); ok {
							got = slices.DeleteFunc(list(t, d, among).Items, func(i item) bool { return i.Number != 0 })
						}
						if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("%+v (-want +got):\n%s", r, diff)
						}
					}
				}
			}
		}
	})
}

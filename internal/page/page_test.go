package page

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

const (
	one = "lnk_01h455vb4pex5vsknk084sn02q"
	two = "lnk_01h455vb4pex5vsknk084sn02r"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, last   *int
		after, before *string
		want          Request
	}{
		"nothing":            {want: Request{Size: 20}},
		"first":              {first: new(1), want: Request{Size: 1}},
		"the largest":        {first: new(100), want: Request{Size: 100}},
		"last":               {last: new(7), want: Request{Size: 7, Backward: true}},
		"the largest last":   {last: new(100), want: Request{Size: 100, Backward: true}},
		"first after":        {first: new(7), after: new(Cursor(one)), want: Request{Size: 7, After: one}},
		"after only":         {after: new(Cursor(one)), want: Request{Size: 20, After: one}},
		"last before":        {last: new(7), before: new(Cursor(one)), want: Request{Size: 7, Backward: true, Before: one}},
		"before only":        {before: new(Cursor(one)), want: Request{Size: 20, Before: one}},
		"first between":      {first: new(7), after: new(Cursor(one)), before: new(Cursor(two)), want: Request{Size: 7, After: one, Before: two}},
		"after one and last": {last: new(7), after: new(Cursor(one)), want: Request{Size: 7, Backward: true, After: one}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(id.Link, c.first, c.after, c.last, c.before)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, last *int }{
		"first and last":  {new(1), new(1)},
		"none":            {first: new(0)},
		"fewer than none": {first: new(-1)},
		"too many":        {first: new(101)},
		"none at the end": {last: new(0)},
		"the least int":   {last: new(-1 << 31)},
		"too many last":   {last: new(101)},
		"the largest int": {first: new(1<<31 - 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r, err := Parse(id.Link, c.first, nil, c.last, nil); !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%+v: %v", r, err)
			}
		})
	}
}

func TestHostileCursors(t *testing.T) {
	t.Parallel()
	for name, cursor := range map[string]string{
		"empty":            "",
		"an id itself":     one,
		"words":            "next page",
		"NUL":              "\x00",
		"not UTF-8":        "\xff",
		"padded":           Cursor(one) + "=",
		"cut short":        Cursor(one)[:10],
		"another type's":   Cursor("ws_01h455vb4pex5vsknk084sn02q"),
		"an id and more":   Cursor(one + "0"),
		"SQL":              Cursor("lnk_' OR 1=1 --"),
		"of nothing":       Cursor("lnk_"),
		"of zero bytes":    Cursor("\x00\x00\x00"),
		"huge":             strings.Repeat("A", 1<<20),
		"another encoding": base64.RawURLEncoding.EncodeToString([]byte(Cursor(one))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for field, arguments := range map[string][2]*string{"after": {&cursor, nil}, "before": {nil, &cursor}} {
				_, err := Parse(id.Link, nil, arguments[0], nil, arguments[1])
				if !errs.Is(err, errs.InvalidInput) || !cmp.Equal(errs.From(err).Field, []string{field}) {
					t.Errorf("%s: at %v: %v", field, errs.From(err).Field, err)
				}
				if cursor != "" && strings.Contains(err.Error(), cursor) {
					t.Errorf("%s: the answer repeats the cursor", field)
				}
			}
		})
	}
}

func TestCursorsComeBack(t *testing.T) {
	t.Parallel()
	for _, p := range []id.Prefix{id.Link, id.Workspace, id.Account} {
		itemID := id.New(p)
		r, err := Parse(p, nil, new(Cursor(itemID)), nil, nil)
		if err != nil || r.After != itemID || strings.Contains(Cursor(itemID), string(p)) {
			t.Errorf("%s came back as %s: %v", itemID, r.After, err)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	forward, backward := Request{Size: 3}, Request{Size: 3, Backward: true}
	after, before := Request{Size: 3, After: one}, Request{Size: 3, Backward: true, Before: one}
	for name, c := range map[string]struct {
		request Request
		rows    []int
		want    Page[int]
	}{
		"nothing":                {forward, nil, Page[int]{}},
		"less than a page":       {forward, []int{9, 8}, Page[int]{Items: []int{9, 8}}},
		"exactly a page":         {forward, []int{9, 8, 7}, Page[int]{Items: []int{9, 8, 7}}},
		"more than a page":       {forward, []int{9, 8, 7, 6}, Page[int]{Items: []int{9, 8, 7}, HasNext: true}},
		"the next page":          {after, []int{9, 8, 7, 6}, Page[int]{Items: []int{9, 8, 7}, HasNext: true, HasPrevious: true}},
		"the last page":          {after, []int{9}, Page[int]{Items: []int{9}, HasPrevious: true}},
		"backward, nothing":      {backward, nil, Page[int]{}},
		"backward, exactly":      {backward, []int{1, 2, 3}, Page[int]{Items: []int{3, 2, 1}}},
		"backward, more":         {backward, []int{1, 2, 3, 4}, Page[int]{Items: []int{3, 2, 1}, HasPrevious: true}},
		"backward, the previous": {before, []int{1, 2, 3, 4}, Page[int]{Items: []int{3, 2, 1}, HasNext: true, HasPrevious: true}},
		"backward, the first":    {before, []int{1}, Page[int]{Items: []int{1}, HasNext: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Cut(c.request, c.rows)); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

// item is a row to be listed.
type item struct {
	bun.BaseModel `bun:"table:items"`

	ID string `bun:",pk"`
}

// items fills a table and returns its ids, newest first. Some differ in case only: bytes decide the order.
func items(t *testing.T, d *db.DB) []string {
	t.Helper()
	collation := map[db.Kind]string{db.Postgres: ` COLLATE "C"`}[d.Kind]
	if _, err := d.ExecContext(t.Context(), "CREATE TABLE items (id TEXT"+collation+" PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	rows := []item{{ID: "a_z"}, {ID: "aB"}, {ID: "ab"}, {ID: "A_"}}
	for i := range 6 {
		rows = append(rows, item{ID: fmt.Sprintf("it_%02d", i)})
	}
	if _, err := d.NewInsert().Model(&rows).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

func list(t *testing.T, d *db.DB, r Request) Page[string] {
	t.Helper()
	var ids []string
	if err := Limit(d.NewSelect().Model((*item)(nil)).Column("id"), r, "item.id").Scan(t.Context(), &ids); err != nil {
		t.Fatal(err)
	}
	return Cut(r, ids)
}

func TestPagesOfATable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		all := items(t, d)
		for size := 1; size <= len(all)+1; size++ {
			for start := 0; start < len(all); start += size {
				end := min(start+size, len(all))
				want := Page[string]{Items: all[start:end], HasNext: end < len(all), HasPrevious: start > 0}
				forward, backward := Request{Size: size}, Request{Size: end - start, Backward: true}
				if start > 0 {
					forward.After = all[start-1]
				}
				if end < len(all) {
					backward.Before = all[end]
				}
				for _, r := range []Request{forward, backward} {
					if diff := cmp.Diff(want, list(t, d, r)); diff != "" {
						t.Errorf("%+v (-want +got):\n%s", r, diff)
					}
				}
			}
		}
		between := list(t, d, Request{Size: 100, After: all[1], Before: all[5]})
		if diff := cmp.Diff(all[2:5], between.Items); diff != "" {
			t.Errorf("between two ids (-want +got):\n%s", diff)
		}
	})
}

package linklist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// tagPages returns the tags of my links with their counts, page by page.
func (b *bundle) tagPages(t *testing.T, prefix string, size int) (all []Tag) {
	t.Helper()
	var after *string
	for {
		r := must.Value(TagOrder.Parse("", &size, after, nil, nil))(t)
		p := must.Value(b.ListTags(t.Context(), b.Mine, prefix, r))(t)
		if len(p.Items) > size || p.HasPrevious != (after != nil) || p.HasNext && len(p.Items) < size {
			t.Errorf("%d of %d tags, previous %t, next %t", len(p.Items), size, p.HasPrevious, p.HasNext)
		}
		for _, tag := range p.Items {
			all = append(all, *tag)
		}
		if !p.HasNext {
			return all
		}
		after = &p.Cursors[len(p.Cursors)-1]
	}
}

// TestListTags_MatchesLists compares tags with a naive count, and their counts with those of lists.
func TestListTags_MatchesLists(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		r := rand.New(rand.NewPCG(1, 2))
		names := []string{
			"a", "A", "ab", "Äpfel", "äpfel", "APFEL", "Straße", "STRASSE", "strass", "ΟΔΟΣ", "οδος", "İstanbul",
			"ISTANBUL", "日本", "日本語", "new york", "new", "New Year", "z%", "z_", "zz", "🚀",
		}
		mine, foreign := mixed(r, b.Mine, 200), mixed(r, b.Foreign, 20)
		for _, samples := range [][]sample{mine, foreign} {
			for i := range samples {
				samples[i].tags = nil
				for _, name := range names {
					if r.IntN(6) == 0 {
						samples[i].tags = append(samples[i].tags, name)
					}
				}
			}
		}
		for i := range mine {
			if mine[i].PurgedAt != nil {
				mine[i].tags = nil
			} else if mine[i].DeletedAt != nil && mine[i].DisabledAt == nil {
				mine[i].tags = append(mine[i].tags, "deleted only", "zzz")
			}
		}
		put(t, b.DB, mine)
		put(t, b.DB, foreign)
		counts := map[string]int64{}
		for _, s := range mine {
			if s.DeletedAt == nil || s.DisabledAt != nil {
				for _, name := range s.tags {
					counts[name]++
				}
			}
		}
		for _, prefix := range []string{
			"", "a", "A", "ä", "Ä", "a\u0308", "ss", "stras", "STRASSE", "οδοσ", "i", "İ", "日本", "new ", "NEW Y", "z",
			"%", "_", "zzz", "x",
		} {
			want := []Tag{}
			for name, n := range counts {
				if strings.HasPrefix(validate.Fold(name), strings.TrimSpace(validate.Fold(prefix))) {
					want = append(want, Tag{name, n})
				}
			}
			slices.SortFunc(want, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
			for _, size := range []int{1, 3, 100} {
				wanttest.Equal(t, want, append([]Tag{}, b.tagPages(t, prefix, size)...), "%q in pages of %d", prefix,
					size)
			}
		}
		for _, tag := range b.tagPages(t, "", 7) {
			if n := must.Value(b.Count(t.Context(), b.Mine, &Filter{Tags: []string{tag.Name}}))(t); n != tag.LinkCount {
				t.Errorf("%s: %d links in the list, %d counted", tag.Name, n, tag.LinkCount)
			}
		}
	})
}

// TestListTags_ReadsOn after the names of a statement without the prefix.
func TestListTags_ReadsOn(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var samples []sample
		for i := range 2*tagBatch + 100 {
			s := plain(b.Mine, i)
			s.tags = []string{fmt.Sprintf("%05d", i)}
			samples = append(samples, s)
		}
		samples[3].tags, samples[2*tagBatch].tags = []string{"00003", "Xa"}, []string{"xb", "y"}
		samples[2*tagBatch+99].tags = []string{"XC"}
		put(t, b.DB, samples)
		var got []string
		for _, tag := range b.tagPages(t, "x", 1) {
			got = append(got, tag.Name)
		}
		wanttest.Equal(t, []string{"XC", "Xa", "xb"}, got, "difference")
		if n := len(b.tagPages(t, "", 100)); n != 2*tagBatch+100+2 {
			t.Errorf("%d tags", n)
		}
	})
}

func TestListTags_RefusesInvalid(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, prefix := range []string{strings.Repeat("ä", 51), "\x00", "\xff"} {
			_, err := b.ListTags(t.Context(), b.Mine, prefix, page.Request{Order: TagOrder, Size: 1})
			if !errs.Is(err, errs.InvalidInput) || !slices.Equal(errs.From(err).Field, []string{"prefix"}) {
				t.Errorf("%q: %v", prefix, err)
			}
		}
		if _, err := b.ListTags(t.Context(), b.Mine, strings.Repeat("ä", 50),
			page.Request{Order: TagOrder, Size: 1}); err != nil {
			t.Error(err)
		}
	})
}

package link_test

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

func TestStore_AtRejectsHostileCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, code := range []string{"", "a", "' OR 1=1 --", "abc\x00", "\xff\xfe\xfd", strings.Repeat("a", 10_000),
			"a?b",
			"äöü"} {
			for _, a := range []resolve.Address{{Code: code}, {Slug: "mine", Code: code}, {Slug: code, Code: "abc"},
				{Host: code, Code: "abc"}, {Host: "links.example.com", Code: code}} {
				if a.Slug == "" && a.Host == "" && a.Code == "abc" {
					continue
				}
				linktest.Refused(b.At(t.Context(), a))(t, errs.NotFound, "%+v", a)
			}
			linktest.Refused(b.Get(t.Context(), b.Mine, code))(t, errs.NotFound, "id %q", code)
		}
	})
}

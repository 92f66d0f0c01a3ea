package check

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

func TestApply_RefusesBadCards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card  routing.Card
		field string
	}{
		"no title":         {routing.Card{Title: "  "}, "card.title"},
		"long title":       {routing.Card{Title: strings.Repeat("ä", 201)}, "card.title"},
		"two lines":        {routing.Card{Title: "a\nb"}, "card.title"},
		"no description":   {routing.Card{Title: "t", Description: new("")}, "card.description"},
		"long description": {routing.Card{Title: "t", Description: new(strings.Repeat("d", 501))}, "card.description"},
		"long alt":         {routing.Card{Title: "t", ImageAlt: new(strings.Repeat("d", 201))}, "card.imageAlt"},
		"http image":       {routing.Card{Title: "t", ImageURL: new("http://example.com/a.png")}, "card.imageUrl"},
		"data image":       {routing.Card{Title: "t", ImageURL: new("data:image/png;base64,AA")}, "card.imageUrl"},
		"script":           {routing.Card{Title: "t", ImageURL: new("javascript:alert(1)")}, "card.imageUrl"},
		"user":             {routing.Card{Title: "t", ImageURL: new("https://a:b@example.com/a.png")}, "card.imageUrl"},
		"no host":          {routing.Card{Title: "t", ImageURL: new("https:///a.png")}, "card.imageUrl"},
		"fits": {routing.Card{
			Title: strings.Repeat("ä", 200), Description: new(strings.Repeat("ä", 500)),
			ImageURL: new("HTTPS://example.com/a.png"), ImageAlt: new(strings.Repeat("ä", 200)),
		}, ""},
	} {
		change := routing.Change{Card: optional.Set(&c.card)}
		got, err := Apply(&change, nil)
		switch {
		case c.field == "" && (err != nil || got.Card == nil):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.field != "" && (err == nil || strings.Join(errs.From(err).Field, ".") != c.field):
			t.Errorf("%s: %+v, %v, want an error at %s", name, got, err, c.field)
		}
	}
}

// TestApply_ReplacesTheCard: an absent card stays, null removes it.
func TestApply_ReplacesTheCard(t *testing.T) {
	t.Parallel()
	from := &routing.Routing{Card: &routing.Card{Title: "old", Description: new("kept by no change")}}
	for name, c := range map[string]struct {
		change routing.Change
		want   string
	}{
		"absent":   {routing.Change{ForwardPath: optional.Set(new(true))}, "old"},
		"replaced": {routing.Change{Card: optional.Set(&routing.Card{Title: " new "})}, "new"},
		"removed":  {routing.Change{Card: optional.Set[*routing.Card](nil)}, ""},
	} {
		after := must.Value(Apply(&c.change, from))(t)
		if c.want == "" {
			if after != nil {
				t.Errorf("%s: the link is not plain: %+v", name, after)
			}
			continue
		}
		if after.Card.Title != c.want || c.want == "new" && after.Card.Description != nil {
			t.Errorf("%s: %+v", name, after.Card)
		}
		if completed := c.change.Complete(after); completed.Card.Set && completed.Card.To.Title != c.want {
			t.Errorf("%s: completed to %+v", name, completed.Card.To)
		}
	}
}

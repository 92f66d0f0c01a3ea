package qr

import (
	"bytes"
	"context"
	"errors"
	"image"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestRenderer_ChecksAStyleOnce verifies texts in styles, and counts the pixels of the work.
func TestRenderer_ChecksAStyleOnce(t *testing.T) {
	t.Parallel()
	plain := Default()
	plain.Level = High
	logo := plain.WithLogo(encodePNG(t, checkered(300)))
	wide, red := logo, logo
	wide.Size, red.Foreground = 2048, "#800000"
	damaged := plain.WithLogo(encodePNG(t, checkered(40))[:60])
	r, charged := NewRenderer(), 0
	charge := func(_ context.Context, pixels int) error {
		charged += pixels
		return nil
	}
	const short, long = "https://go.example/abc", "https://go.example/a-longer-code-for-a-larger-picture"
	const base, again = VerifiedSize * VerifiedSize, 4 * 64 * 64 // the picture is not decoded again
	decoded := func(s Style) int { return logoWork(s.Logo) }
	for i, c := range []struct {
		style  Style
		text   string
		work   int
		refuse bool
	}{
		{plain, short, base, false}, {logo, short, base + decoded(logo), false}, {wide, short, 0, false},
		{logo, "https://go.example/xyz", 0, false}, {logo, long, base + again, false},
		{red, short, base + again, false}, {damaged, short, base + decoded(damaged), true}, {damaged, short, 0, true},
	} {
		charged = 0
		err := r.Verify(t.Context(), "owner", charge, &c.style, c.text)
		if errs.Is(err, errs.InvalidInput) != c.refuse || err != nil && !c.refuse || charged != c.work {
			t.Errorf("call %d: %v, %d pixels, want %d", i, err, charged, c.work)
		}
	}
	poor := errors.New("no points left")
	logo = plain.WithLogo(encodePNG(t, image.NewGray(image.Rect(0, 0, 9, 9))))
	for range 2 {
		err := r.Verify(t.Context(), "owner", func(context.Context, int) error { return poor }, &logo, short)
		if !errors.Is(err, poor) {
			t.Errorf("without points: %v", err)
		}
	}
}

// TestRenderer_DoesOneThingAtATime has a check and an image wait for another one.
func TestRenderer_DoesOneThingAtATime(t *testing.T) {
	t.Parallel()
	r, s := NewRenderer(), Default()
	busy := must.Value(r.queue.Enter(t.Context(), 1, "busy"))(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	free := func(context.Context, int) error { return nil }
	for name, call := range map[string]func(context.Context) error{
		"check": func(ctx context.Context) error { return r.Verify(ctx, "owner", free, &s, "https://go.example/abc") },
		"image": func(ctx context.Context) error {
			return errstest.Of(r.Render(ctx, "owner", "https://go.example/abc", &s, PNG))
		},
	} {
		errstest.Want(t, errs.Unavailable, "%s beside another", name)(call(ended))
	}
	errstest.Want(t, errs.Unavailable, "a document beside another")(
		r.Render(ended, "owner", "https://go.example/abc", &s, SVG))
	busy.Leave()
	image := must.Value(r.Render(t.Context(), "owner", "https://go.example/abc", &s, PNG))(t)
	busy = must.Value(r.queue.Enter(t.Context(), 1, "busy"))(t)
	if again, err := r.Render(ended, "other", "https://go.example/abc", &s, PNG); err != nil ||
		!bytes.Equal(again, image) {
		t.Errorf("the same image: %v", err)
	}
	errstest.Want(t, errs.Unavailable, "another text")(r.Render(ended, "owner", "https://go.example/abd", &s, PNG))
	busy.Leave()
	must.Value(r.Render(t.Context(), "owner", "https://go.example/abc", &s, PNG))(t)
}

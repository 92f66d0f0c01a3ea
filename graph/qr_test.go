package graph

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestQRCode_LoadsTheLogoOnce counts the statements of pages with QR codes of one workspace.
func TestQRCode_LoadsTheLogoOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		for i := range 5 {
			b.link(t, ada, fmt.Sprintf("https://example.com/%d", i))
		}
		var logo bytes.Buffer
		must.NoError(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 9, 9))))
		w := ada.workspace.ID()
		r := b.ask(t, ada.token, `mutation ($w: ID!, $logo: String) { updateWorkspace(input: {id: $w,
			qrStyle: {level: HIGH, logo: $logo}}) { workspace { qrStyle {
				size margin level foreground background hasLogo } }
			errors { message } } }`, "w", w, "logo", base64.StdEncoding.EncodeToString(logo.Bytes()))
		const want = `{"size":512,"margin":4,"level":"HIGH","foreground":"#000000","background":"#ffffff",` +
			`"hasLogo":true}`
		if !strings.Contains(r.Text, want) {
			t.Fatalf("%s, want %s", r.Text, want)
		}
		r = b.ask(t, ada.token,
			`mutation ($w: ID!) { updateWorkspace(input: {id: $w, qrStyle: {foreground: "#999999"}}) {
			errors { code field } } }`, "w", w)
		if !strings.Contains(r.Text, `{"code":"INVALID_INPUT","field":["qrStyle","foreground"]}`) {
			t.Errorf("a style of low contrast: %s", r.Text)
		}
		for argument, field := range map[string]string{"style: {size: 100}": `"style","size"`,
			`source: "flyer"`: `"source"`} {
			r = b.ask(t, ada.token, `query ($w: ID!) { workspace(by: {id: $w}) { links { nodes { qrCode(`+argument+`) {
				text } } } } }`, "w", w)
			if !strings.Contains(r.Text, `"code":"INVALID_INPUT","field":[`+field+`]`) {
				t.Errorf("%s: %s", argument, r.Text)
			}
		}
		statements := map[int]int64{}
		for _, n := range []int{1, 5} {
			before := b.statements.Load()
			r := b.ask(t, ada.token,
				`query ($w: ID!, $n: Int) { workspace(by: {id: $w}) { links(first: $n) { edges { node {
				qrCode { svg } } } } } }`, "w", w, "n", n)
			statements[n] = b.statements.Load() - before
			if got := strings.Count(r.Text, "data:image/png;base64,"); got != n {
				t.Fatalf("%d logos, want %d: %.500s", got, n, r.Text)
			}
		}
		if statements[1] != statements[5] {
			t.Errorf("statements of 1 and 5 codes: %d, %d", statements[1], statements[5])
		}
	})
}

// TestQRCode_IsChargedForItsLogo requests codes in one style, which decode one code, and saves the style.
func TestQRCode_IsChargedForItsLogo(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	var ids []string
	for i := range 3 {
		ids = append(ids, b.link(t, ada, fmt.Sprintf("https://example.com/%d", i)).ID)
	}
	var logo bytes.Buffer
	must.NoError(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 1000, 500))))
	style := map[string]any{"level": "HIGH", "logo": base64.StdEncoding.EncodeToString(logo.Bytes())}
	const check = 256 * 256
	decoded := (check + 4*1000*500 + 10*logo.Len()) / 5000
	for i, want := range []int{3*(90+1) + decoded, 3 * (90 + 1)} {
		got, r := b.askBill(t, ada.token, `query ($ids: [ID!]!, $s: QrStyleInput) { nodes(ids: $ids) { ... on Link {
			qrCode(style: $s) { svg } } } }`, map[string]any{"ids": ids, "s": style})
		if got != want+4 {
			t.Errorf("request %d: %d, want %d: %.500s", i, got, want+4, r.Text)
		}
	}
	// the longest code of the workspace, with the picture that has been decoded; the shortest has the
	// size of those above
	for i, want := range []int{(check + 4*64*32) / 5000, 0} {
		got, r := b.askBill(t, ada.token, `mutation ($w: ID!, $s: QrStyleInput) { updateWorkspace(input: {
			id: $w, qrStyle: $s}) { errors { message } } }`, map[string]any{"w": ada.workspace.ID(), "s": style})
		if got != 109+2+want {
			t.Errorf("change %d: %d, want %d: %.500s", i, got, 109+2+want, r.Text)
		}
	}
}

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// readQR decodes a PNG image.
func readQR(t *testing.T, raster string) (text string, width int) {
	t.Helper()
	img, err := png.Decode(strings.NewReader(raster))
	if err != nil {
		t.Fatalf("%v: %.100q", err, raster)
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	must.NoError(t, err)
	hints := map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true}
	result, err := qrcode.NewQRCodeReader().Decode(bitmap, hints)
	must.NoError(t, err)
	return result.GetText(), img.Bounds().Dx()
}

// redSquare returns a PNG image of a logo.
func redSquare(t *testing.T, width int) []byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, width, width), color.Palette{color.RGBA{200, 30, 40, 255}})
	var b bytes.Buffer
	must.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

// qrCodeView is a QR code in the API.
type qrCodeView struct {
	Text, SVG, SVGURL, PNGURL string
	Modules                   int
}

// qrCode queries the QR code of a link, with the arguments in GraphQL.
func (w tenant) qrCode(t *testing.T, linkID, arguments string) (view qrCodeView) {
	t.Helper()
	var got struct{ Link struct{ QRCode qrCodeView } }
	w.must(t, &got, `query ($id: ID!) { link(by: {id: $id}) { qrCode`+arguments+` {
		text svg svgUrl pngUrl modules } } }`, map[string]any{"id": linkID})
	return got.Link.QRCode
}

// TestQRCode_IsServed compares the API, the public images and the command, in the default style and in a saved
// one with a logo. Images are only of active links and declared sources, and consume nothing.
func TestQRCode_IsServed(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		s, other := nodes[0], nodes[len(nodes)-1]
		who := s.tenant(t, "printed")
		l := who.shorten(t, "https://example.com/secret-destination", "strategy", "RANDOM", "maxClicks", 1).Link
		who.route(t, l.ID, map[string]any{"qrSources": []string{"flyer"}})
		plain := who.qrCode(t, l.ID, "")
		if plain.Text != l.ShortURL || plain.SVGURL != l.ShortURL+".svg" || plain.Modules < 21 {
			t.Errorf("%+v", plain)
		}
		logo := base64.StdEncoding.EncodeToString(redSquare(t, 60))
		who.setWorkspace(t, map[string]any{"qrStyle": map[string]any{
			"size": 300, "level": "HIGH", "foreground": "#112233", "logo": logo,
		}})
		scanned := who.qrCode(t, l.ID, `(source: "flyer")`)
		if scanned.Text != l.ShortURL+"?qr=flyer" || scanned.PNGURL != l.ShortURL+".png?qr=flyer" {
			t.Errorf("%+v", scanned)
		}
		image := other.expect(t, http.StatusOK, http.MethodGet, l.path(s)+".png?qr=flyer")
		if text, width := readQR(t, image.body); text != scanned.Text || width != 300 {
			t.Errorf("%q with %d pixels, want %q", text, width, scanned.Text)
		}
		document := other.expect(t, http.StatusOK, http.MethodGet, l.path(s)+".svg?qr=flyer&style=x")
		if document.body != scanned.SVG || !strings.Contains(document.body, `fill="#112233"`) {
			t.Errorf("the API has %.300q, the address %.300q", scanned.SVG, document.body)
		}
		file := filepath.Join(t.TempDir(), "logo.png")
		must.NoError(t, os.WriteFile(file, redSquare(t, 60), 0o600))
		tag := document.header.Get("ETag")
		for format, a := range map[string]answer{"svg": document, "png": image} {
			if out := succeed(t, nil, "qr", "--format", format, "--size=300", "--level=HIGH", "--foreground=#112233",
				"--logo", file, scanned.Text); out != a.body {
				t.Errorf("the command renders another %s", format)
			}
			if a.header.Get("ETag") == "" || a.header.Get("Cache-Control") != "public, max-age=3600" ||
				!strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") ||
				strings.Contains(fmt.Sprint(a.header, a.body), "secret-destination") {
				t.Errorf("headers %v", a.header)
			}
		}
		s.expect(t, http.StatusNotModified, http.MethodGet, l.path(s)+".svg?qr=flyer", "If-None-Match", tag)
		head := s.expect(t, http.StatusOK, http.MethodHead, l.path(s)+".svg?qr=flyer")
		if head.header.Get("ETag") != tag || head.body != "" {
			t.Errorf("HEAD: %v, %.100q", head.header, head.body)
		}
		who.setWorkspace(t, map[string]any{"qrStyle": nil})
		same(t, "the default style", who.qrCode(t, l.ID, ""), plain)
		for _, path := range []string{l.path(s) + ".svg?qr=other", l.path(s) + ".png?qr=Flyer", l.path(s) + ".gif",
			l.path(s) + ".svg/x", "/printed/unknown.svg"} {
			s.expect(t, http.StatusNotFound, http.MethodGet, path)
		}
		s.expect(t, http.StatusFound, http.MethodGet, l.path(s)) // the only click
		s.expect(t, http.StatusNotFound, http.MethodGet, l.path(s)+".svg")
	})
}

// TestRefusals_HaveRetryAfter uses up the rates of pages, downloads and images.
func TestRefusals_HaveRetryAfter(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_RATE_LIMITS=on")
	who := s.tenant(t, "limited")
	path := who.shorten(t, "https://example.com/").Link.path(s)
	for _, c := range [][]string{
		{http.MethodGet, "/export/audit/" + who.workspaceID, "", "Authorization", "Bearer " + who.token},
		{http.MethodGet, path + ".png", ""},
		{http.MethodPost, "/password", "token=x&password=correct+horse", "Content-Type", formType},
		{http.MethodPost, "/abuse", "link=x&reason=SPAM", "Content-Type", formType},
	} {
		var a answer
		for n := 0; n < 200 && a.status != http.StatusTooManyRequests; n++ {
			a = must.Value(s.request(c[0], c[1], c[2], c[3:]...))(t)
		}
		if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); a.status != http.StatusTooManyRequests || wait <= 0 {
			t.Errorf("%s: %d with Retry-After %q", c[1], a.status, a.header.Get("Retry-After"))
		}
	}
}

func TestQRCommand_RendersURLs(t *testing.T) {
	t.Parallel()
	const url = "https://go.example/team/abc?qr=flyer"
	folder := t.TempDir()
	logo, file := filepath.Join(folder, "logo.png"), filepath.Join(folder, "code.png")
	must.NoError(t, os.WriteFile(logo, redSquare(t, 100), 0o600))
	if text, width := readQR(t, succeed(t, nil, "qr", "--format=png", url)); text != url || width != 512 {
		t.Errorf("%q, %d pixels", text, width)
	}
	out := succeed(t, nil, "qr", "--level=HIGH", "--logo", logo, "--output", file, url)
	if written := readFile(t, file); out != "" || !strings.HasPrefix(written, "<svg ") {
		t.Errorf("%q: %.200q", out, written)
	}
	for name, args := range map[string][]string{
		"contrast": {"--foreground=#aaaaaa", url}, "level": {"--logo", logo, url}, "size": {"--size=5000", url},
		"scheme": {"javascript:alert(1)"}, "no URL": {}, "format": {"--format=gif", url},
	} {
		out, stderr, status := command(t, nil, "", append([]string{"qr"}, args...)...)
		if status == 0 || out != "" || !strings.HasPrefix(stderr, "linkforge: ") {
			t.Errorf("%s: exit status %d, stdout %.100q, stderr %q", name, status, out, stderr)
		}
	}
}

// TestQRFormat_IsOfNoCode: a code that ended like the address of an image would need another order of lookups.
func TestQRFormat_IsOfNoCode(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"abc.svg", "abc.png"} {
		if qrFormat(resolve.Address{Code: code}) == "" || shortcode.IsCode(code) {
			t.Errorf("%s is a code, or no image", code)
		}
	}
}

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// readQR decodes a PNG image.
func readQR(t *testing.T, raster string) (text string, width int) {
	t.Helper()
	img, err := png.Decode(strings.NewReader(raster))
	if err != nil {
		t.Fatalf("%v: %.100q", err, raster)
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatal(err)
	}
	result, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.GetText(), img.Bounds().Dx()
}

// redSquare returns a PNG image of a logo.
func redSquare(t *testing.T, width int) []byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, width, width), color.Palette{color.RGBA{200, 30, 40, 255}})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestQRCommand_RendersURLs(t *testing.T) {
	t.Parallel()
	const url = "https://go.example/team/abc?qr=flyer"
	folder := t.TempDir()
	logo, file := filepath.Join(folder, "logo.png"), filepath.Join(folder, "code.png")
	if err := os.WriteFile(logo, redSquare(t, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, status := command(t, nil, "", "qr", "--format=png", url)
	if text, width := readQR(t, out); text != url || width != 512 || status != 0 || stderr != "" {
		t.Errorf("%q, %d pixels, exit status %d, %q", text, width, status, stderr)
	}
	out, stderr, status = command(t, nil, "", "qr", "--format=png", "--size=300", "--level=HIGH", "--logo", logo,
		"--output", file, "--foreground=#112233", url)
	written, err := os.ReadFile(file)
	if err != nil || out != "" || stderr != "" || status != 0 {
		t.Fatalf("%v, %q, %q, exit status %d", err, out, stderr, status)
	}
	if text, width := readQR(t, string(written)); text != url || width != 300 {
		t.Errorf("%q, %d pixels", text, width)
	}
	out, _, status = command(t, nil, "", "qr", "--level=HIGH", "--logo", logo, url)
	if status != 0 || !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, "data:image/png;base64,") {
		t.Errorf("exit status %d, %.200q", status, out)
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

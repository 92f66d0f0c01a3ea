package qr

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"rsc.io/qr/coding"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// sampleText returns a text of n bytes.
func sampleText(n int) string {
	const url = "https://go.example/The-quick.brown_fox~jumps/over=13?lazy&dogs#"
	return strings.Repeat(url, n/len(url)+1)[:n]
}

// checkered returns a logo of n x n pixels in two colors.
func checkered(n int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, n, n))
	for y := range n {
		for x := range n {
			if (x*8/n+y*8/n)%2 == 0 {
				img.Set(x, y, color.NRGBA{200, 30, 40, 255})
			} else {
				img.Set(x, y, color.NRGBA{20, 30, 40, 255})
			}
		}
	}
	return img
}

func encodePNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

// TestRender_IsReadBack decodes the longest text of each version and level, and of level HIGH with
// a logo: of each sixth version in a quick run. With LINKFORGE_TEST_QR_FOLDER it also writes images
// and texts there, for scripts/audit/qr.mjs, which reads them by another decoder.
func TestRender_IsReadBack(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("LINKFORGE_TEST_QR_FOLDER")
	logo := encodePNG(t, checkered(300))
	for _, c := range []struct {
		level   Level
		hasLogo bool
	}{{Low, false}, {Medium, false}, {Quartile, false}, {High, false}, {High, true}} {
		t.Run(fmt.Sprintf("%s, logo %t", c.level, c.hasLogo), func(t *testing.T) {
			t.Parallel()
			s := Default()
			s.Level, s.Size = c.level, VerifiedSize
			if c.hasLogo {
				s = s.WithLogo(logo)
			}
			for version := coding.Version(1); version <= coding.MaxVersion; version += suitetest.Size[coding.Version](6,
				1) {
				text := longestText(version, c.level)
				if code, err := New(text, &s); err != nil || code.Modules() != 17+4*int(version) {
					t.Fatalf("version %d: %d modules, %v", version, code.Modules(), err)
				}
				must.NoError(t, s.Verify(text))
				if folder != "" {
					writeSample(t, filepath.Join(folder, fmt.Sprintf("%s-%t-%d", c.level, c.hasLogo, version)), text,
						&s)
				}
			}
		})
	}
}

// longestText returns a text with as many bytes as a version holds at a level: two or three bytes
// hold the length.
func longestText(version coding.Version, level Level) string {
	n := version.DataBytes(levels[level])
	for coding.String(sampleText(n)).Bits(version) > version.DataBytes(levels[level])*8 {
		n--
	}
	return sampleText(n)
}

func writeSample(t *testing.T, path, text string, s *Style) {
	t.Helper()
	img, err := Render(text, s, PNG)
	if err == nil {
		err = os.WriteFile(path+".png", img, 0o600)
	}
	if err == nil {
		err = os.WriteFile(path+".txt", []byte(text), 0o600)
	}
	must.NoError(t, err)
}

// TestRender_FormatsShowTheSameCode reads the modules of the SVG document, and compares them with
// the PNG image.
func TestRender_FormatsShowTheSameCode(t *testing.T) {
	t.Parallel()
	logo := encodePNG(t, checkered(40))
	rapid.Check(t, func(t *rapid.T) {
		s := Default()
		s.Size = rapid.IntRange(minSize, 600).Draw(t, "size")
		s.Margin = rapid.IntRange(minMargin, maxMargin).Draw(t, "margin")
		s.Level = rapid.SampledFrom([]Level{Low, Medium, Quartile, High}).Draw(t, "level")
		if s.Level == High && rapid.Bool().Draw(t, "has logo") {
			s = s.WithLogo(logo)
		}
		text := rapid.StringMatching(`https://[a-z]{1,60}\.example/[a-zA-Z0-9_-]{3,64}`).Draw(t, "text")
		document := must.Value(Render(text, &s, SVG))(t)
		raster := must.Value(Render(text, &s, PNG))(t)
		img := must.Value(png.Decode(bytes.NewReader(raster)))(t)
		dark, width := darkModules(t, document)
		if size := img.Bounds().Dx(); size != max(s.Size, width) || img.Bounds().Dy() != size {
			t.Fatalf("the image has %v pixels, size is %d", img.Bounds(), s.Size)
		}
		pixels := max(1, img.Bounds().Dx()/width)
		start := (img.Bounds().Dx() - (width-2*s.Margin)*pixels) / 2
		for y := range width - 2*s.Margin {
			for x := range width - 2*s.Margin {
				if s.HasLogo() && isNearMiddle(x, width-2*s.Margin) && isNearMiddle(y, width-2*s.Margin) {
					continue
				}
				at := image.Pt(start+x*pixels+pixels/2, start+y*pixels+pixels/2)
				r, _, _, _ := img.At(at.X, at.Y).RGBA()
				if isDark := r < 1<<15; isDark != dark[image.Pt(x+s.Margin, y+s.Margin)] {
					t.Fatalf("the module %d, %d is dark in one format", x, y)
				}
			}
		}
	})
}

func isNearMiddle(at, modules int) bool {
	return float64(at)+1 >= float64(modules)*0.4-1 && float64(at) <= float64(modules)*0.6+1
}

// darkModules reads an SVG document, which must be well-formed.
func darkModules(t *rapid.T, document []byte) (dark map[image.Point]bool, width int) {
	dark = map[image.Point]bool{}
	decoder := xml.NewDecoder(bytes.NewReader(document))
	for paths := 0; ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return dark, width
		}
		must.NoError(t, err)
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, attribute := range element.Attr {
			switch {
			case attribute.Name.Local == "viewBox":
				fmt.Sscanf(attribute.Value, "0 0 %d", &width)
			case attribute.Name.Local == "d":
				if paths++; paths != 2 {
					continue // the first is the background
				}
				for _, run := range strings.SplitAfter(attribute.Value, "z") {
					var x, y, n, back int
					if _, err := fmt.Sscanf(run, "M%d %dh%dv1h%dz", &x, &y, &n, &back); err != nil && run != "" {
						t.Fatalf("%q: %v", run, err)
					}
					for i := range n {
						dark[image.Pt(x+i, y)] = true
					}
				}
			}
		}
	}
}

// TestStyle_VerifyReadsShortURLs has codes that the reader of photos does not find, about one in
// two hundred.
func TestStyle_VerifyReadsShortURLs(t *testing.T) {
	t.Parallel()
	s := Default()
	for i := range suitetest.Size(100, 1000) {
		if err := s.Verify(fmt.Sprintf("http://127.0.0.1:%d/aaa", 10_000+i)); err != nil {
			t.Error(i, err)
		}
	}
}

func TestRender_RefusesTooLongText(t *testing.T) {
	t.Parallel()
	s := Default()
	s.Level = High
	must.Value(New(sampleText(1273), &s))(t)
	if _, err := New(sampleText(1274), &s); err == nil {
		t.Error("a text of 1,274 bytes was encoded at level HIGH")
	}
}

func change(edit func(*Change)) *Change {
	c := &Change{}
	edit(c)
	return c
}

func TestChange_RefusesUnreadableStyles(t *testing.T) {
	t.Parallel()
	small := base64.StdEncoding.EncodeToString(encodePNG(t, checkered(40)))
	for name, c := range map[string]struct {
		change *Change
		field  string
	}{
		"small":           {change(func(c *Change) { c.Size = optional.Set(new(127)) }), "size"},
		"large":           {change(func(c *Change) { c.Size = optional.Set(new(2049)) }), "size"},
		"narrow margin":   {change(func(c *Change) { c.Margin = optional.Set(new(3)) }), "margin"},
		"wide margin":     {change(func(c *Change) { c.Margin = optional.Set(new(17)) }), "margin"},
		"unknown level":   {change(func(c *Change) { c.Level = optional.Set(new(Level("MAX"))) }), "level"},
		"color name":      {change(func(c *Change) { c.Foreground = optional.Set(new("black")) }), "foreground"},
		"markup":          {change(func(c *Change) { c.Background = optional.Set(new(`"/><a/>`)) }), "background"},
		"low contrast":    {change(func(c *Change) { c.Foreground = optional.Set(new("#999999")) }), "foreground"},
		"equal colors":    {change(func(c *Change) { c.Background = optional.Set(new("#000000")) }), "foreground"},
		"logo at MEDIUM":  {change(func(c *Change) { c.Logo = optional.Set(&small) }), "level"},
		"logo not base64": {change(func(c *Change) { c.Logo = optional.Set(new("%")) }), "logo"},
		"inverted": {change(func(c *Change) {
			c.Foreground, c.Background = optional.Set(new("#ffffff")), optional.Set(new("#000000"))
		}), "foreground"},
	} {
		_, err := c.change.Apply(Default())
		if !errs.Is(err, errs.InvalidInput) || strings.Join(errs.From(err).Field, ".") != c.field {
			t.Errorf("%s: got %v at %v", name, err, errs.From(err).Field)
		}
	}
}

func TestChange_KeepsAndResetsFields(t *testing.T) {
	t.Parallel()
	logo := base64.StdEncoding.EncodeToString(encodePNG(t, checkered(40)))
	branded, err := change(func(c *Change) {
		c.Size, c.Level, c.Logo = optional.Set(new(128)), optional.Set(new(High)), optional.Set(&logo)
		c.Foreground = optional.Set(new("#1A2B3C"))
	}).Apply(Default())
	if err != nil || !branded.HasLogo() || branded.Foreground != "#1a2b3c" || branded.Margin != minMargin {
		t.Fatalf("%v, %+v", err, branded)
	}
	if same, err := (&Change{}).Apply(branded); err != nil || !same.Equal(&branded) {
		t.Errorf("an empty change gives %v, %+v", err, same)
	}
	reset, err := change(func(c *Change) {
		c.Size.Set, c.Margin.Set, c.Level.Set, c.Logo.Set = true, true, true, true
		c.Foreground.Set, c.Background.Set = true, true
	}).Apply(branded)
	if standard := Default(); err != nil || !reset.Equal(&standard) {
		t.Errorf("null in all fields gives %v, %+v", err, reset)
	}
}

// TestLogo_RefusesBeforeDecoding has images that would take much memory or time to decode.
func TestLogo_RefusesBeforeDecoding(t *testing.T) {
	t.Parallel()
	var baseline bytes.Buffer
	must.NoError(t, jpeg.Encode(&baseline, checkered(64), nil))
	huge := encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 1)))
	copy(huge[16:], []byte{0, 0, 0x7f, 0xff, 0, 0, 0x7f, 0xff}) // width and height; the checksum no longer fits
	manyScans := bytes.Replace(baseline.Bytes(), startOfScan, bytes.Repeat(startOfScan, maxScans+1), 1)
	for name, c := range map[string]struct {
		logo []byte
		want string
	}{
		"65 KiB":        {append(encodePNG(t, checkered(8)), make([]byte, MaxLogo)...), "64 KiB"},
		"wide":          {encodePNG(t, image.NewGray(image.Rect(0, 0, 1025, 1))), "1024 x 1024"},
		"high":          {encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 1025))), "1024 x 1024"},
		"broken header": {huge, "cannot be decoded"},
		"many scans":    {manyScans, "24 scans"},
		"cut":           {baseline.Bytes()[:baseline.Len()/2], "cannot be decoded"},
		"SVG":           {[]byte("<svg/>"), "PNG or JPEG"},
		"GIF":           {[]byte("GIF89a\x01\x00\x01\x00"), "PNG or JPEG"},
	} {
		style := Default()
		style.Level = High
		err := checkLogo(c.logo)
		if err == nil {
			style = style.WithLogo(c.logo)
			err = style.Verify("https://go.example/abc")
		}
		if !errs.Is(err, errs.InvalidInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for _, logo := range map[string][]byte{
		"PNG": encodePNG(t, checkered(1024)), "JPEG": baseline.Bytes(),
		"one pixel": encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 1))),
	} {
		must.NoError(t, checkLogo(logo))
	}
}

// TestStyle_VerifyReadsImages checks that Verify refuses what its decoder cannot read.
func TestStyle_VerifyReadsImages(t *testing.T) {
	t.Parallel()
	s := Default()
	s.Foreground = s.Background // check refuses it
	errstest.Want(t, errs.InvalidInput, "an empty image")(s.Verify("https://go.example/abc"))
}

func FuzzChange_RendersOrRefuses(f *testing.F) {
	f.Add(512, 4, "HIGH", "#000000", "#ffffff", encodeBase64(checkered(8)))
	f.Add(128, 16, "LOW", "#123456", "#fedcba", "")
	f.Fuzz(func(t *testing.T, size, margin int, level, foreground, background, logo string) {
		s, err := change(func(c *Change) {
			c.Size, c.Margin, c.Level = optional.Set(&size), optional.Set(&margin), optional.Set((*Level)(&level))
			c.Foreground, c.Background, c.Logo = optional.Set(&foreground), optional.Set(
				&background), optional.Set(&logo)
		}).Apply(Default())
		if err != nil {
			if !errs.Is(err, errs.InvalidInput) {
				t.Errorf("got %v", err)
			}
			return
		}
		if err := s.Verify("https://go.example/abc"); err != nil {
			if !errs.Is(err, errs.InvalidInput) {
				t.Errorf("got %v", err)
			}
			return
		}
		s.Size = min(s.Size, 256)
		for _, format := range []Format{SVG, PNG} {
			if _, err := Render("https://go.example/abc", &s, format); err != nil {
				t.Error(err)
			}
		}
	})
}

func encodeBase64(img image.Image) string {
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

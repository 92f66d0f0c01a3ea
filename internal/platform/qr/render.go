package qr

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"strconv"
	"strings"

	scale "golang.org/x/image/draw"
)

// logoFraction is the part of the code's width that a logo covers.
const logoFraction = 0.2

// Format is a format of images. Its text is the ending of public addresses, after a dot.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// Render returns the image of a text in a style that Apply has returned.
func Render(text string, s *Style, format Format) ([]byte, error) {
	return render(text, s, format, nil)
}

func render(text string, s *Style, format Format, p *pictures) ([]byte, error) {
	c, err := New(text, s)
	if err != nil {
		return nil, err
	}
	c.pictures = p
	if format == PNG {
		return c.png()
	}
	return []byte(c.SVG()), nil
}

// Code is the QR code of a text in a style.
type Code struct {
	*code
	text     string
	style    *Style
	pictures *pictures
}

// New encodes a text in a style that Apply has returned. It returns an error for a text that is too
// long for a code: more than 1,273 bytes at level HIGH, 2,953 at LOW.
func New(text string, s *Style) (*Code, error) {
	if s.HasLogo() && len(s.Logo) == 0 {
		return nil, errors.New("the logo of a QR code has not been loaded")
	}
	c, err := encode(text, s.Level)
	if err != nil {
		return nil, err
	}
	return &Code{code: c, text: text, style: s}, nil
}

// Modules returns the modules per side, without the margin.
func (c *Code) Modules() int { return c.modules }

// SVG returns the code as an SVG document, which has neither scripts nor references.
func (c *Code) SVG() string {
	width, margin := c.modules+2*c.style.Margin, c.style.Margin
	b := new(strings.Builder)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`,
		c.style.Size, c.style.Size, width, width)
	fmt.Fprintf(b, `<path fill="%s" d="M0 0h%dv%dH0z"/>`, c.style.Background, width, width)
	fmt.Fprintf(b, `<path fill="%s" shape-rendering="crispEdges" d="`, c.style.Foreground)
	for y := range c.modules {
		for x := 0; x < c.modules; x++ {
			run := c.darkRun(x, y)
			if run > 0 {
				fmt.Fprintf(b, "M%d %dh%dv1h-%dz", x+margin, y+margin, run, run)
			}
			x += run
		}
	}
	b.WriteString(`"/>`)
	c.writeLogo(b)
	b.WriteString("</svg>\n")
	return b.String()
}

// darkRun returns the number of dark modules in a row from a module on.
func (c *Code) darkRun(x, y int) (n int) {
	for x+n < c.modules && c.isDark(x+n, y) {
		n++
	}
	return n
}

// writeLogo covers the middle of an SVG document.
func (c *Code) writeLogo(b *strings.Builder) {
	format := formatOf(c.style.Logo)
	if format == nil {
		return
	}
	side := float64(c.modules) * logoFraction
	at := strconv.FormatFloat(float64(c.style.Margin)+(float64(c.modules)-side)/2, 'f', -1, 32)
	width := strconv.FormatFloat(side, 'f', -1, 32)
	box := fmt.Sprintf(`x="%s" y="%s" width="%s" height="%s"`, at, at, width, width)
	fmt.Fprintf(b, `<rect fill="%s" %s/><image %s href="data:%s;base64,`, c.style.Background, box, box,
		format.mediaType)
	b.WriteString(base64.StdEncoding.EncodeToString(c.style.Logo))
	b.WriteString(`"/>`)
}

// png returns the code as a PNG image of the style's size. Modules have a whole number of pixels,
// because readers measure them; the rest widens the margin. A code with more modules than pixels is
// larger.
func (c *Code) png() ([]byte, error) {
	img, err := c.image(c.style.Size)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed} // runs of two colors
	if err := encoder.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encoding a PNG image: %w", err)
	}
	return b.Bytes(), nil
}

// image renders the code with a width in pixels.
func (c *Code) image(size int) (image.Image, error) {
	width := c.modules + 2*c.style.Margin
	pixels := max(1, size/width) // per module
	size = max(size, width)
	colors := color.Palette{opaque(c.style.Background), opaque(c.style.Foreground)}
	img := image.NewPaletted(image.Rect(0, 0, size, size), colors)
	start := (size - c.modules*pixels) / 2
	for y := range c.modules {
		first := img.Pix[(start+y*pixels)*img.Stride:][:size]
		for x := range c.modules * pixels {
			if c.isDark(x/pixels, y) {
				first[start+x] = 1
			}
		}
		for i := 1; i < pixels; i++ {
			copy(img.Pix[(start+y*pixels+i)*img.Stride:], first)
		}
	}
	if !c.style.HasLogo() {
		return img, nil
	}
	return c.withLogo(img, start, c.modules*pixels, size)
}

func opaque(hex string) color.Color {
	parts := rgb(hex)
	return color.RGBA{parts[0], parts[1], parts[2], 255}
}

// withLogo returns a copy of an image of a size whose code, from a pixel on and of a width, has the logo in
// its middle.
func (c *Code) withLogo(from *image.Paletted, start, width, size int) (image.Image, error) {
	logo, err := c.pictures.of(c.style, size)
	if err != nil {
		return nil, err
	}
	img := image.NewRGBA(from.Bounds())
	draw.Draw(img, img.Bounds(), from, image.Point{}, draw.Src)
	side := int(float64(width)*logoFraction + 0.5)
	at := start + (width-side)/2
	box := image.Rect(at, at, at+side, at+side)
	draw.Draw(img, box, image.NewUniform(opaque(c.style.Background)), image.Point{}, draw.Src)
	scale.CatmullRom.Scale(img, fit(box, logo.Bounds()), logo, logo.Bounds(), scale.Over, nil)
	return img, nil
}

// fit returns the largest rectangle in the middle of a square that has the proportions of a
// picture.
func fit(square, picture image.Rectangle) image.Rectangle {
	side, w, h := square.Dx(), picture.Dx(), picture.Dy()
	width, height := side, side
	if w > h {
		height = max(1, side*h/w)
	} else {
		width = max(1, side*w/h)
	}
	at := square.Min.Add(image.Pt((side-width)/2, (side-height)/2))
	return image.Rectangle{Min: at, Max: at.Add(image.Pt(width, height))}
}

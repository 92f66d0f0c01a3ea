package qr

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// The limits of logos.
const (
	MaxLogo      = 64 << 10 // bytes
	maxLogoWidth = 1024     // pixels, also of the height
	// maxScans bounds the passes of a progressive JPEG over its pixels. Encoders write about ten; a
	// pass of a few bytes takes the decoder as long as a full one.
	maxScans = 24
	// pixelsPerByte is how many pixels are scaled in the time in which a byte is decoded.
	pixelsPerByte = 10
)

// logoFormat is a format of logos. The decoders are called directly, because a process may register
// others with package image.
type logoFormat struct {
	signature, mediaType string
	config               func(*bytes.Reader) (image.Config, error)
	decode               func(*bytes.Reader) (image.Image, error)
}

var logoFormats = [...]logoFormat{
	{
		"\x89PNG\r\n\x1a\n", "image/png",
		func(r *bytes.Reader) (image.Config, error) { return png.DecodeConfig(r) },
		func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) },
	},
	{
		"\xff\xd8\xff", "image/jpeg",
		func(r *bytes.Reader) (image.Config, error) { return jpeg.DecodeConfig(r) },
		func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
	},
}

// startOfScan begins a pass over the pixels of a JPEG. Compressed data do not contain it.
var startOfScan = []byte{0xff, 0xda}

// decodeLogo returns the image in a text of base64; nothing for an empty text. It returns
// InvalidInput.
func decodeLogo(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if base64.StdEncoding.DecodedLen(len(text)) > MaxLogo+2 { // padding
		return nil, errLogoSize()
	}
	logo, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errs.New(errs.InvalidInput, "logo must be base64, with padding and without a data: prefix.").
			Because(err)
	}
	if err := checkLogo(logo); err != nil {
		return nil, err
	}
	return logo, nil
}

// checkLogo refuses other data than a logo, and a large logo, with InvalidInput. It does not decode
// the pixels.
func checkLogo(logo []byte) error {
	if len(logo) > MaxLogo {
		return errLogoSize()
	}
	format := formatOf(logo)
	if format == nil {
		return errs.New(errs.InvalidInput, "logo must be a PNG or JPEG image.")
	}
	size, err := format.config(bytes.NewReader(logo))
	switch {
	case err != nil:
		return errLogoDamaged(err)
	case size.Width > maxLogoWidth || size.Height > maxLogoWidth || size.Width < 1 || size.Height < 1:
		return errs.New(errs.InvalidInput, "logo must have at most %d x %d pixels; it has %d x %d.",
			maxLogoWidth, maxLogoWidth, size.Width, size.Height)
	case bytes.Count(logo, startOfScan) > maxScans:
		return errs.New(errs.InvalidInput, "logo must have at most %d scans. Save it as PNG or as baseline JPEG.",
			maxScans)
	}
	return nil
}

// logoWork is the work of decoding and scaling a logo that checkLogo has accepted, in pixels: a
// pass over all of them takes as long with few bytes as with many, and each byte as long as
// pixelsPerByte.
func logoWork(logo []byte) int {
	format := formatOf(logo)
	if format == nil {
		return 0
	}
	size, err := format.config(bytes.NewReader(logo))
	if err != nil {
		return 0
	}
	return size.Width*size.Height*(scalingPasses+bytes.Count(logo, startOfScan)) + pixelsPerByte*len(logo)
}

func errLogoSize() error {
	return errs.New(errs.InvalidInput, "logo must have at most %d KiB.", MaxLogo>>10)
}

func errLogoDamaged(cause error) error {
	return errs.New(errs.InvalidInput, "logo cannot be decoded. Save it again as PNG or JPEG.").Because(cause)
}

func formatOf(logo []byte) *logoFormat {
	for i := range logoFormats {
		if f := &logoFormats[i]; bytes.HasPrefix(logo, []byte(f.signature)) {
			return f
		}
	}
	return nil
}

package qr

import (
	"bytes"
	"image"
	"image/draw"

	"github.com/maypok86/otter/v2"
	scale "golang.org/x/image/draw"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/memo"
)

const (
	// imageSide is the side in pixels of the square into which a logo of the largest image fits,
	// checkSide one that suffices at VerifiedSize.
	imageSide, checkSide = maxSize / 4, 64
	// maxPictureBytes bounds the pictures that a Renderer remembers: 16 in imageSide.
	maxPictureBytes = 16 << 20
	// scalingPasses is how often scaling reads each pixel of a picture.
	scalingPasses = 4
)

// pictures has decoded logos, reduced to a side, so that a logo is decoded once for all styles and
// texts. Nil decodes each time, and reduces nothing.
type pictures struct {
	reduced memo.Cache[pictureKey, *image.RGBA]
}

type pictureKey struct {
	hash string
	side int
}

func newPictures() *pictures {
	return &pictures{memo.New(&otter.Options[pictureKey, *image.RGBA]{
		MaximumWeight: maxPictureBytes,
		Weigher:       func(_ pictureKey, p *image.RGBA) uint32 { return uint32(len(p.Pix)) },
	})}
}

// of returns the logo of a style for an image of a size. It returns InvalidInput for a damaged logo.
func (p *pictures) of(s *Style, size int) (image.Image, error) {
	switch {
	case p == nil:
		return decodePicture(s.Logo)
	case size > VerifiedSize:
		return p.fitting(s, imageSide, func() (image.Image, error) { return decodePicture(s.Logo) })
	}
	return p.fitting(s, checkSide, func() (image.Image, error) { return p.of(s, maxSize) })
}

// fitting returns the picture of a side, which it makes from another one if it is not remembered.
func (p *pictures) fitting(s *Style, side int, from func() (image.Image, error)) (*image.RGBA, error) {
	key := pictureKey{s.LogoHash, side}
	if picture, ok := p.reduced.GetIfPresent(key); ok {
		return picture, nil
	}
	larger, err := from()
	if err != nil {
		return nil, err
	}
	picture := reduce(larger, side)
	p.reduced.Set(key, picture)
	return picture, nil
}

// work is the work of the logo in a check, in pixels.
func (p *pictures) work(s *Style) int {
	if p != nil {
		if picture, ok := p.reduced.GetIfPresent(pictureKey{s.LogoHash, checkSide}); ok {
			return scalingPasses * picture.Rect.Dx() * picture.Rect.Dy()
		}
	}
	return logoWork(s.Logo)
}

// decodePicture decodes a logo that checkLogo has accepted. It returns InvalidInput.
func decodePicture(logo []byte) (image.Image, error) {
	picture, err := formatOf(logo).decode(bytes.NewReader(logo))
	if err != nil {
		return nil, errs.From(errLogoDamaged(err)).At("logo")
	}
	return picture, nil
}

// reduce returns a picture in a square with a side, or in its own size if that is smaller.
func reduce(picture image.Image, side int) *image.RGBA {
	size := picture.Bounds().Sub(picture.Bounds().Min)
	if size.Dx() <= side && size.Dy() <= side {
		same := image.NewRGBA(size)
		draw.Draw(same, size, picture, picture.Bounds().Min, draw.Src)
		return same
	}
	box := fit(image.Rect(0, 0, side, side), size)
	reduced := image.NewRGBA(box.Sub(box.Min))
	scale.CatmullRom.Scale(reduced, reduced.Rect, picture, picture.Bounds(), scale.Src, nil)
	return reduced
}

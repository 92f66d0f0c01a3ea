package qr

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/memo"
)

const (
	// maxVerdicts is how many checks of styles a Renderer remembers.
	maxVerdicts = 10_000
	// maxImageBytes bounds the images that a Renderer remembers.
	maxImageBytes = 16 << 20
	// A page of links may have a code in each item.
	maxOwnWaiting, maxAllWaiting = 200, 2000
	maxWait                      = 5 * time.Second
)

// Renderer does the work of a node that takes milliseconds of a processor: it checks styles and
// renders images, one at a time, so that most of the processors serve redirects. Owners take turns.
type Renderer struct {
	queue *admission.Queue
	// verdicts has the results of checks by the hash of the style and the size of the code.
	verdicts memo.Cache[[sha256.Size]byte, verdict]
	// images has rendered images by the hash of the style, the text and the format.
	images   memo.Cache[[sha256.Size]byte, []byte]
	pictures *pictures
}

// verdict is the result of a check; nil if codes can be read.
type verdict struct{ err error }

// NewRenderer returns a Renderer.
func NewRenderer() *Renderer {
	return &Renderer{
		queue: admission.New(admission.Config{
			Name: "QR codes", Capacity: 1, Share: 1, Waiting: maxOwnWaiting, AllWaiting: maxAllWaiting,
			MaxWait: maxWait,
		}),
		verdicts: memo.New(&otter.Options[[sha256.Size]byte, verdict]{MaximumSize: maxVerdicts}),
		images: memo.New(&otter.Options[[sha256.Size]byte, []byte]{
			MaximumWeight: maxImageBytes,
			Weigher:       func(_ [sha256.Size]byte, image []byte) uint32 { return uint32(len(image)) },
		}),
		pictures: newPictures(),
	}
}

// Verify is Style.Verify, done once for all texts whose codes have the same size. charge is called
// before the work, with its extent in pixels. Verify also returns the errors of charge, RateLimited
// and Unavailable.
func (r *Renderer) Verify(
	ctx context.Context, owner string, charge func(ctx context.Context, pixels int) error, s *Style, texts ...string,
) error {
	for _, text := range texts {
		c, err := New(text, s)
		if err == nil {
			err = r.VerifyCode(ctx, owner, charge, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// VerifyCode is Verify for the text of a code.
func (r *Renderer) VerifyCode(
	ctx context.Context, owner string, charge func(ctx context.Context, pixels int) error, c *Code,
) error {
	v, err := r.verdict(ctx, owner, charge, c)
	if err != nil {
		return err
	}
	return v.err
}

func (r *Renderer) verdict(
	ctx context.Context, owner string, charge func(context.Context, int) error, c *Code,
) (verdict, error) {
	key, err := c.styleKey()
	if err != nil {
		return verdict{}, err
	}
	if v, ok := r.verdicts.GetIfPresent(key); ok {
		return v, nil
	}
	turn, err := r.queue.Enter(ctx, 1, owner)
	if err != nil {
		return verdict{}, err
	}
	defer turn.Leave()
	if v, ok := r.verdicts.GetIfPresent(key); ok { // checked while this call waited
		return v, nil
	}
	if err := charge(ctx, VerifiedSize*VerifiedSize+r.pictures.work(c.style)); err != nil {
		return verdict{}, err
	}
	checked := *c
	checked.pictures = r.pictures
	v := verdict{checked.verify()}
	r.verdicts.Set(key, v)
	return v, nil
}

// styleKey is the hash of the inputs of a check.
func (c *Code) styleKey() (key [sha256.Size]byte, err error) {
	s := *c.style
	s.Size = VerifiedSize
	return hashOf(&s, c.modules)
}

// hashOf is the hash of a style and of its use.
func hashOf(s *Style, of any) (key [sha256.Size]byte, err error) {
	encoded, err := json.Marshal([]any{s, of})
	if err != nil {
		return key, fmt.Errorf("encoding the style of a QR code: %w", err)
	}
	return sha256.Sum256(encoded), nil
}

// Render is the function Render. It also returns RateLimited and Unavailable.
func (r *Renderer) Render(ctx context.Context, owner, text string, s *Style, format Format) ([]byte, error) {
	key, err := hashOf(s, []any{text, format})
	if err != nil {
		return nil, err
	}
	if image, ok := r.images.GetIfPresent(key); ok {
		return image, nil
	}
	turn, err := r.queue.Enter(ctx, 1, owner)
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	image, err := render(text, s, format, r.pictures)
	if err == nil {
		r.images.Set(key, image)
	}
	return image, err
}

package routing

import (
	"strings"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/flat"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Card is what preview crawlers are shown instead of a redirect. Nil values are not shown.
type Card struct {
	Title       string  `json:"title"`
	Description *string `json:"description,omitempty"`
	// ImageURL is shown, and fetched by crawlers only.
	ImageURL *string `json:"imageUrl,omitempty"`
	// ImageAlt is the alternative text of the image.
	ImageAlt *string `json:"imageAlt,omitempty"`
}

// The limits of a card, in characters.
const (
	maxCardTitle       = 200
	maxCardDescription = 500
	maxImageAlt        = 200
)

func (c *checker) card(card *Card) {
	c.text("title", &card.Title, maxCardTitle)
	c.text("description", card.Description, maxCardDescription)
	c.text("imageAlt", card.ImageAlt, maxImageAlt)
	if card.ImageURL != nil {
		c.in("imageUrl", func() { *card.ImageURL = c.imageURL(*card.ImageURL) })
	}
}

// imageURL validates a URL that pages load without a click of the visitor.
func (c *checker) imageURL(url string) string {
	const https = "https://"
	url = urlnorm.Trim(url)
	if len(url) < len(https) || !strings.EqualFold(url[:len(https)], https) {
		c.fail(errs.New(errs.InvalidURL, "The URL of an image must start with https://."))
		return url
	}
	return c.url(url)
}

// imageURLs returns the URL of the card's image, with its position.
func (card *Card) imageURLs() []URL {
	if card == nil || card.ImageURL == nil {
		return nil
	}
	return []URL{{Field: []string{"card", "imageUrl"}, URL: *card.ImageURL, IsImage: true}}
}

// appendCard appends a card. ImageURL becomes safe for a header.
func appendCard(b []byte, card *Card) []byte {
	b = flat.AppendText(b, card.Title)
	b = flat.AppendText(b, optional.Value(card.Description))
	b = flat.AppendText(b, fallbackText(card.ImageURL))
	return flat.AppendText(b, optional.Value(card.ImageAlt))
}

// HasCard reports whether the routing has a card.
func (c Compiled) HasCard() bool { return c.has(hasCard) }

// CardTexts are the texts of a card. Empty texts are not shown.
type CardTexts struct {
	Title, Description string
	// ImageURL has only the bytes that a header may have.
	ImageURL, ImageAlt string
}

// Card returns the card of a routing that has one.
func (c Compiled) Card() CardTexts {
	r := c.afterGate()
	r.Text()
	r.Text()
	return readCard(&r)
}

func readCard(r *flat.Reader) (t CardTexts) {
	t.Title, t.Description, t.ImageURL, t.ImageAlt = r.Text(), r.Text(), r.Text(), r.Text()
	return t
}

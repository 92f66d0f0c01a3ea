package routing

import (
	"github.com/linkforge/linkforge/internal/platform/optional"
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

// imageURLs returns the URL of the card's image, with its position.
func (card *Card) imageURLs() []URL {
	if card == nil || card.ImageURL == nil {
		return nil
	}
	return []URL{{Field: []string{"card", "imageUrl"}, URL: *card.ImageURL, IsImage: true}}
}

// appendCard appends a card. ImageURL becomes safe for a header.
func appendCard(b []byte, card *Card) []byte {
	b = AppendText(b, card.Title)
	b = AppendText(b, optional.Value(card.Description))
	b = AppendText(b, fallbackText(card.ImageURL))
	return AppendText(b, optional.Value(card.ImageAlt))
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

func readCard(r *FlatReader) (t CardTexts) {
	t.Title, t.Description, t.ImageURL, t.ImageAlt = r.Text(), r.Text(), r.Text(), r.Text()
	return t
}

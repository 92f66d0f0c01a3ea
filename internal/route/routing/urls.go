package routing

import (
	"strconv"
	"strings"
)

// URL is a URL of a routing and its place, as in rules, 0, targets, 1, url.
type URL struct {
	Field []string
	URL   string
	// IsTemplate means that the URL has placeholders.
	IsTemplate bool
	// IsImage means that the URL is no destination: nothing requests it but crawlers.
	IsImage bool
}

// EnabledURLs returns the URLs that the rules may choose; the link's own is not among them.
func (r *Routing) EnabledURLs() (urls []string) {
	if r == nil {
		return nil
	}
	for _, rule := range r.Rules {
		for _, target := range rule.Targets {
			if rule.isEnabled() && target.EffectiveShare() > 0 && target.URL != nil {
				urls = append(urls, *target.URL)
			}
		}
	}
	return urls
}

// URLs returns all URLs of a routing, with their positions. A nil routing has none.
func (r *Routing) URLs() (urls []URL) {
	if r == nil {
		return nil
	}
	for i, rule := range r.Rules {
		for j, target := range rule.Targets {
			if target.URL != nil {
				field := []string{"rules", strconv.Itoa(i), "targets", strconv.Itoa(j), "url"}
				urls = append(urls, URL{Field: field, URL: *target.URL})
			}
		}
	}
	if r.PendingURL != nil {
		urls = append(urls, fallbackURL("pendingUrl", *r.PendingURL))
	}
	if r.EndedURL != nil {
		urls = append(urls, fallbackURL("endedUrl", *r.EndedURL))
	}
	return append(urls, r.Card.imageURLs()...)
}

func fallbackURL(field, url string) URL {
	return URL{Field: []string{field}, URL: url, IsTemplate: WithoutPlaceholders(url) != url}
}

// WithoutPlaceholders returns a fallback URL with sample values, which has the same host.
func WithoutPlaceholders(url string) string {
	return strings.NewReplacer("{code}", "code", "{host}", "host").Replace(url)
}

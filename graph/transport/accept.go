package transport

import (
	"mime"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// The media types of responses. The first distinguishes a GraphQL server's response from a proxy's,
// and the last is that of server-sent events.
const (
	mediaGraphQL = "application/graphql-response+json"
	mediaJSON    = "application/json"
	mediaEvents  = "text/event-stream"
)

// ranges are the media ranges of an Accept field with their quality, from 0 to 1.
type ranges map[string]float64

// negotiate returns the media type that the client prefers (RFC 9110, section 12.5.1). Clients that
// state no preference are the older ones: they get plain JSON.
func (r ranges) negotiate() (media string, ok bool) {
	own, plain := r.quality(mediaGraphQL), r.quality(mediaJSON)
	_, named := r[mediaGraphQL]
	if own > plain || own > 0 && own == plain && named {
		return mediaGraphQL, true
	}
	return mediaJSON, plain > 0
}

// events reports whether the client names server-sent events: a client that accepts everything does
// not expect them.
func (r ranges) events() bool { return r[mediaEvents] > 0 }

// parseAccept reads Accept fields: if all are empty, everything is acceptable.
func parseAccept(fields []string) ranges {
	if strings.TrimSpace(strings.Join(fields, "")) == "" {
		return ranges{"*/*": 1}
	}
	all := ranges{}
	for one := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		q := 1.0
		if value, said := parameters["q"]; said {
			q = web.Quality(value)
		}
		if known, twice := all[kind]; !twice || q > known {
			all[kind] = q
		}
	}
	return all
}

// quality returns that of the most specific range that includes the media type.
func (r ranges) quality(media string) float64 {
	group, _, _ := strings.Cut(media, "/")
	for _, kind := range []string{media, group + "/*", "*/*"} {
		if q, said := r[kind]; said {
			return q
		}
	}
	return 0
}

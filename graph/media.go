package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"strings"

	"github.com/linkforge/linkforge/internal/web"
)

// The media types of an answer. The first tells a GraphQL server's answer from a proxy's.
const (
	mediaGraphQL = "application/graphql-response+json"
	mediaJSON    = "application/json"
)

// ranges are the media ranges of an Accept field, and how much each is liked, from 0 to 1.
type ranges map[string]float64

// negotiate picks the media type that the client likes best (RFC 9110, section 12.5.1). Plain JSON is for clients that do
// not say, or take anything: those are the older ones.
func (r ranges) negotiate() (media string, ok bool) {
	own, plain := r.quality(mediaGraphQL), r.quality(mediaJSON)
	_, named := r[mediaGraphQL]
	if own > plain || own > 0 && own == plain && named {
		return mediaGraphQL, true
	}
	return mediaJSON, plain > 0
}

// events says that a client takes server-sent events, and says so: no browser's page expects them unasked.
func (r ranges) events() bool { return r[mediaEvents] > 0 }

// parseAccept reads the fields: where there are none, or they say nothing, anything is taken.
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

// quality is how much a media type is liked: what names it goes before what includes it.
func (r ranges) quality(media string) float64 {
	group, _, _ := strings.Cut(media, "/")
	for _, kind := range []string{media, group + "/*", "*/*"} {
		if q, said := r[kind]; said {
			return q
		}
	}
	return 0
}

func isJSON(contentType string) bool {
	kind, parameters, err := mime.ParseMediaType(contentType)
	charset := parameters["charset"]
	return err == nil && kind == mediaJSON && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// unmarshal reads one JSON value and nothing after it. Numbers stay as they were written.
func unmarshal(body []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	return requireEnd(decoder)
}

// requireEnd returns an error if there is anything but space left to read.
func requireEnd(decoder *json.Decoder) error {
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}

// unmarshalObject reads one JSON object, or null, into the targets by the exact names of its members: for a struct,
// encoding/json accepts names in any case. Members with other names are ignored. If a name is repeated, the last member
// counts. Numbers stay as they were written.
func unmarshalObject(body []byte, targets map[string]any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	start, err := decoder.Token()
	if err != nil || start != nil && start != json.Delim('{') {
		return cmp.Or(err, errors.New("the value is not an object"))
	}
	for start != nil && decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		target := cmp.Or(targets[name.(string)], any(&json.RawMessage{}))
		reflect.ValueOf(target).Elem().SetZero() // two objects of one name would be merged
		if err := decoder.Decode(target); err != nil {
			return err
		}
	}
	if start != nil {
		if _, err := decoder.Token(); err != nil {
			return err
		}
	}
	return requireEnd(decoder)
}

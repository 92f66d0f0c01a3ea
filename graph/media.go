package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"strconv"
	"strings"
)

// The media types of an answer. The first tells a GraphQL server's answer from a proxy's.
const (
	mediaGraphQL = "application/graphql-response+json"
	mediaJSON    = "application/json"
)

// negotiate picks the media type that the client likes best. Plain JSON is for clients that do not say, or take
// anything: those are the older ones.
func negotiate(accept []string) (media string, ok bool) {
	if len(accept) == 0 {
		return mediaJSON, true
	}
	best := map[string]float64{}
	for _, one := range strings.Split(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(parameters["q"], 64)
		if err != nil {
			q = 1
		}
		if kind == "*/*" || kind == "application/*" {
			kind, q = mediaJSON, q/1000 // whatever is named goes before what is not
		}
		best[kind] = max(best[kind], q)
	}
	if best[mediaGraphQL] > 0 && best[mediaGraphQL] >= best[mediaJSON] {
		return mediaGraphQL, true
	}
	return mediaJSON, best[mediaJSON] > 0
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
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}

package transport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/errs"
)

// params are the parameters of an operation.
type params struct {
	Query, DocumentID, OperationName string
	Variables, Extensions            map[string]any
}

func (p *params) unmarshal(body []byte) error {
	return unmarshalObject(body, map[string]any{
		"query": &p.Query, "documentId": &p.DocumentID, "operationName": &p.OperationName,
		"variables": &p.Variables, "extensions": &p.Extensions,
	})
}

// read returns the operation of a request. The status belongs to the error.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (p *params, status int, err error) {
	if r.Method == http.MethodPost {
		return h.readBody(w, r)
	}
	return readQuery(r)
}

func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (*params, int, error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, http.StatusUnsupportedMediaType,
			errs.New(errs.BadRequest, "The body must be sent as application/json in UTF-8.")
	}
	if r.Header.Get("Content-Encoding") != "" { // a small body could be a large one
		w.Header().Set("Accept-Encoding", "identity")
		return nil, http.StatusUnsupportedMediaType,
			errs.New(errs.BadRequest, "The body must be sent as it is, without Content-Encoding.")
	}
	bounds, maxBytes := h.config.Bounds, h.maxBody(r.Context())
	body, err := readAll(http.MaxBytesReader(w, r.Body, int64(maxBytes)), min(r.ContentLength, int64(maxBytes)))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, http.StatusRequestEntityTooLarge, errs.New(errs.TooLarge,
			"The body exceeds the maximum of %d bytes: %d for anonymous callers, %d for authenticated callers.",
			maxBytes, bounds.AnonymousBody, bounds.Body)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body did not arrive whole.").Because(err)
	}
	if err := limit.CheckValues(body, bounds.Values); err != nil {
		return nil, http.StatusRequestEntityTooLarge, err
	}
	var p params
	if err := p.unmarshal(body); err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest,
			"The body must be one JSON object: query and documentId are strings, operationName a string or null, "+
				"variables and extensions are objects or null.").Because(err)
	}
	return &p, 0, nil
}

// readAll reads a body of an announced size, or of an unknown one if that is negative, into a buffer
// that need not grow.
func readAll(body io.Reader, size int64) ([]byte, error) {
	var buffer bytes.Buffer
	buffer.Grow(int(max(size, 0)) + bytes.MinRead)
	_, err := buffer.ReadFrom(body)
	return buffer.Bytes(), err
}

func readQuery(r *http.Request) (*params, int, error) {
	query := r.URL.Query()
	p := &params{
		Query: query.Get("query"), DocumentID: query.Get("documentId"), OperationName: query.Get("operationName"),
	}
	for name, target := range map[string]*map[string]any{"variables": &p.Variables, "extensions": &p.Extensions} {
		if text := query.Get(name); text != "" {
			if err := unmarshal([]byte(text), target); err != nil {
				return nil, http.StatusBadRequest,
					errs.New(errs.BadRequest, "%s must be a JSON object.", name).Because(err)
			}
		}
	}
	return p, 0, nil
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

// unmarshalObject reads one JSON object, or null, into the targets by the exact names of its
// members: for a struct, encoding/json accepts names in any case. Members with other names are
// ignored. If a name is repeated, the last member counts. Numbers stay as they were written.
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

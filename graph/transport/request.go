package transport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/platform/web"
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

// errEncoding is the error of a part of a request that is not UTF-8. Decoders would replace the
// invalid bytes, so that different texts become equal.
func errEncoding(part string) error {
	return errs.New(errs.BadRequest, "%s must be UTF-8, without an escape of one surrogate alone, such as \\ud83d.",
		part)
}

// checkDocument refuses a document with a string that escapes one surrogate alone. Block strings
// and comments have no escapes.
func checkDocument(text string) error {
	if validate.IsJSONText([]byte(text)) {
		return nil
	}
	characters, tokens := []rune(text), lexer.New(&ast.Source{Input: text})
	for {
		token, err := tokens.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			return nil // the parser reports invalid documents
		}
		literal := string(characters[token.Pos.Start:token.Pos.End])
		if token.Kind == lexer.String && !validate.IsJSONText([]byte(literal)) {
			return errEncoding("The document")
		}
	}
}

// checkParts refuses a request whose query is not UTF-8.
func checkParts(r *http.Request) error {
	if !web.IsUTF8(r) {
		return errEncoding("The query string")
	}
	return nil
}

// read returns the operation of a request. The status belongs to the error.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (p *params, status int, err error) {
	if r.Method == http.MethodPost {
		p, status, err = h.readBody(w, r)
	} else {
		p, status, err = readQuery(r)
	}
	if err == nil {
		if err = checkDocument(p.Query); err != nil {
			return nil, http.StatusBadRequest, err
		}
	}
	return p, status, err
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
	maxBytes := h.maxBody(r.Context())
	if size := r.ContentLength; size < 0 || size > smallBody { // it has memory that others wait for
		sending := web.NewProgressing(w, r)
		sending.Until = time.Now().Add(maxBodyTime)
		r.Body = io.NopCloser(sending)
	}
	web.LimitBody(w, r, int64(maxBytes))
	body, err := readAll(r.Body, min(r.ContentLength, int64(maxBytes)))
	if errs.Is(err, errs.TooSlow) {
		return nil, errs.TooSlow.Status(), err
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, http.StatusRequestEntityTooLarge, errs.New(errs.TooLarge,
			"The body exceeds the maximum of %d bytes: %d for anonymous callers, %d for authenticated callers.",
			maxBytes, min(MaxAnonymousBody, h.config.Bounds.Body), h.config.Bounds.Body)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest, "The body did not arrive whole.").Because(err)
	}
	if body = validate.WithoutMark(body); !validate.IsJSONText(body) {
		return nil, http.StatusBadRequest, errEncoding("The body")
	}
	if err := limit.CheckValues(body, h.config.Maxima.Values); err != nil {
		return nil, http.StatusRequestEntityTooLarge, err
	}
	var p params
	if err := p.unmarshal(body); err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest,
			"The body must be one JSON object in UTF-8: query and documentId are strings, operationName a "+
				"string or null, "+
				"variables and extensions are objects or null.").Because(err)
	}
	return &p, 0, nil
}

// readAll reads a body of an announced size, or of an unknown one if that is negative, into a
// buffer that need not grow.
func readAll(body io.Reader, size int64) ([]byte, error) {
	var buffer bytes.Buffer
	buffer.Grow(int(max(size, 0)) + bytes.MinRead)
	_, err := buffer.ReadFrom(body)
	return buffer.Bytes(), err
}

func readQuery(r *http.Request) (*params, int, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, http.StatusBadRequest, errs.New(errs.BadRequest,
			"The query string cannot be read: percent-encode its semicolons and percent signs.").Because(err)
	}
	p := &params{
		Query: query.Get("query"), DocumentID: query.Get("documentId"), OperationName: query.Get("operationName"),
	}
	for name, target := range map[string]*map[string]any{"variables": &p.Variables, "extensions": &p.Extensions} {
		if text := validate.WithoutMark([]byte(query.Get(name))); len(text) > 0 {
			if !validate.IsJSONText(text) {
				return nil, http.StatusBadRequest, errEncoding(name)
			}
			if err := unmarshal(text, target); err != nil {
				return nil, http.StatusBadRequest,
					errs.New(errs.BadRequest, "%s must be a JSON object.", name).At(name).Because(err)
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

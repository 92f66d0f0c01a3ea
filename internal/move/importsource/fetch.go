package importsource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Request is a GET request to the API of a source. The header has its secret.
type Request struct {
	URL    string
	Header map[string]string
}

// Response is a response. Its body is complete and within the caller's limit.
type Response struct {
	Status int
	Body   []byte
}

// Fetch sends a request. It waits for a source that refuses one by a rate, bounds the response, and
// follows no redirect. Its errors must not have the URL, whose query may have the token.
type Fetch func(context.Context, Request) (Response, error)

// Page is a part of the items of an API.
type Page struct {
	// Items are JSON objects of one line each. A file with all of them in this order is a file for
	// Rows, with Settings.Fetched.
	Items [][]byte
	// Next is the cursor of the next page; empty after the last one.
	Next string
}

// Fetcher reads the items of an API. It is not for concurrent use.
type Fetcher struct {
	settings *Settings
	api      *api
	fetch    Fetch
	seed     maphash.Seed
	// seen are the hashes of the items that were read, for an API whose pages shift.
	seen map[uint64]struct{}
}

// NewFetcher returns a Fetcher. It returns InvalidInput if settings that the source needs are
// missing.
func NewFetcher(s *Settings, fetch Fetch) (*Fetcher, error) {
	a := apis[s.Source]
	switch {
	case a == nil:
		return nil, errs.New(errs.InvalidInput, "The source %s has no API. Upload a file.", s.Source).At("source")
	case a.base == "" && s.BaseURL == "":
		return nil, errs.New(errs.InvalidInput, "The source %s needs the URL of its server.", s.Source).
			At("api", "baseUrl")
	case a.base != "" && s.BaseURL != "":
		return nil, errs.New(errs.InvalidInput, "The source %s has one API for all: omit baseUrl.", s.Source).
			At("api", "baseUrl")
	case s.Token == "":
		return nil, errs.New(errs.InvalidInput, "The API needs a token.").At("api", "token")
	}
	return &Fetcher{settings: s, api: a, fetch: fetch, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}, nil
}

// maxCursor bounds a cursor, in bytes.
const maxCursor = 64 << 10

// cursor is the position of the next page. It is small: items are not part of it.
type cursor struct {
	// Accounts are those whose items are still to be read, the first of them from Page on.
	Accounts []string `json:"accounts,omitempty"`
	Page     string   `json:"page,omitempty"`
	// Pass counts how often all pages have been read before.
	Pass int `json:"pass,omitempty"`
}

// Resume passes the items of an earlier Fetcher whose cursor this one continues. It reads them only
// for an API whose pages shift.
func (f *Fetcher) Resume(items iter.Seq[[]byte]) {
	if !f.api.shifts {
		return
	}
	for item := range items {
		f.isNew(item)
	}
}

// Next returns the page at a cursor, empty for the first one. It returns the error of the Fetch,
// and otherwise InvalidInput or Unavailable with the request that failed.
func (f *Fetcher) Next(ctx context.Context, from string) (Page, error) {
	if from == "" {
		return f.start(ctx)
	}
	var at cursor
	if err := json.Unmarshal([]byte(from), &at); err != nil || len(at.Accounts) == 0 {
		return Page{}, errs.New(errs.InvalidInput, "The cursor is not of this import.").At("cursor")
	}
	body, err := f.get(ctx, f.api.page(f.settings, at.Accounts[0], at.Page))
	if err != nil {
		return Page{}, err
	}
	items, err := f.items(body)
	if err != nil {
		return Page{}, errAnotherForm().Because(err)
	}
	page := Page{}
	for _, item := range items {
		if !f.isNew(item) {
			continue
		}
		if item, err = f.withDetail(ctx, item); err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, item)
	}
	before := at
	if at.Page, err = f.api.next(f, &at, body, items); err != nil {
		return Page{}, err
	}
	if at.Page == "" {
		at.Accounts = at.Accounts[1:]
	} else if at.Page == before.Page && at.Pass == before.Pass {
		return Page{}, errs.New(errs.InvalidInput, "The source returned the same page twice.")
	}
	page.Next, err = at.text()
	return page, err
}

// start reads the accounts, and what describes them.
func (f *Fetcher) start(ctx context.Context) (page Page, err error) {
	at := cursor{Accounts: []string{f.settings.Account}}
	if f.api.accounts != nil {
		if at.Accounts, page.Items, err = f.api.accounts(ctx, f); err != nil {
			return Page{}, err
		}
		if len(at.Accounts) == 0 {
			return Page{}, errs.New(errs.InvalidInput,
				"The source has no account of these settings. Check the account and the token.").
				At("api", "account")
		}
	}
	page.Next, err = at.text()
	return page, err
}

// text returns the cursor; empty if nothing is left.
func (c *cursor) text() (string, error) {
	if len(c.Accounts) == 0 {
		return "", nil
	}
	text, err := json.Marshal(c)
	if err == nil && len(text) > maxCursor {
		err = errs.New(errs.InvalidInput, "The source returned a cursor of more than %d bytes.", maxCursor)
	}
	return string(text), err
}

// errAnotherForm is the error of a page without what its source always has, such as the position of
// the next one.
func errAnotherForm() *errs.Error {
	return errs.New(errs.InvalidInput, "The source returned a page of another form.")
}

// get requests a resource of the API and returns its JSON. One that is invalid is repaired, then
// requested twice again.
func (f *Fetcher) get(ctx context.Context, resource string) ([]byte, error) {
	const attempts = 3
	address := cmp.Or(f.api.base, baseURL(f.settings)) + resource
	for range attempts {
		response, err := f.fetch(ctx, Request{URL: address, Header: f.api.header(f.settings)})
		if err != nil {
			return nil, fmt.Errorf("requesting %s: %w", public(resource), err)
		}
		if response.Status != http.StatusOK {
			return nil, refused(resource, response.Status)
		}
		body := validate.WithoutMark(response.Body)
		if !json.Valid(body) {
			body = escapeControls(body)
		}
		if json.Valid(body) {
			return body, nil
		}
	}
	return nil, errs.New(errs.InvalidInput, "The source returned no valid JSON for %s.", public(resource))
}

func refused(resource string, status int) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return errs.New(errs.InvalidInput,
			"The source refused the token with status %d for %s. Check the token and its rights.",
			status, public(resource)).At("api", "token")
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return errs.New(errs.Unavailable, "The source returned status %d for %s.", status, public(resource))
	}
	refused := errs.New(errs.InvalidInput, "The source returned status %d for %s. Check the settings of the API.",
		status,
		public(resource))
	if status == http.StatusNotFound {
		return refused.Because(errNotFound)
	}
	return refused
}

// errNotFound is the cause of an error for a resource that does not exist, as of a link deleted
// meanwhile.
var errNotFound = errors.New("not found")

// public returns the path of a resource. The query may have the token.
func public(resource string) string {
	path, _, _ := strings.Cut(resource, "?")
	return path
}

// failingItem stands for an item that cannot be read: its row fails.
const failingItem = `{}`

// items returns the items of a page, one line each.
func (f *Fetcher) items(body []byte) (items [][]byte, err error) {
	r := &reader{settings: f.settings, file: newScanner(bytes.NewReader(body))}
	r.take = func(_ *format, text []byte, isLong bool) error {
		line := bytes.Buffer{}
		if isLong || json.Compact(&line, text) != nil {
			line.Reset()
			line.WriteString(failingItem)
		}
		items = append(items, line.Bytes())
		return nil
	}
	if err := r.document(sources[f.settings.Source].json); err != nil {
		return nil, err
	}
	for i, item := range items {
		if f.api.drops != "" {
			if items[i], err = with(item, f.api.drops, nil); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// withDetail adds the property of an item that needs a request for itself, if the source has it.
func (f *Fetcher) withDetail(ctx context.Context, item []byte) ([]byte, error) {
	if f.api.detail == nil {
		return item, nil
	}
	resource, name, pick := f.api.detail(f.settings, item)
	if resource == "" {
		return item, nil
	}
	body, err := f.get(ctx, resource)
	if errors.Is(err, errNotFound) {
		return item, nil
	}
	if err != nil {
		return nil, err
	}
	if pick != "" {
		var properties map[string]json.RawMessage
		if err := json.Unmarshal(body, &properties); err != nil {
			return nil, errs.New(errs.InvalidInput, "The source returned no object for %s.", public(resource)).
				Because(err)
		}
		body = properties[pick]
	}
	if item, err = with(item, name, body); len(item) > MaxItem {
		item = []byte(failingItem)
	}
	return item, err
}

// with returns an item with a property; nil removes it. An item that is no object stays.
func with(item []byte, name string, text json.RawMessage) ([]byte, error) {
	var properties map[string]json.RawMessage
	if json.Unmarshal(item, &properties) != nil || properties == nil {
		return item, nil
	}
	delete(properties, name)
	if text != nil {
		properties[name] = text
	}
	return json.Marshal(properties)
}

// isNew reports whether no item with its identity was seen before. One without an identity is new.
func (f *Fetcher) isNew(item []byte) bool {
	identity := field(item, f.api.id)
	if !f.api.shifts || identity == "" {
		return true
	}
	sum := maphash.String(f.seed, identity)
	if _, isKnown := f.seen[sum]; isKnown {
		return false
	}
	f.seen[sum] = struct{}{}
	return true
}

// field returns a property of an object as text; empty if it has none.
func field(item []byte, name string) string {
	var properties map[string]any
	decoder := json.NewDecoder(bytes.NewReader(item))
	decoder.UseNumber()
	if decoder.Decode(&properties) != nil {
		return ""
	}
	switch is := properties[name].(type) {
	case string:
		return is
	case json.Number:
		return is.String()
	}
	return ""
}

// nextByID returns the next page of a source that continues after the id of the last item.
func nextByID(_ *Fetcher, _ *cursor, body []byte, _ [][]byte) (string, error) {
	items, err := parse[[]json.RawMessage](body) // items that are too large are omitted
	if err != nil || len(items) == 0 {
		return "", err
	}
	lastID := field(items[len(items)-1], "id")
	if lastID == "" {
		return "", errAnotherForm()
	}
	return lastID, nil
}

// query returns the parameters of a URL in the given order.
func query(pairs ...string) string {
	text := ""
	for pair := range slices.Chunk(pairs, 2) {
		text += "&" + pair[0] + "=" + url.QueryEscape(pair[1])
	}
	return "?" + text[1:]
}

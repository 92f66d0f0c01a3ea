package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Tenant is a GraphQL client with an account and a workspace.
type Tenant struct {
	run *Run
	// Address is host:port, or a URL.
	Address, Token, Workspace string
	HTTP                      *http.Client
}

// The tenant's account.
const (
	TenantEmail    = "bench@example.com"
	TenantName     = "Bench Mark"
	TenantPassword = "a long word for the drill"
)

// NewTenant registers an account, and creates its workspace. The client does not follow redirects.
func (r *Run) NewTenant(address, slug string, transport *http.Transport) *Tenant {
	transport.MaxIdleConnsPerHost, transport.DisableCompression = 100, true
	t := &Tenant{run: r, Address: address, HTTP: &http.Client{
		Timeout: 30 * time.Second, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return t.As(TenantEmail, slug)
}

// As is another user at the server, who registers and creates a workspace.
func (t Tenant) As(email, slug string) *Tenant {
	var registered struct{ Register struct{ Token string } }
	Check(t.Do(&registered, `mutation ($in: RegisterInput!) { register(input: $in) { token errors { code message } } }`,
		map[string]any{"in": map[string]any{"email": email, "password": TenantPassword, "name": TenantName}}))
	t.Token = registered.Register.Token
	t.Workspace = t.CreateWorkspace(slug)
	return &t
}

// CreateWorkspace returns the id of a new workspace.
func (t *Tenant) CreateWorkspace(slug string) string {
	var created struct {
		CreateWorkspace struct{ Workspace struct{ ID string } }
	}
	Check(t.Do(&created, `mutation ($in: CreateWorkspaceInput!) { createWorkspace(input: $in) { workspace { id }
		errors { code message } } }`, map[string]any{"in": map[string]any{"name": slug, "slug": slug}}))
	return created.CreateWorkspace.Workspace.ID
}

// At is the same user at another server.
func (t Tenant) At(address string) *Tenant {
	t.Address = address
	return &t
}

// In is the same user in another workspace.
func (t Tenant) In(workspace string) *Tenant {
	t.Workspace = workspace
	return &t
}

// Refusal is a response with errors, or with another status than 200.
type Refusal struct {
	Status     int
	Code, Text string // of the first error, and the response's beginning
}

func (r Refusal) Error() string { return fmt.Sprintf("status %d: %s", r.Status, r.Text) }

// Do runs an operation, and reads its data. Errors of any kind, user errors among them, are a
// Refusal.
func (t *Tenant) Do(data any, query string, variables map[string]any) error {
	body, err := t.Post(string(Must(json.Marshal(map[string]any{"query": query, "variables": variables}))))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{data})
}

// Mutation returns a request for a mutation. A right response has no errors.
func Mutation(name, input, result string, in map[string]any) string {
	return string(Must(json.Marshal(map[string]any{
		"query": fmt.Sprintf("mutation M($in: %s!) { %s(input: $in) { %s errors { code message field } } }",
			input, name, result),
		"variables": map[string]any{"in": in},
	})))
}

func (t *Tenant) send(method, path, body string) (*http.Response, []byte, error) {
	base := t.Address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	request := Must(http.NewRequestWithContext(t.run, method, base+path, strings.NewReader(body)))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.Token != "" && method == http.MethodPost {
		request.Header.Set("Authorization", "Bearer "+t.Token)
	}
	response, err := t.HTTP.Do(request)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(response.Body)
	return response, text, errors.Join(err, response.Body.Close())
}

// Post sends the body of a GraphQL request, and returns the response's.
func (t *Tenant) Post(body string) ([]byte, error) {
	response, text, err := t.send(http.MethodPost, "/graphql", body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"errors":[{`)) {
		r := Refusal{Status: response.StatusCode, Code: fmt.Sprint(response.StatusCode),
			Text: fmt.Sprintf("%.400s", text)}
		if _, rest, ok := bytes.Cut(text, []byte(`"code":"`)); ok {
			code, _, _ := bytes.Cut(rest, []byte(`"`))
			r.Code = string(code)
		}
		return nil, r
	}
	return text, nil
}

// Follow requests a short URL, and returns the status and destination of the response.
func (t *Tenant) Follow(method, path string) (status int, location string, err error) {
	response, _, err := t.send(method, path, "")
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, response.Header.Get("Location"), nil
}

// Link is a link as the API describes it.
type Link struct{ ID, Code, ShortURL, OriginalURL string }

// Path returns the path of the short URL.
func (l Link) Path() string { return Must(url.Parse(l.ShortURL)).EscapedPath() }

// Result is a link that was created, or that existed.
type Result struct {
	Created bool
	Link    Link
}

// CreateLinks creates up to 1,000 links, each described as the API has it.
func (t *Tenant) CreateLinks(links []any) (results []Result, err error) {
	var created struct{ CreateLinks struct{ Results []Result } }
	err = t.Do(&created, `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { created
		link { id code shortUrl originalUrl } errors { code message } } errors { code message } } }`,
		map[string]any{"in": map[string]any{"workspaceId": t.Workspace, "links": links}})
	if err == nil && len(created.CreateLinks.Results) != len(links) {
		err = fmt.Errorf("%d links were created of %d", len(created.CreateLinks.Results), len(links))
	}
	return created.CreateLinks.Results, err
}

// Fill creates n links in batches of a size, callers at a time.
func (t *Tenant) Fill(n, size, callers int, describe func(i int) map[string]any) []Result {
	all := make([]Result, n)
	InBatches(n, size, callers, func(from, to int) {
		var some []any
		for i := from; i < to; i++ {
			some = append(some, describe(i))
		}
		copy(all[from:], Must(t.CreateLinks(some)))
	})
	return all
}

// CreateLink creates one link.
func (t *Tenant) CreateLink(destination string) (Result, error) {
	var created struct{ CreateLink Result }
	err := t.Do(&created, `mutation ($in: CreateLinkInput!) { createLink(input: $in) { created
		link { id code shortUrl originalUrl } errors { code message } } }`,
		map[string]any{"in": map[string]any{"workspaceId": t.Workspace, "url": destination}})
	return created.CreateLink, err
}

// Get returns the body of a successful response, or nil.
func (r *Run) Get(from string) []byte {
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(Must(http.NewRequestWithContext(r, http.MethodGet, from, nil)))
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return text
}

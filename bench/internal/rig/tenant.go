package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Tenant is a client of GraphQL with an account and a workspace.
type Tenant struct {
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

// NewClient does not follow redirects.
func NewClient() *http.Client {
	return &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// NewTenant registers an account, and creates a workspace.
func NewTenant(ctx context.Context, address, slug string) (*Tenant, error) {
	t := &Tenant{Address: address, HTTP: NewClient()}
	return t, t.Register(ctx, slug)
}

// Register registers the account, and creates its workspace.
func (t *Tenant) Register(ctx context.Context, slug string) (err error) {
	var registered struct{ Register struct{ Token string } }
	err = t.Do(ctx, &registered, `mutation ($in: RegisterInput!) { register(input: $in) { token errors { code message } } }`,
		map[string]any{"in": map[string]any{"email": TenantEmail, "password": TenantPassword, "name": TenantName}})
	if err != nil {
		return err
	}
	t.Token = registered.Register.Token
	t.Workspace, err = t.CreateWorkspace(ctx, slug)
	return err
}

// CreateWorkspace returns the id of a new workspace.
func (t *Tenant) CreateWorkspace(ctx context.Context, slug string) (string, error) {
	var made struct {
		CreateWorkspace struct{ Workspace struct{ ID string } }
	}
	err := t.Do(ctx, &made, `mutation ($in: CreateWorkspaceInput!) { createWorkspace(input: $in) { workspace { id } errors { code message } } }`,
		map[string]any{"in": map[string]any{"name": slug, "slug": slug}})
	return made.CreateWorkspace.Workspace.ID, err
}

// At is the same user at another server.
func (t Tenant) At(address string) *Tenant {
	t.Address = address
	return &t
}

// Refusal is an answer with errors, or with another status than 200.
type Refusal struct {
	Status     int
	Code, Text string // of the first error, and the answer's beginning
}

func (r Refusal) Error() string { return fmt.Sprintf("status %d: %s", r.Status, r.Text) }

// Do runs an operation, and reads its data. Errors of any kind, user errors among them, are a
// Refusal.
func (t *Tenant) Do(ctx context.Context, data any, query string, variables map[string]any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	answer, err := t.Post(ctx, string(body))
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, &struct{ Data any }{data})
}

// Post sends the body of a GraphQL request, and returns the answer's.
func (t *Tenant) Post(ctx context.Context, body string) ([]byte, error) {
	base := t.Address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/graphql", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if t.Token != "" {
		request.Header.Set("Authorization", "Bearer "+t.Token)
	}
	response, err := t.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"errors":[{`)) {
		r := Refusal{Status: response.StatusCode, Code: fmt.Sprint(response.StatusCode),
			Text: string(answer[:min(len(answer), 400)])}
		if _, rest, ok := bytes.Cut(answer, []byte(`"code":"`)); ok {
			code, _, _ := bytes.Cut(rest, []byte(`"`))
			r.Code = string(code)
		}
		return nil, r
	}
	return answer, nil
}

// Link is one that was created, or was there.
type Link struct {
	Created bool
	Link    struct{ ID, Code, ShortURL string }
}

// MakeLinks creates up to 1,000 links, each described as the API has it.
func (t *Tenant) MakeLinks(ctx context.Context, links []any) ([]Link, error) {
	var made struct{ CreateLinks struct{ Results []Link } }
	err := t.Do(ctx, &made, `mutation ($in: CreateLinksInput!) { createLinks(input: $in)
		{ results { created link { id code shortUrl } errors { code message } } errors { code message } } }`,
		map[string]any{"in": map[string]any{"workspaceId": t.Workspace, "links": links}})
	if err == nil && len(made.CreateLinks.Results) != len(links) {
		err = fmt.Errorf("%d links were created of %d", len(made.CreateLinks.Results), len(links))
	}
	return made.CreateLinks.Results, err
}

// CreateLink creates one link.
func (t *Tenant) CreateLink(ctx context.Context, to string) (Link, error) {
	var made struct{ CreateLink Link }
	err := t.Do(ctx, &made, `mutation ($in: CreateLinkInput!) { createLink(input: $in) { created link { id code shortUrl } errors { code message } } }`,
		map[string]any{"in": map[string]any{"workspaceId": t.Workspace, "url": to}})
	return made.CreateLink, err
}

// Follow requests a short URL, and returns the answer's status and destination.
func (t *Tenant) Follow(ctx context.Context, path string) (status int, location string, err error) {
	base := t.Address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := t.HTTP.Do(request)
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("Location"), errors.Join(err, response.Body.Close())
}

// Get returns what a URL has.
func Get(ctx context.Context, where string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d", where, response.StatusCode)
	}
	return text, err
}

// AwaitReady waits until a server reports that it is ready for requests.
func AwaitReady(ctx context.Context, address string) error {
	return Await(ctx, "the server is ready", startPatience, func() bool {
		_, err := Get(ctx, "http://"+address+"/readyz")
		return err == nil
	})
}

// Await polls until a condition holds.
func Await(ctx context.Context, what string, patience time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !holds() {
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
	return nil
}

// Pause returns after a time, or earlier with the context's error.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

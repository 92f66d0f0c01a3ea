package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Tenant speaks GraphQL with a server: nobody, or somebody who has a workspace.
type Tenant struct {
	// Address is the server's. Token and Workspace are empty for nobody.
	Address, Token, Workspace string
	// HTTP sends the requests.
	HTTP *http.Client
}

// NewTenant registers somebody, and makes a workspace.
func NewTenant(ctx context.Context, address, slug string) (*Tenant, error) {
	t := &Tenant{Address: address, HTTP: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	var registered struct {
		Register struct{ Token string }
	}
	err := t.Do(ctx, &registered, fmt.Sprintf(`mutation { register(input: {email: "%s@example.com", password: "a long word for the drill", name: "Drill"})
		{ token errors { message } } }`, slug), nil)
	if err != nil {
		return nil, err
	}
	t.Token = registered.Register.Token
	var made struct {
		CreateWorkspace struct{ Workspace struct{ ID string } }
	}
	err = t.Do(ctx, &made, fmt.Sprintf(`mutation { createWorkspace(input: {name: "Drill", slug: "%s"}) { workspace { id } errors { message } } }`, slug), nil)
	t.Workspace = made.CreateWorkspace.Workspace.ID
	return t, err
}

// At is the same person at another server.
func (t Tenant) At(address string) *Tenant {
	t.Address = address
	return &t
}

// Do runs an operation, and reads its data. Errors of any kind, those that a payload says to mend among them, are an error.
func (t *Tenant) Do(ctx context.Context, data any, query string, variables map[string]any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.Address+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if t.Token != "" {
		request.Header.Set("Authorization", "Bearer "+t.Token)
	}
	response, err := t.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"errors":[{`)) {
		return fmt.Errorf("answered with %d: %.300s", response.StatusCode, answer)
	}
	return json.Unmarshal(answer, &struct{ Data any }{data})
}

// Made is what came of one link.
type Made struct {
	Created bool
	Link    struct{ ID, Code string }
}

// MakeLinks makes up to 1,000 links, each described as the API has it.
func (t *Tenant) MakeLinks(ctx context.Context, links []any) ([]Made, error) {
	var made struct{ CreateLinks struct{ Results []Made } }
	err := t.Do(ctx, &made, `mutation ($in: CreateLinksInput!) { createLinks(input: $in)
		{ results { created link { id code } errors { message } } errors { message } } }`,
		map[string]any{"in": map[string]any{"workspaceId": t.Workspace, "links": links}})
	if err == nil && len(made.CreateLinks.Results) != len(links) {
		err = fmt.Errorf("%d links were made of %d", len(made.CreateLinks.Results), len(links))
	}
	return made.CreateLinks.Results, err
}

// AwaitReady waits until a server says that it should get requests.
func AwaitReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("the server does not become ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Promise is something that must hold, and what was found.
type Promise struct {
	What, Found string
	Kept        bool
}

// Broken is an error when some were not kept.
func Broken(all []Promise) error {
	broken := 0
	for _, p := range all {
		if !p.Kept {
			broken++
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d promises were broken", broken)
	}
	return nil
}

// TellPromises prints them, a line each.
func TellPromises(w io.Writer, all []Promise) {
	for _, p := range all {
		verdict := "kept"
		if !p.Kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(w, "- %s: %s (%s)\n", p.What, verdict, p.Found)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request as if to the public URL.
func (s *server) send(r *http.Request) (answer, error) {
	r.Host = strings.TrimPrefix(s.public, "http://")
	return s.deliver(r)
}

func (s *server) deliver(r *http.Request) (answer, error) {
	response, err := s.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.Close { // net/http removes the field
		response.Header.Set("Connection", "close")
	}
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// sendAgain is send for a visitor, who comes again while a busy machine answers 503. That has consumed nothing.
func (s *server) sendAgain(r *http.Request) (a answer, err error) {
	for end := time.Now().Add(patience); ; {
		a, err = s.send(r)
		if err != nil || a.status != http.StatusServiceUnavailable || time.Now().After(end) {
			return a, err
		}
		time.Sleep(pollEvery)
	}
}

// visitPath is sendAgain of a path.
func (s *server) visitPath(path string) (answer, error) {
	r, err := s.newRequest(http.MethodGet, path, "")
	if err != nil {
		return answer{}, err
	}
	return s.sendAgain(r)
}

// get requests a path; headers are alternating names and values.
func (s *server) get(path string, headers ...string) (answer, error) {
	return s.request(http.MethodGet, path, "", headers...)
}

func (s *server) request(method, path, body string, headers ...string) (answer, error) {
	r, err := s.newRequest(method, path, body, headers...)
	if err != nil {
		return answer{}, err
	}
	return s.send(r)
}

func (s *server) newRequest(method, path, body string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r, nil
}

// expect sends a request without a body and checks the status of the response. It comes again for a read, as sendAgain.
func (s *server) expect(t *testing.T, status int, method, path string, headers ...string) answer {
	t.Helper()
	r := must.Value(s.newRequest(method, path, "", headers...))(t)
	send := s.send
	if status != http.StatusServiceUnavailable && (method == http.MethodGet || method == http.MethodHead) {
		send = s.sendAgain
	}
	a := must.Value(send(r))(t)
	if a.status != status {
		t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// client sends GraphQL operations to a server, with or without a token.
type client struct {
	*server
	token string
}

const mediaGraphQL, mediaEvents = "application/graphql-response+json", "text/event-stream"

// operation returns the request with an operation, for an answer of a media type.
func (c client) operation(ctx context.Context, body io.Reader, accept string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/graphql", body)
	if err != nil {
		return nil, err
	}
	r.Host = strings.TrimPrefix(c.public, "http://")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// post sends a body to the endpoint. Its default Accept header is GraphQL's media type.
func (c client) post(body []byte, headers ...string) (answer, error) {
	r, err := c.operation(context.Background(), bytes.NewReader(body), mediaGraphQL)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return c.send(r)
}

// run sends an operation.
func (c client) run(query string, variables map[string]any) (answer, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return answer{}, err
	}
	return c.post(body)
}

// try runs an operation and decodes its data into the target. It returns request errors as an
// error.
func (c client) try(data any, query string, variables map[string]any) error {
	a, err := c.run(query, variables)
	if err != nil {
		return err
	}
	if problems := a.problems(); a.status != http.StatusOK || len(problems) > 0 {
		return fmt.Errorf("status %d: %s", a.status, a.body)
	}
	return json.Unmarshal([]byte(a.body), &struct{ Data any }{data})
}

// tryAgain is try of a query, or of an idempotent mutation, that is sent again while a busy machine
// cannot answer all of it.
func (c client) tryAgain(data any, query string, variables map[string]any) (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(pollEvery) {
		if err = c.try(data, query, variables); err == nil || !strings.Contains(err.Error(), `"code":"UNAVAILABLE"`) {
			return err
		}
	}
	return err
}

// must calls try and fails the test on an error.
func (c client) must(t *testing.T, data any, query string, variables map[string]any) {
	t.Helper()
	if err := c.try(data, query, variables); err != nil {
		t.Fatalf("%s\n%v: %v", query, variables, err)
	}
}

// do calls a mutation whose payload is of no interest, and fails the test on user errors.
func (c client) do(t *testing.T, name string, in map[string]any) {
	t.Helper()
	var got map[string]struct{ Errors []userError }
	c.must(t, &got, "mutation ($in: "+strings.ToUpper(name[:1])+name[1:]+"Input!) { "+name+
		"(input: $in) { errors { code message field } } }", map[string]any{"in": in})
	if errs := got[name].Errors; len(errs) > 0 {
		t.Fatalf("%s: %+v", name, errs)
	}
}

// problem is an error of a request.
type problem struct {
	Message    string
	Extensions struct{ Code string }
}

// problems returns the errors of a GraphQL response; nil for other responses.
func (a answer) problems() []problem {
	var got struct{ Errors []problem }
	if json.Unmarshal([]byte(a.body), &got) != nil {
		return nil
	}
	return got.Errors
}

// code returns the code of the first error of a GraphQL response.
func (a answer) code() string {
	if problems := a.problems(); len(problems) > 0 {
		return problems[0].Extensions.Code
	}
	return ""
}

// userError is a UserError.
type userError struct {
	Code, Message string
	Field         []string
}

// tenant is a logged-in user with a workspace.
type tenant struct {
	client
	email, password string
	id, slug        string
	workspaceID     string
}

const register = `mutation ($in: RegisterInput!) {
	register(input: $in) { token expiresAt user { id email name } errors { code message field } }
}`

const createWorkspace = `mutation ($in: CreateWorkspaceInput!) {
	createWorkspace(input: $in) { workspace { id slug name viewerRole } errors { code message field } }
}`

// tenant registers a user and creates a workspace with the slug.
func (s *server) tenant(t *testing.T, slug string) tenant {
	t.Helper()
	who := tenant{client: client{server: s}, email: slug + "@example.com", password: "pass phrase of " + slug,
		slug: slug}
	var account struct {
		Register struct {
			Token  string
			User   struct{ ID string }
			Errors []userError
		}
	}
	who.must(t, &account, register, map[string]any{"in": map[string]any{
		"email": who.email, "password": who.password, "name": "Person of " + slug,
	}})
	who.token, who.id = account.Register.Token, account.Register.User.ID
	if s.mail != nil {
		who.must(t, new(any), `mutation ($in: VerifyEmailInput!) { verifyEmail(input: $in) { errors { code } } }`,
			map[string]any{"in": map[string]any{"token": s.mail.token(t, who.email)}})
	}
	who.workspaceID = who.newWorkspace(t, slug)
	return who
}

// newWorkspace creates a workspace, and returns its id.
func (c client) newWorkspace(t *testing.T, slug string) string {
	t.Helper()
	var got struct {
		CreateWorkspace struct {
			Workspace struct{ ID string }
			Errors    []userError
		}
	}
	c.must(t, &got, createWorkspace, map[string]any{"in": map[string]any{"name": slug, "slug": slug}})
	if got.CreateWorkspace.Workspace.ID == "" {
		t.Fatalf("no workspace: %+v", got)
	}
	return got.CreateWorkspace.Workspace.ID
}

// admit makes a user a member of the workspace.
func (w tenant) admit(t *testing.T, who tenant, role string) {
	t.Helper()
	var got struct{ InviteMember struct{ Token string } }
	w.must(t, &got, `mutation ($in: InviteMemberInput!) { inviteMember(input: $in) { token } }`,
		map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "email": who.email, "role": role}})
	who.do(t, "acceptInvitation", map[string]any{"token": got.InviteMember.Token})
}

// onServer returns the same user as a client of another server.
func (w tenant) onServer(s *server) tenant {
	w.server = s
	return w
}

// linkView has the fields of a Link that the tests read.
type linkView struct {
	ID, Code, Strategy, ShortURL, OriginalURL, CanonicalURL, Status string

	ClickCount int64
	HitQuota   struct{ Limit, Used, Remaining int64 }
}

// createLinkPayload is a CreateLinkPayload.
type createLinkPayload struct {
	Created bool
	Link    linkView
	Errors  []userError
}

const (
	linkFields  = `{ id code strategy shortUrl originalUrl canonicalUrl status }`
	linkFigures = `{ id code status clickCount hitQuota { limit used remaining } }`
)

const createLink = `mutation ($in: CreateLinkInput!) {
	createLink(input: $in) { created link ` + linkFields + ` errors { code message field } }
}`

// create creates a link in the user's workspace; more are alternating names and values of further
// arguments.
func (w tenant) create(u string, more ...any) (createLinkPayload, error) {
	return w.createBy(w.try, u, more...)
}

// createAgain is create that is sent again while a busy machine has no room for it.
func (w tenant) createAgain(u string) (createLinkPayload, error) { return w.createBy(w.tryAgain, u) }

func (w tenant) createBy(
	try func(data any, query string, variables map[string]any) error, u string, more ...any,
) (createLinkPayload, error) {
	in := map[string]any{"workspaceId": w.workspaceID, "url": u}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	var got struct{ CreateLink createLinkPayload }
	err := try(&got, createLink, map[string]any{"in": in})
	return got.CreateLink, err
}

// shorten calls create and fails the test on an error.
func (w tenant) shorten(t *testing.T, u string, more ...any) createLinkPayload {
	t.Helper()
	got, err := w.create(u, more...)
	if err != nil || len(got.Errors) > 0 {
		t.Fatalf("%q: %+v: %v", u, got.Errors, err)
	}
	return got
}

// remove deletes a link.
func (w tenant) remove(t *testing.T, linkID string) linkView {
	t.Helper()
	var got struct {
		DeleteLink struct {
			Link   linkView
			Errors []userError
		}
	}
	w.must(t, &got, `mutation ($id: ID!) { deleteLink(input: {id: $id}) { link `+linkFields+` errors { code message
		field } } }`,
		map[string]any{"id": linkID})
	return got.DeleteLink.Link
}

// getLink queries a link.
func (w tenant) getLink(t *testing.T, linkID string) linkView {
	t.Helper()
	var got struct{ Link linkView }
	w.must(t, &got, `query ($id: ID!) { link(by: {id: $id}) `+linkFigures+` }`, map[string]any{"id": linkID})
	return got.Link
}

// linksUsed returns the usage of the workspace's link quota.
func (w tenant) linksUsed(t *testing.T) int64 {
	t.Helper()
	var got struct {
		Workspace struct{ LinkQuota struct{ Used int64 } }
	}
	w.must(t, &got, `query ($id: ID!) { workspace(by: {id: $id}) { linkQuota { used } } }`,
		map[string]any{"id": w.workspaceID})
	return got.Workspace.LinkQuota.Used
}

// path returns the path of the short URL.
func (l linkView) path(s *server) string { return strings.TrimPrefix(l.ShortURL, s.public) }

// nextMonth returns the start of the next month in UTC. It skips the test in the last minutes of a
// month, because the clicks would count in two months.
func nextMonth(t *testing.T) time.Time {
	t.Helper()
	now := time.Now().UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if next.Sub(now) < 3*time.Minute {
		t.Skip("the month is about to end")
	}
	return next
}

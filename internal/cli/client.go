package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/cli/manifest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// Client are the flags of a command that is a client of the API: its server and its workspace. Such
// a command opens no database.
type Client struct {
	Server    string `env:"LINKFORGE" default:"http://localhost:8080" help:"URL of the server. LINKFORGE_API_KEY has the API key."`
	KeyFile   string `name:"api-key-file" type:"existingfile" placeholder:"FILE" help:"File with the API key, instead of LINKFORGE_API_KEY."`
	Workspace string `env:"LINKFORGE_WORKSPACE" placeholder:"SLUG" help:"Slug or id of the workspace. Default: the workspace of the API key."`
	// Key is the API key; empty for an anonymous caller. It is no flag, because other users of the
	// machine see arguments.
	Key string `kong:"-"`
}

// AfterApply reads the API key.
func (c *Client) AfterApply(io IO) error {
	c.Key = io.Getenv("LINKFORGE_API_KEY")
	if c.KeyFile != "" {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return fmt.Errorf("--api-key-file: %w", err)
		}
		c.Key = string(text)
	}
	c.Key = strings.TrimSpace(c.Key)
	return nil
}

// ExitStatus ends the program with a status; everything has been said.
type ExitStatus int

// Error implements error.
func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// maxAnswer bounds a response, and clientTimeout a request without an upload.
const (
	maxAnswer     = 16 << 20
	clientTimeout = time.Minute
)

// userError is an error of a payload.
type userError struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Field   []string `json:"field"`
}

// UserErrors are the errors of a payload.
type UserErrors []userError

// First returns the first error, which cannot control a terminal, or nil.
func (e UserErrors) First() error {
	if len(e) == 0 {
		return nil
	}
	message := e[0].Message
	if field := strings.Join(e[0].Field, "."); field != "" {
		message = field + ": " + message
	}
	return errors.New(manifest.Printable([]byte(message)))
}

// requestError is a refused request. Code is empty for a response that is no answer of the API.
type requestError struct {
	Message    string
	Extensions struct {
		Code       string
		RetryAfter int // seconds
	}
}

// Error implements error.
func (e *requestError) Error() string { return manifest.Printable([]byte(e.Message)) }

// isRefused reports whether the server has refused a request with the code.
func isRefused(err error, code string) bool {
	e, ok := errors.AsType[*requestError](err)
	return ok && e.Extensions.Code == code
}

// errTooLarge is the error of a response that is larger than maxAnswer.
var errTooLarge = errors.New("the response is too large")

// isTooLarge reports whether a request with less in it may succeed.
func isTooLarge(err error) bool {
	e, ok := errors.AsType[*requestError](err)
	return errors.Is(err, errTooLarge) ||
		ok && (e.Extensions.Code == "REQUEST_TOO_LARGE" || e.Extensions.Code == "COMPLEXITY_LIMIT_EXCEEDED")
}

// Do runs an operation, anonymously without a key, and reads its data. It returns the first error
// of the response.
func (c Client) Do(ctx context.Context, data any, operation string, variables map[string]any) error {
	body, err := json.Marshal(map[string]any{"query": operation, "variables": variables})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.Server, "/")+"/graphql",
		bytes.NewReader(body))
	if err != nil || r.URL.Host == "" {
		return errors.New("LINKFORGE or --server must be the URL of the server, as in https://go.example.com")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/graphql-response+json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("the server, which LINKFORGE or --server names, does not respond: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Data   json.RawMessage
		Errors []*requestError
	}
	limited := &io.LimitedReader{R: response.Body, N: maxAnswer}
	switch err := json.NewDecoder(limited).Decode(&answer); {
	case err != nil && limited.N == 0:
		return errTooLarge
	case err != nil:
		return fmt.Errorf("%s is no Linkforge server: it answers %s", quoted(c.Server), quoted(response.Status))
	case len(answer.Errors) > 0:
		return answer.Errors[0]
	}
	return json.Unmarshal(answer.Data, data)
}

// mutate calls the mutation with an input, again after the time that the server names if it refuses
// the request for now. It returns the selected fields of the payload, or the first error.
func mutate[T any](ctx context.Context, c Client, name string, in any, selection string) (payload T, err error) {
	var got struct{ Payload json.RawMessage }
	err = c.doWithRetry(ctx, &got, fmt.Sprintf(`mutation ($in: %s%sInput!) { payload: %[3]s(input: $in) { %s
		errors { code message field } } }`, strings.ToUpper(name[:1]), name[1:], name, selection),
		map[string]any{"in": in})
	if err != nil {
		return payload, err
	}
	var refused struct{ Errors UserErrors }
	if err := errors.Join(json.Unmarshal(got.Payload, &payload), json.Unmarshal(got.Payload, &refused)); err != nil {
		return payload, err
	}
	return payload, refused.Errors.First()
}

// workspaceID returns the id of the workspace, which exists for the key.
func (c Client) workspaceID(ctx context.Context) (string, error) {
	var by map[string]any
	switch isID := id.Valid(id.Workspace, c.Workspace); {
	case c.Key == "":
		return "", errNoKey
	case isID && c.isPublishable():
		return c.Workspace, nil // the key reads nothing
	case isID:
		by = map[string]any{"id": c.Workspace}
	case c.Workspace != "":
		by = map[string]any{"slug": c.Workspace}
	}
	var got struct{ Workspace *struct{ ID string } }
	err := c.Do(ctx, &got, `query ($by: WorkspaceBy) { workspace(by: $by) { id } }`, map[string]any{"by": by})
	if err == nil && got.Workspace == nil {
		err = fmt.Errorf("there is no workspace %s, or the key is not of it", quoted(c.Workspace))
	}
	if err != nil {
		return "", err
	}
	return got.Workspace.ID, nil
}

// isPublishable reports whether the API key creates links and does nothing else.
func (c Client) isPublishable() bool { return strings.HasPrefix(c.Key, account.PublishableKeyPrefix) }

// errNoKey is the error of a command without an API key.
var errNoKey = errors.New("set LINKFORGE_API_KEY to an API key, or name a file with it by --api-key-file: " +
	"members create keys in the console, and operators by linkforge keys create")

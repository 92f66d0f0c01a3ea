package cli

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

	"github.com/linkforge/linkforge/internal/platform/id"
)

// Client are the flags of a command that is a client of the API: its server and its workspace. Such
// a command opens no database.
type Client struct {
	Server    string `env:"LINKFORGE_SERVER" default:"http://localhost:8080" help:"URL of the server."`
	Key       string `env:"LINKFORGE_KEY" placeholder:"KEY" help:"API key. Set the variable instead: other users see arguments."`
	Workspace string `env:"LINKFORGE_WORKSPACE" placeholder:"SLUG" help:"Slug or id of the workspace."`
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
	Code, Message string
	Field         []string
}

// UserErrors are the errors of a payload.
type UserErrors []userError

// First returns the first error, or nil.
func (e UserErrors) First() error {
	if len(e) == 0 {
		return nil
	}
	if field := strings.Join(e[0].Field, "."); field != "" {
		return fmt.Errorf("%s: %s", field, e[0].Message)
	}
	return errors.New(e[0].Message)
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
func (e *requestError) Error() string { return e.Message }

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
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/graphql-response+json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
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
		return fmt.Errorf("%s is no Linkforge server: it answers %s", c.Server, response.Status)
	case len(answer.Errors) > 0:
		return answer.Errors[0]
	}
	return json.Unmarshal(answer.Data, data)
}

// workspaceID returns the id of the workspace, which exists for the key.
func (c Client) workspaceID(ctx context.Context) (string, error) {
	if c.Workspace == "" {
		return "", errors.New("name the workspace with --workspace or LINKFORGE_WORKSPACE")
	}
	by := map[string]any{"slug": c.Workspace}
	if id.Valid(id.Workspace, c.Workspace) {
		by = map[string]any{"id": c.Workspace}
	}
	var got struct{ Workspace *struct{ ID string } }
	err := c.Do(ctx, &got, `query ($by: WorkspaceBy!) { workspace(by: $by) { id } }`, map[string]any{"by": by})
	if err == nil && got.Workspace == nil {
		err = fmt.Errorf("there is no workspace %s, or the key is not of it", quoted(c.Workspace))
	}
	if err != nil {
		return "", err
	}
	return got.Workspace.ID, nil
}

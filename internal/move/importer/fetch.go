package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

const (
	// maxToken bounds the token of an API, and maxResponse a response of it, in bytes.
	maxToken    = 1000
	maxResponse = 16 << 20
	// maxRetryAfter bounds how long an API may have an import wait: up to maxWait and maxTries with
	// the slot, or else without it.
	maxRetryAfter = time.Hour
	maxWait       = 2 * time.Second
	maxTries      = 3
	// maxAnswer bounds a response that the cursor remembers, and maxAnswers all of them, in bytes.
	maxAnswer  = 4 << 10
	maxAnswers = 256 << 10
	// hostPause is how long an import leaves its slot to others when the host has too many requests.
	hostPause = time.Second
)

// apiRate is how often the API at a host is requested: twice a second.
var apiRate = ratelimit.Rate{Name: "API requests of imports", Attempts: 2, Window: time.Second}

// API is the access to the API of a source.
type API struct {
	// BaseURL is that of a self-hosted source; empty for others. Account is an account within the
	// source; empty means all.
	BaseURL, Account string
	// Token is the secret. It is sealed, and no part of the arguments.
	Token string `json:"-"`
	// ClickTotals is whether click totals are read that need a request for each link.
	ClickTotals bool
}

// checkAPI checks the access to an API. The host of the API is the default of the label. It returns
// InvalidInput.
func (in *Settings) checkAPI() error {
	a := in.API
	var checks []error
	refuse := func(field, format string, args ...any) {
		checks = append(checks, errs.New(errs.InvalidInput, format, args...).At("api", field))
	}
	if a.BaseURL != "" {
		u, err := urlnorm.Canonical(a.BaseURL)
		if err != nil || strings.ContainsAny(a.BaseURL, "?#@") {
			refuse("baseUrl", "baseUrl is the URL of a server, as in https://go.example.com.")
		} else {
			a.BaseURL, in.Label = u.String(), cmp.Or(in.Label, u.Host())
		}
	}
	isSpecial := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(a.Token) > maxToken || strings.ContainsFunc(a.Token, isSpecial) {
		refuse("token", "token has up to %d letters, digits and other characters of ASCII.", maxToken)
	}
	if strings.ContainsFunc(a.Account, isSpecial) {
		refuse("account", "account has letters, digits and other characters of ASCII.")
	}
	if len(checks) > 0 {
		return errs.All(checks...)
	}
	source := in.source(time.Time{})
	source.Token = a.Token
	_, err := importsource.NewFetcher(source, nil)
	return err
}

// fetch appends the items of the API to the file of the task, a page in each step, from the cursor
// on. Within a page, the cursor remembers small responses, so that the import can leave its slot to
// others after each request.
func (p *process) fetch(ctx context.Context) error {
	token, err := p.OpenSecret()
	if err != nil {
		return err
	}
	source := p.in.source(p.CreatedAt)
	source.Token = string(token)
	f, err := importsource.NewFetcher(source, p.request)
	if err != nil {
		return err
	}
	if p.progress.Chunks > 0 {
		f.Resume(p.items(ctx))
	}
	p.Prepared()
	for !p.progress.IsFetched {
		page, err := f.Next(ctx, p.progress.Fetch)
		if err != nil {
			return err
		}
		if err := p.append(ctx, page); err != nil {
			return err
		}
		if err := p.Rest(ctx, 0); err != nil {
			return err
		}
	}
	return p.Compute(ctx)
}

// append appends a page to the file of the task, in one step. It returns InvalidInput for a file
// that no upload may have.
func (p *process) append(ctx context.Context, page importsource.Page) error {
	lines := []byte{}
	for _, item := range page.Items {
		lines = append(append(lines, item...), '\n')
	}
	next := *p.progress
	next.Fetch, next.IsFetched, next.Answers = page.Next, page.Next == "", nil
	next.Bytes += int64(len(lines))
	next.Items += max(1, len(page.Items)) // also for a server that returns empty pages without end
	switch {
	case p.MaxBytes > 0 && next.Bytes > p.MaxBytes:
		return errs.New(errs.InvalidInput,
			"The links of the API have more than %d bytes. Import parts of them, or raise LINKFORGE_IMPORT_BYTES.",
			p.MaxBytes)
	case next.Items > maxRows:
		return errs.New(errs.InvalidInput, "The API has more than %d links. Import parts of them.", maxRows)
	}
	chunks := slices.Collect(slices.Chunk(lines, task.ChunkSize))
	if next.IsFetched {
		chunks = append(chunks, []byte{}) // ends the file
	}
	err := p.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		for i, chunk := range chunks {
			if err := p.Append(ctx, tx, p.progress.Chunks+i, chunk); err != nil {
				return err
			}
		}
		next.Chunks = p.progress.Chunks + len(chunks)
		return p.Step(ctx, tx, encode(&next), 0, nil)
	})
	if err == nil {
		p.progress = &next
	}
	return err
}

// items returns the items that were fetched before.
func (p *process) items(ctx context.Context) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		file, err := p.Tasks.OpenFile(ctx, p.ID)
		if err != nil { // or nothing was fetched before
			return
		}
		lines := bufio.NewReader(file)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil || !yield(bytes.TrimSuffix(line, []byte("\n"))) {
				return
			}
		}
	}
}

// request implements importsource.Fetch. Between two requests it leaves the slot to tasks that wait.
func (p *process) request(ctx context.Context, r importsource.Request) (importsource.Response, error) {
	key := sha256.Sum256([]byte(r.URL)) // which may have the token
	name := hex.EncodeToString(key[:16])
	if answer := p.progress.Answers[name]; answer != nil {
		return importsource.Response{Status: http.StatusOK, Body: answer}, nil
	}
	if p.requests++; p.requests > 1 && p.IsOver() {
		return importsource.Response{}, p.pause(ctx, task.Later(0))
	}
	for tries := 1; ; tries++ {
		response, wait, err := p.requestOnce(ctx, r)
		switch {
		case err == nil && wait == 0:
			p.remember(name, response)
			return response, nil
		case err == nil && (tries == maxTries || wait > maxWait):
			err = errs.New(errs.Unavailable, "The API refuses requests for now, with status %d.", response.Status).
				After(wait)
		}
		if err != nil {
			return response, p.pause(ctx, err)
		}
		if err := poll.Wait(ctx, wait); err != nil {
			return response, err
		}
	}
}

// remember has the cursor keep a small response until its page is stored.
func (p *process) remember(name string, response importsource.Response) {
	if response.Status != http.StatusOK || len(response.Body) > maxAnswer || !json.Valid(response.Body) ||
		(len(p.progress.Answers)+1)*maxAnswer > maxAnswers {
		return
	}
	if p.progress.Answers == nil {
		p.progress.Answers = map[string]json.RawMessage{}
	}
	p.progress.Answers[name] = response.Body
	p.hasAnswers = true
}

// pause stores the responses of a page that is not complete, and returns why it is not.
func (p *process) pause(ctx context.Context, cause error) error {
	if !p.hasAnswers {
		return cause
	}
	p.hasAnswers = false
	err := p.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		return p.Step(ctx, tx, encode(p.progress), 0, nil)
	})
	if err != nil {
		return err
	}
	return cause
}

// requestOnce sends a request, and returns how long to wait before the next one if the API refuses
// it by a rate.
func (p *process) requestOnce(
	ctx context.Context, r importsource.Request,
) (response importsource.Response, wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return response, 0, errs.New(errs.InvalidInput, "The API has no valid URL.").At("api", "baseUrl")
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	if err := p.Limits.Wait(ctx, apiRate, request.URL.Host, p.Account()); err != nil {
		return response, 0, cmp.Or(ctx.Err(), task.Later(hostPause))
	}
	answer, err := p.Client.Do(request)
	if err != nil {
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err // without the URL, which may have the token
		}
		return response, 0, errs.New(errs.Unavailable, "The API at %s cannot be reached.", request.URL.Host).
			Because(err)
	}
	defer answer.Body.Close()
	response.Status = answer.StatusCode
	if response.Body, err = io.ReadAll(io.LimitReader(answer.Body, maxResponse+1)); err != nil {
		return response, 0, errs.New(errs.Unavailable, "The response of %s was cut off.", request.URL.Host).Because(err)
	}
	if len(response.Body) > maxResponse {
		return response, 0, errs.New(errs.InvalidInput, "A response of %s has more than %d bytes.", request.URL.Host,
			maxResponse)
	}
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		wait = max(time.Second, min(outbound.RetryAfter(answer, p.Store.Now(), time.Second), maxRetryAfter))
	}
	return response, wait, nil
}

package clickhouse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

const (
	// dialTimeout bounds a connection attempt.
	dialTimeout = time.Second
	// readTimeout is how long a question may take, unless the configuration says otherwise.
	readTimeout = 2 * time.Second
	// mostOfError bounds the text of an exception.
	mostOfError = 2000
)

// client speaks ClickHouse's HTTP interface.
type client struct {
	base url.URL // with the database, without the credentials
	user *url.Userinfo
	http *http.Client
	// readTimeout is how long a question may take: stats are unavailable after it.
	readTimeout time.Duration
}

// newClient returns a client of http://USER:PASSWORD@HOST:8123/DATABASE.
func newClient(u *url.URL, timeout time.Duration) *client {
	base := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/", RawQuery: "database=" + url.QueryEscape(database(u))}
	return &client{base: base, user: u.User, readTimeout: cmp.Or(timeout, readTimeout),
		http: &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		}}}
}

// database is that of a URL.
func database(u *url.URL) string {
	if name := strings.Trim(u.Path, "/"); name != "" {
		return name
	}
	return "default"
}

// exception is an error that ClickHouse answered with.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return fmt.Sprintf("ClickHouse: %s", e.text) }

// busyCodes are those of exceptions that a later attempt may not meet: deadlines, limits of load
// and memory, too many parts, a statement that was killed, and a server that is shutting down or
// read-only.
var busyCodes = []int{159, 160, 202, 203, 209, 210, 236, 241, 242, 252, 319, 394, 734}

// refusedCodes are those of values that can never be stored. Others may come from a damaged table.
var refusedCodes = []int{321, 469}

// send sends a statement with the data that follows it, and returns the answer as a whole. Settings
// are of this statement.
func (c *client) send(ctx context.Context, statement string, data []byte, settings ...string) ([]byte, error) {
	to := c.base
	q := to.Query()
	// An error in the middle of an answer would be a part of it. Nothing is written later than it
	// is confirmed.
	for name, value := range map[string]string{"wait_end_of_query": "1", "async_insert": "0", "mutations_sync": "2",
		"max_query_size": strconv.Itoa(1 << 26)} {
		q.Set(name, value)
	}
	for i := 0; i+1 < len(settings); i += 2 {
		q.Set(settings[i], settings[i+1])
	}
	body := data
	if data == nil {
		body = []byte(statement)
	} else {
		q.Set("query", statement)
	}
	to.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.user != nil {
		password, _ := c.user.Password()
		request.Header.Set("X-ClickHouse-User", c.user.Username())
		request.Header.Set("X-ClickHouse-Key", password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, away(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, away(err)
	}
	if response.StatusCode == http.StatusOK {
		return answer, nil
	}
	code, _ := strconv.Atoi(response.Header.Get("X-ClickHouse-Exception-Code"))
	e := &exception{code, strings.TrimSpace(string(answer[:min(len(answer), mostOfError)]))}
	if code == 0 || slices.Contains(busyCodes, code) { // a proxy, or too much load
		return nil, errs.New(errs.Unavailable, "Clicks are not available: try again later.").Because(e)
	}
	return nil, e
}

// away is the error of a statement that was not answered. It says nothing of the URL, which may
// have a password.
func away(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return errs.New(errs.Unavailable, "Clicks are not available: try again later.").
		Because(fmt.Errorf("ClickHouse: %w", err))
}

// run runs a statement that returns nothing.
func (c *client) run(ctx context.Context, statement string, args ...any) error {
	_, err := c.send(ctx, render(statement, args...), nil)
	return err
}

// ask returns the rows of a question.
func ask[T any](ctx context.Context, c *client, question string, args ...any) (rows []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.readTimeout)
	defer cancel()
	return fetch[T](ctx, c, question, args...)
}

// fetch is ask with the longer timeout of jobs.
func fetch[T any](ctx context.Context, c *client, question string, args ...any) (rows []T, err error) {
	answer, err := c.send(ctx, render(question, args...)+" FORMAT JSONEachRow", nil,
		"output_format_json_quote_64bit_integers", "0",
		"output_format_json_quote_denormals", "0")
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(answer)); d.More(); {
		var row T
		if err := d.Decode(&row); err != nil {
			return nil, fmt.Errorf("reading an answer of ClickHouse: %w", err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// sql is a part of a statement.
type sql string

// render replaces each ? of a statement by an argument.
func render(statement string, args ...any) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(literal(args[0]))
		statement, args = after, args[1:]
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func literal(value any) string {
	switch v := value.(type) {
	case sql:
		return string(v)
	case string:
		return "'" + escapes.Replace(v) + "'"
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return "fromUnixTimestamp64Micro(" + strconv.FormatInt(v.UnixMicro(), 10) + ", 'UTC')"
	case []string:
		return "[" + joined(v) + "]"
	case []int64:
		return "[" + joined(v) + "]"
	case []time.Time:
		return "[" + joined(v) + "]"
	}
	panic(fmt.Sprintf("clickhouse: no literal of %T", value))
}

func joined[T any](values []T) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = literal(v)
	}
	return strings.Join(all, ", ")
}

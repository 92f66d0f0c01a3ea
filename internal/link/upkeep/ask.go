package upkeep

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

const (
	// pace is how long a host is left in peace between two requests.
	pace = time.Second
	// maxBody is how much of an answer is read, to let the host finish a short one.
	maxBody = 64 << 10
	// defaultPause is how long a host is left alone if it is overloaded without stating a time, or
	// unavailable. A time that it states is bounded by minPause, so that a run does not check it
	// again, and maxPause.
	defaultPause = time.Hour
	minPause     = CheckLease
	maxPause     = 24 * time.Hour
)

// answer is what came of checking a destination.
type answer struct {
	// status is that of the last answer, after all redirects; nil means that there was none. That
	// of a challenge for browsers is 403.
	status *int
	// late says that there was none in time.
	late bool
	// rest is the pause before the host's next check; zero means none.
	rest time.Duration
}

func (a answer) isWell() bool { return a.status != nil && *a.status < http.StatusBadRequest }

// ask sends HEAD, the cheapest request for a host. Many hosts do not support it, or respond
// differently than to a browser: then it sends GET.
func (c *Checker) ask(ctx context.Context, d Due) answer {
	target := destination(d.URL)
	a := c.request(ctx, d, http.MethodHead, target)
	if a.isWell() || a.late || a.rest > 0 || c.sleep(ctx, pace) != nil {
		return a
	}
	return c.request(ctx, d, http.MethodGet, target)
}

// destination returns the location of a redirect. The few URLs that net/http does not accept, such
// as those with a single percent sign, are requested in their canonical form, which is equivalent.
func destination(original string) string {
	location := urlnorm.Location(original)
	if _, err := url.Parse(location); err == nil {
		return location
	}
	canonical, err := urlnorm.Canonical(original)
	if err != nil {
		return location
	}
	return canonical.String()
}

// request sends one request.
func (c *Checker) request(ctx context.Context, d Due, method, target string) answer {
	var met meeting
	r, err := http.NewRequestWithContext(met.watch(ctx), method, target, nil)
	if err != nil {
		return c.none(ctx, d, err, &met)
	}
	r.Header.Set("Accept", "*/*")
	client := *c.Client
	client.Jar, _ = cookiejar.New(nil) // some sites redirect until a cookie comes back; never fails
	response, err := client.Do(r)
	if err != nil {
		return c.none(ctx, d, err, &met)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody)) // the status is known, even if it fails
	if isChallenge(response, body) {
		return answer{status: new(http.StatusForbidden)}
	}
	return answer{status: &response.StatusCode, rest: c.restWished(response)}
}

// challengeWords are in the pages by which sites ask browsers for a proof.
var challengeWords = [][]byte{
	[]byte("captcha"), []byte("challenge"), []byte("checking your browser"), []byte("just a moment"),
	[]byte("enable javascript and cookies"), []byte("ddos protection"),
}

// isChallenge reports whether a site that looks unavailable asks for the proof of a browser.
func isChallenge(r *http.Response, body []byte) bool {
	if r.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	body = bytes.ToLower(body)
	return r.Header.Get("Cf-Mitigated") == "challenge" || r.Header.Get("X-Amzn-Waf-Action") != "" ||
		slices.ContainsFunc(challengeWords, func(word []byte) bool { return bytes.Contains(body, word) })
}

// meeting records the progress of a request to the first host. Its fields are atomic, because they
// may be set after the request has been given up.
type meeting struct{ connected, heard atomic.Bool }

func (m *meeting) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { m.connected.Store(true) },
		GotFirstResponseByte: func() { m.heard.Store(true) },
	})
}

// none is the result without a response. The reason goes to the log only, because it may describe
// the internal network. A host that accepts a connection and does not respond in time gets the same
// pause as an unavailable one.
func (c *Checker) none(ctx context.Context, d Due, err error, met *meeting) answer {
	a := answer{}
	if e, ok := errors.AsType[*url.Error](err); ok {
		a.late = e.Timeout()
		err = e.Err // without the URL, which may hold secrets
	}
	c.Log.DebugContext(ctx, "destination does not answer", "link", d.LinkID, "error", err)
	if !met.connected.Load() || a.late && !met.heard.Load() {
		a.rest = defaultPause
	}
	return a
}

// restWished is how long a host wishes to be left alone.
func (c *Checker) restWished(r *http.Response) time.Duration {
	wish := r.Header.Get("Retry-After")
	if r.StatusCode != http.StatusTooManyRequests && (r.StatusCode != http.StatusServiceUnavailable || wish == "") {
		return 0
	}
	return min(max(outbound.RetryAfter(r, c.Now(), defaultPause), minPause), maxPause)
}

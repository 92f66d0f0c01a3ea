package dispatch

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/outbound"
)

const (
	// userAgent is the agent of all requests.
	userAgent = "Linkforge-Webhooks/1"
	// attemptTimeout bounds a request.
	attemptTimeout = 15 * time.Second
	// slowAnswer is the duration from which an answer, or a failure such as a look-up of the host,
	// counts as a timeout.
	slowAnswer = 5 * time.Second
	// maxResponse bounds the bytes read of a response, which is discarded.
	maxResponse = 4 << 10
	// maxRetryAfter bounds the pause that a response requests.
	maxRetryAfter = 24 * time.Hour
)

// ClientConfig returns the configuration of the client that sends requests.
func ClientConfig(c outbound.Config) outbound.Config {
	c.UserAgent, c.Timeout, c.NoRedirects, c.MaxHeaderBytes = userAgent, attemptTimeout, true, maxResponse
	return c
}

// outcome is the result of a request.
type outcome struct {
	webhook.Attempt
	// retryAfter is the pause that the receiver requests; zero means none.
	retryAfter time.Duration
}

func (o outcome) succeeded() bool { return o.Error == nil }

// isSlow reports whether a request has timed out, or took slowAnswer or longer.
func (o outcome) isSlow() bool {
	return (!o.succeeded() && *o.Error == webhook.TimeoutError) || o.DurationMs >= int(slowAnswer.Milliseconds())
}

// isGone reports whether the receiver wants no more requests.
func (o outcome) isGone() bool { return o.Status != nil && *o.Status == http.StatusGone }

// send sends one request. It returns an error if the request could not be prepared or was
// interrupted by the context; failures of the receiver are part of the outcome.
func (d *Dispatcher) send(ctx context.Context, w *webhook.Webhook, messageID string, body []byte) (o outcome, _ error) {
	began := d.Now()
	o = outcome{Attempt: webhook.Attempt{WorkspaceID: w.WorkspaceID, SentAt: d.now()}}
	if _, err := d.CheckURL(ctx, w.URL); err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		if !errs.From(err).Kind.IsUserError() {
			return o, err
		}
		o.Error = new(webhook.RefusedError)
		return o, nil
	}
	secrets, err := d.Secrets(w, began)
	if err != nil {
		return o, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return o, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", messageID)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(began.Unix(), 10))
	r.Header.Set("webhook-signature", sign(secrets, messageID, began, body))
	sent := time.Now() // the duration is real time, also with another clock
	defer func() { o.DurationMs = int(time.Since(sent).Milliseconds()) }()
	response, err := d.Client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		o.Error = new(classify(err))
		return o, nil
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // the status is known, even if the body fails
	o.Status = &response.StatusCode
	if response.StatusCode < 200 || response.StatusCode > 299 {
		o.Error, o.retryAfter = new(webhook.StatusError), retryAfter(response, began)
	}
	return o, nil
}

// classify returns the class of an error of the client. Its text, which may describe the internal
// network, goes nowhere.
func classify(err error) webhook.AttemptError {
	if errors.Is(err, outbound.ErrRefused) {
		return webhook.RefusedError
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return webhook.DNSError
	}
	if e, ok := errors.AsType[*url.Error](err); ok && e.Timeout() {
		return webhook.TimeoutError
	}
	if isTLS(err) {
		return webhook.TLSError
	}
	return webhook.ConnectionError
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // an alert of the receiver
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// retryAfter is the pause that a response requests (RFC 9110, section 10.2.3).
func retryAfter(r *http.Response, now time.Time) time.Duration {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	return min(max(outbound.RetryAfter(r, now, 0), 0), maxRetryAfter)
}

// sign returns the header webhook-signature: a signature for each secret, separated by spaces.
func sign(secrets [][]byte, messageID string, at time.Time, body []byte) string {
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(messageID + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}

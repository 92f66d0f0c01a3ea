// Package mail sends mail from a queue in memory: Send returns at once, so that the duration of a
// request does not reveal whether a message was sent. It does not write texts or store messages.
// account and workspace call it.
package mail

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// maxWaiting bounds the queue of messages that users request for themselves, and the queue of
	// messages to others. Further messages are dropped: they can be requested again.
	maxWaiting = 1000
	// attemptDeadline bounds one attempt to send a message, drainDeadline all attempts at shutdown.
	attemptDeadline = 30 * time.Second
	drainDeadline   = 10 * time.Second
	// minBackoff and maxBackoff bound the pauses between attempts. Servers with greylisting accept
	// a message after some minutes.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// maxAge is how long a message is retried. It outlasts most outages.
	maxAge = 12 * time.Hour
)

// Config configures a Mailer.
type Config struct {
	// URL is the mail server: smtp://user:password@host:587 with STARTTLS, or smtps://host:465. TLS
	// is required unless the host is this machine or the URL ends in ?tls=off; ?tls=on requires it
	// even then. Without a URL, messages are logged instead of sent.
	URL string
	// From is the sender, an address or Name <address>.
	From string
	// Log receives subjects of messages that are not sent, but neither addresses nor texts.
	Log *slog.Logger
	// Print, if not nil, receives messages that are not sent for lack of a mail server. They
	// contain secrets: it is for a developer's terminal.
	Print io.Writer
}

// message is a queued message.
type message struct {
	to, subject, text string
	// toOthers says that another user than the recipient has caused it.
	toOthers bool
	// id is the Message-ID: after an attempt with an unknown result the message may arrive twice.
	id   string
	born time.Time
	// due is the time of the next attempt.
	due      time.Time
	failures int
}

// Mailer queues messages; the goroutine in Run sends them.
type Mailer struct {
	log        *slog.Logger
	configured bool
	// deliver makes one attempt. It returns a refusal if the server refuses the message, and other
	// errors if it is unavailable.
	deliver func(context.Context, *message) error

	mu      sync.Mutex
	waiting []*message
	full    bool // messages have been dropped
	closed  bool

	// failures counts consecutive attempts while the server was unavailable; rest is the end of the
	// pause. Run's goroutine alone accesses them.
	failures int
	rest     time.Time

	wake chan struct{} // a message was queued
}

// New returns a Mailer. Messages wait until Run sends them. Its errors do not contain the URL,
// which has a password.
func New(c Config) (*Mailer, error) {
	m := &Mailer{log: c.Log, configured: c.URL != "", wake: make(chan struct{}, 1)}
	if !m.configured {
		m.deliver = discard{c.Log, c.Print}.deliver
		return m, nil
	}
	s, err := newServer(c.URL, c.From)
	if err != nil {
		return nil, err
	}
	m.deliver = s.deliver
	return m, nil
}

// Configured reports whether there is a mail server; a nil Mailer has none.
func (m *Mailer) Configured() bool { return m != nil && m.configured }

// ToOthers sends messages to users who have not requested them, such as invitations. They have a
// queue of their own, so that a flood of them neither drops nor delays the others.
type ToOthers struct{ *Mailer }

// Send is Mailer.Send for the queue of messages to others.
func (o ToOthers) Send(ctx context.Context, to, subject, text string) {
	o.send(ctx, to, subject, text, true)
}

// Send queues a plain text message. The subject may be logged and must not identify a user.
// Messages with an invalid address or subject, and any beyond maxWaiting, are dropped.
func (m *Mailer) Send(ctx context.Context, to, subject, text string) {
	m.send(ctx, to, subject, text, false)
}

func (m *Mailer) send(ctx context.Context, to, subject, text string, toOthers bool) {
	if !isAddress(to) || strings.ContainsFunc(subject, unicode.IsControl) {
		m.log.WarnContext(ctx, "mail not sent: invalid address or subject")
		return
	}
	now := time.Now()
	l := &message{to: to, subject: subject, text: text, toOthers: toOthers, id: rand.Text(), born: now, due: now}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		m.log.WarnContext(ctx, "mail not sent: the server is shutting down", "subject", subject)
		return
	}
	if m.count(toOthers) >= maxWaiting {
		if !m.full {
			m.log.WarnContext(ctx, "mail dropped: the queue for the mail server is full", "messages", len(m.waiting))
		}
		m.full = true
		return
	}
	m.waiting = append(m.waiting, l)
	poll.Signal(m.wake)
}

// count returns the number of waiting messages of a queue.
func (m *Mailer) count(toOthers bool) (n int) {
	for _, l := range m.waiting {
		if l.toOthers == toOthers {
			n++
		}
	}
	return n
}

// isAddress reports whether a text is an address alone, in one line.
func isAddress(to string) bool {
	parsed, err := netmail.ParseAddress(to)
	return err == nil && parsed.Address == to && !strings.ContainsFunc(to, unicode.IsControl)
}

// Run sends messages until the context ends, and then sends the queued ones. It returns an error if
// messages were lost.
func (m *Mailer) Run(ctx context.Context) error {
	lasting, cancel := outlast(ctx, drainDeadline)
	defer cancel()
	for l := m.await(ctx); l != nil; l = m.await(ctx) {
		m.attempt(lasting, l)
	}
	for left := m.drain(); left > 0; {
		l := m.await(lasting)
		if l == nil {
			return fmt.Errorf("%d messages were lost: the mail server did not accept them in time", left)
		}
		left = m.attempt(lasting, l)
	}
	return nil
}

// outlast returns a context that ends a duration after ctx.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = poll.Wait(lasting, d)
		cancel()
	})
	return lasting, func() {
		stop()
		cancel()
	}
}

// await waits for a message that is due. It returns nil when the context ends.
func (m *Mailer) await(ctx context.Context) *message {
	for ctx.Err() == nil {
		l, wait := m.next(time.Now())
		if wait <= 0 {
			return l
		}
		m.sleep(ctx, wait)
	}
	return nil
}

// next returns the next message to send and the time until it is due.
func (m *Mailer) next(now time.Time) (*message, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return nil, time.Hour // or until there is one
	}
	soonest := slices.MinFunc(m.waiting, func(a, b *message) int {
		return cmp.Or(compareTurns(a, b, now), a.due.Compare(b.due))
	})
	return soonest, max(soonest.due.Sub(now), m.rest.Sub(now))
}

// compareTurns puts messages that are due and that users request for themselves first.
func compareTurns(a, b *message, now time.Time) int {
	first := func(l *message) int {
		if !l.toOthers && !l.due.After(now) {
			return 0
		}
		return 1
	}
	return first(a) - first(b)
}

// sleep waits for a duration, the next Send or the end of the context.
func (m *Mailer) sleep(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-m.wake:
	case <-ctx.Done():
	}
}

// attempt tries to send the message and returns the number of messages left.
func (m *Mailer) attempt(ctx context.Context, l *message) int {
	attempting, cancel := context.WithTimeout(ctx, attemptDeadline)
	defer cancel()
	err := m.deliver(attempting, l)
	refused, _ := errors.AsType[*refusal](err)
	switch {
	case err == nil || refused != nil:
		m.markAvailable(ctx)
	case ctx.Err() == nil: // otherwise the failure may be our doing
		m.markUnavailable(ctx, err)
	}
	if refused != nil && !refused.temporary() {
		m.log.WarnContext(ctx, "mail rejected by SMTP server", "subject", l.subject, "error", err)
		return m.remove(l)
	}
	if refused != nil && l.failures == 0 {
		m.log.InfoContext(ctx, "mail deferred by SMTP server", "subject", l.subject, "error", err)
	}
	if err != nil {
		return m.postpone(ctx, l, err)
	}
	return m.remove(l)
}

func (m *Mailer) markAvailable(ctx context.Context) {
	if m.failures > 0 {
		m.log.InfoContext(ctx, "SMTP server available, mail delivery resumed")
	}
	m.failures = 0
}

// markUnavailable pauses all attempts. An outage is logged once.
func (m *Mailer) markUnavailable(ctx context.Context, err error) {
	if m.failures == 0 {
		m.log.ErrorContext(ctx, "SMTP server unavailable, mail queued", "error", err)
	}
	m.failures++
	m.rest = time.Now().Add(backoff(m.failures))
}

// postpone schedules another attempt, unless the message is too old.
func (m *Mailer) postpone(ctx context.Context, l *message, err error) int {
	if time.Since(l.born) > maxAge {
		m.log.ErrorContext(ctx, "mail delivery expired", "subject", l.subject, "error", err)
		return m.remove(l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.failures++
	l.due = time.Now().Add(backoff(l.failures))
	return len(m.waiting)
}

func (m *Mailer) remove(done *message) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(l *message) bool { return l == done })
	if len(m.waiting) < maxWaiting/2 {
		m.full = false
	}
	return len(m.waiting)
}

// drain closes the queue and makes all messages due. It returns their number.
func (m *Mailer) drain() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, l := range m.waiting {
		l.due, l.failures = time.Time{}, 0
	}
	m.rest, m.failures = time.Time{}, 0
	return len(m.waiting)
}

// backoff returns the pause after consecutive failures, which doubles each time.
func backoff(failures int) time.Duration {
	wait := minBackoff
	for range failures - 1 {
		wait = min(2*wait, maxBackoff)
	}
	return wait
}

// discard logs messages for lack of a mail server.
type discard struct {
	log   *slog.Logger
	print io.Writer
}

func (n discard) deliver(ctx context.Context, l *message) error {
	n.log.WarnContext(ctx, "mail not sent: no mail server is configured", "subject", l.subject)
	if n.print == nil {
		return nil
	}
	// A failure to print is no reason to retry.
	_, _ = fmt.Fprintf(n.print, "To: %s\nSubject: %s\n\n%s\n\n", l.to, l.subject, strings.TrimSpace(l.text))
	return nil
}

// Package mail sends people mail. Letters wait in memory: whoever asks for one does not wait for
// the mail server, and the time that an answer takes does not say whether there was anybody to
// write to.
package mail

import (
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

	"github.com/linkforge/linkforge/internal/pause"
)

const (
	// maxWaiting bounds the letters that wait for the mail server. Beyond it they are dropped: people
	// can ask again.
	maxWaiting = 1000
	// attemptDeadline bounds one attempt to send a letter, drainDeadline everything that is left at
	// the end.
	attemptDeadline = 30 * time.Second
	drainDeadline   = 10 * time.Second
	// firstPause and longestPause lie between attempts. Servers that put strangers off (greylisting)
	// take the letter after some minutes.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// patience is how long a letter is tried. It outlasts most outages.
	patience = 12 * time.Hour
)

// Config is what a Mailer needs.
type Config struct {
	// URL is the mail server: smtp://user:password@host:587 with STARTTLS, or smtps://host:465.
	// Nothing is sent without TLS, unless the host is this machine or the URL ends in ?tls=off;
	// ?tls=on insists even here. Empty: no mail is sent, and the log says so of each letter.
	URL string
	// From is whom the letters are from, an address alone or Name <address>.
	From string
	// Log is told of letters that are not sent: of their subjects, never of people or of what they are
	// told.
	Log *slog.Logger
	// Print, if not nil, gets the letters that are not sent for want of a mail server. They hold
	// secrets: it is for a developer's own terminal.
	Print io.Writer
}

// letter is something to be sent.
type letter struct {
	to, subject, text string
	// id names the letter once and for all: after an attempt whose answer got lost it may arrive
	// twice.
	id   string
	born time.Time
	// due is when it is to be tried again, after so many failures.
	due      time.Time
	failures int
}

// Mailer takes letters off the path of the answer: Send queues them, and the one goroutine in Run
// sends them.
type Mailer struct {
	log        *slog.Logger
	configured bool
	// deliver makes one attempt. It returns a refusal when the server does not want this letter, and
	// any other error when the server is away.
	deliver func(context.Context, *letter) error

	mu      sync.Mutex
	waiting []*letter
	full    bool // letters have been dropped
	closed  bool

	// failures are how often in a row the server was away, rest is when it is to be tried again. Only
	// Run's goroutine touches them.
	failures int
	rest     time.Time

	wake chan struct{} // a letter waits
}

// New prepares a Mailer. Letters stay in memory until Run sends them. It returns an error when the
// URL or the address cannot be used, which does not repeat the URL: there is a password in it.
func New(c Config) (*Mailer, error) {
	m := &Mailer{log: c.Log, configured: c.URL != "", wake: make(chan struct{}, 1)}
	if !m.configured {
		m.deliver = nowhere{c.Log, c.Print}.deliver
		return m, nil
	}
	s, err := newServer(c.URL, c.From)
	if err != nil {
		return nil, err
	}
	m.deliver = s.deliver
	return m, nil
}

// Configured says whether there is a mail server.
func (m *Mailer) Configured() bool { return m.configured }

// Send takes a letter in plain text, and returns at once. The subject must hold nothing about
// anybody: it may be logged. A letter whose address or subject is not one, and any that comes when
// too many wait, is dropped.
func (m *Mailer) Send(ctx context.Context, to, subject, text string) {
	if !isAddress(to) || strings.ContainsFunc(subject, unicode.IsControl) {
		m.log.WarnContext(ctx, "mail not sent: this is no address, or no subject")
		return
	}
	now := time.Now()
	l := &letter{to: to, subject: subject, text: text, id: rand.Text(), born: now, due: now}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		m.log.WarnContext(ctx, "mail not sent: the server shuts down", "subject", subject)
		return
	}
	if len(m.waiting) >= maxWaiting {
		if !m.full {
			m.log.WarnContext(ctx, "mail not sent: too many letters wait for the mail server", "letters", len(m.waiting))
		}
		m.full = true
		return
	}
	m.waiting = append(m.waiting, l)
	signal(m.wake)
}

// isAddress reports whether a letter can be addressed to it: an address alone, in one line.
func isAddress(to string) bool {
	parsed, err := netmail.ParseAddress(to)
	return err == nil && parsed.Address == to && !strings.ContainsFunc(to, unicode.IsControl)
}

// Run sends letters until the context ends, and then what is left. Afterwards nothing more is
// taken. It returns an error when letters were lost.
func (m *Mailer) Run(ctx context.Context) error {
	lasting, cancel := outlast(ctx, drainDeadline)
	defer cancel()
	for l := m.await(ctx); l != nil; l = m.await(ctx) {
		m.attempt(lasting, l)
	}
	for left := m.hurry(); left > 0; {
		l := m.await(lasting)
		if l == nil {
			return fmt.Errorf("%d letters were lost: the mail server did not take them in time", left)
		}
		left = m.attempt(lasting, l)
	}
	return nil
}

// outlast is a context that ends so much later than ctx.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = pause.For(lasting, d)
		cancel()
	})
	return lasting, func() {
		stop()
		cancel()
	}
}

// await waits for a letter that is due. It returns nil when the context ends.
func (m *Mailer) await(ctx context.Context) *letter {
	for ctx.Err() == nil {
		l, wait := m.next(time.Now())
		if wait <= 0 {
			return l
		}
		m.sleep(ctx, wait)
	}
	return nil
}

// next is the letter to be tried next, and how long to wait for that.
func (m *Mailer) next(now time.Time) (*letter, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return nil, time.Hour // or until there is one
	}
	soonest := m.waiting[0]
	for _, l := range m.waiting[1:] {
		if l.due.Before(soonest.due) {
			soonest = l
		}
	}
	return soonest, max(soonest.due.Sub(now), m.rest.Sub(now))
}

// sleep waits for so long, or until another letter comes or the context ends.
func (m *Mailer) sleep(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-m.wake:
	case <-ctx.Done():
	}
}

// attempt tries to send the letter, and returns how many are left.
func (m *Mailer) attempt(ctx context.Context, l *letter) int {
	attempting, cancel := context.WithTimeout(ctx, attemptDeadline)
	defer cancel()
	err := m.deliver(attempting, l)
	refused, _ := errors.AsType[*refusal](err)
	switch {
	case err == nil || refused != nil:
		m.serverIsThere(ctx)
	case ctx.Err() == nil: // otherwise the failure may be our doing
		m.serverIsAway(ctx, err)
	}
	if refused != nil && !refused.temporary() {
		m.log.WarnContext(ctx, "mail not sent: the mail server refused it", "subject", l.subject, "error", err)
		return m.forget(l)
	}
	if refused != nil && l.failures == 0 {
		m.log.InfoContext(ctx, "mail put off by the mail server", "subject", l.subject, "error", err)
	}
	if err != nil {
		return m.putOff(ctx, l, err)
	}
	return m.forget(l)
}

func (m *Mailer) serverIsThere(ctx context.Context) {
	if m.failures > 0 {
		m.log.InfoContext(ctx, "mail is sent again")
	}
	m.failures = 0
}

// serverIsAway gives the server a rest. An outage is logged once.
func (m *Mailer) serverIsAway(ctx context.Context, err error) {
	if m.failures == 0 {
		m.log.ErrorContext(ctx, "mail waits for the mail server", "error", err)
	}
	m.failures++
	m.rest = time.Now().Add(pauseAfter(m.failures))
}

// putOff has the letter be tried again later, unless it has been tried for long enough.
func (m *Mailer) putOff(ctx context.Context, l *letter, err error) int {
	if time.Since(l.born) > patience {
		m.log.ErrorContext(ctx, "mail not sent: it was tried for too long", "subject", l.subject, "error", err)
		return m.forget(l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.failures++
	l.due = time.Now().Add(pauseAfter(l.failures))
	return len(m.waiting)
}

func (m *Mailer) forget(done *letter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(l *letter) bool { return l == done })
	if len(m.waiting) < maxWaiting/2 {
		m.full = false
	}
	return len(m.waiting)
}

// hurry takes no more letters, and has those that are left be tried at once. It returns how many
// there are.
func (m *Mailer) hurry() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, l := range m.waiting {
		l.due, l.failures = time.Time{}, 0
	}
	m.rest, m.failures = time.Time{}, 0
	return len(m.waiting)
}

// pauseAfter is how long to wait after so many failures in a row: each time for twice as long.
func pauseAfter(failures int) time.Duration {
	wait := firstPause
	for range failures - 1 {
		wait = min(2*wait, longestPause)
	}
	return wait
}

// signal wakes whoever waits on the channel, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// nowhere is where letters go without a mail server.
type nowhere struct {
	log   *slog.Logger
	print io.Writer
}

func (n nowhere) deliver(ctx context.Context, l *letter) error {
	n.log.WarnContext(ctx, "mail not sent: no mail server is configured", "subject", l.subject)
	if n.print == nil {
		return nil
	}
	// That a developer's terminal is away is no reason to try again.
	_, _ = fmt.Fprintf(n.print, "To: %s\nSubject: %s\n\n%s\n\n", l.to, l.subject, strings.TrimSpace(l.text))
	return nil
}

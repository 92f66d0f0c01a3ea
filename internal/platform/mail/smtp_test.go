package mail

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// from is whom the tests' messages are from.
const from = "Linkförge <no-reply@sho.rt>"

func client(t *testing.T, rawURL string, roots *x509.CertPool) *server {
	t.Helper()
	s := must.Value(newServer(rawURL, from))(t)
	s.roots = roots
	return s
}

func aMessage() *message {
	return &message{to: ada, subject: "Grüße", text: "Liebe Ada,\n\n.\n.. " + secret + "\n", id: "ID", born: time.Now()}
}

// post makes one attempt to send a message.
func (s *server) post(t *testing.T, l *message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := s.deliver(ctx, l)
	for _, private := range []string{"ada", "SECRET", "hunter2", "postman"} {
		if err != nil && strings.Contains(err.Error(), private) {
			t.Errorf("the error says %q: %v", private, err)
		}
	}
	return err
}

func TestSMTP_DeliversTheMessage(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t, "127.0.0.1:0", nil)
	l := aMessage()
	must.NoError(t, client(t, "smtp://"+p.address(), nil).post(t, l))
	wanttest.Equal(t, []string{"MAIL FROM:<no-reply@sho.rt> BODY=8BITMIME"}, p.received("MAIL"), "result")
	wanttest.Equal(t, []string{"RCPT TO:<ada@example.com>"}, p.received("RCPT"), "result")
	m, err := netmail.ReadMessage(strings.NewReader(p.taken()[0]))
	must.NoError(t, err)
	header := map[string]string{}
	for name, values := range m.Header {
		header[name], err = new(mime.WordDecoder).DecodeHeader(strings.Join(values, "|"))
		if err != nil {
			t.Error(err)
		}
	}
	want := map[string]string{
		"Auto-Submitted": "auto-generated", "Content-Transfer-Encoding": "quoted-printable",
		"Content-Type": "text/plain; charset=UTF-8",
		"Date":         l.born.UTC().Format(time.RFC1123Z), "From": from, "Message-Id": "<ID@sho.rt>",
		"Mime-Version": "1.0",
		"Subject":      "Grüße",
		"To":           "<ada@example.com>",
	}
	header["From"] = strings.ReplaceAll(header["From"], `"`, "")
	wanttest.Equal(t, want, header, "header")
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	must.NoError(t, err)
	wanttest.Equal(t, l.text, strings.ReplaceAll(string(text), "\r\n", "\n"), "text")
}

func TestSMTP_AuthenticatesBehindTLS(t *testing.T) {
	t.Parallel()
	certificate, roots := certified(t)
	for name, c := range map[string]struct {
		scheme, query, ways string
		implicit            bool
	}{
		"STARTTLS, PLAIN": {"smtp", "?tls=on", "LOGIN PLAIN", false},
		"STARTTLS, LOGIN": {"smtp", "?tls=on", "LOGIN", false},
		"TLS, PLAIN":      {"smtps", "", "PLAIN", true},
		"TLS, LOGIN":      {"smtps", "?tls=on", "XOAUTH2 LOGIN", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPostOffice(t, "127.0.0.1:0", func(p *postOffice) {
				p.tls, p.implicit, p.ways = certificate, c.implicit,
					c.ways
			})
			s := client(t, c.scheme+"://postman:hunter%2F2@"+p.address()+c.query, roots)
			if err := s.post(t, aMessage()); err != nil || len(p.taken()) != 1 {
				t.Errorf("%d messages arrived: %v", len(p.taken()), err)
			}
			wanttest.Equal(t, []string{":postman:hunter/2"}, p.users, "logged in")
		})
	}
}

// TestSMTP_RefusesPlaintext: an attacker on the network can remove STARTTLS, or respond in place
// of the server.
func TestSMTP_RefusesPlaintext(t *testing.T) {
	t.Parallel()
	certificate, _ := certified(t)
	for name, c := range map[string]struct {
		scheme, query string
		change        func(p *postOffice)
	}{
		"no STARTTLS": {"smtp", "?tls=on", nil},
		"STARTTLS is refused": {"smtp", "?tls=on", func(p *postOffice) {
			p.tls, p.answer = certificate,
				always("STARTTLS", "454 later")
		}},
		"STARTTLS by anybody":       {"smtp", "?tls=on", func(p *postOffice) { p.tls = certificate }},
		"TLS by anybody":            {"smtps", "", func(p *postOffice) { p.tls, p.implicit = certificate, true }},
		"no TLS where there was to": {"smtps", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPostOffice(t, "127.0.0.1:0", func(p *postOffice) {
				p.ways = "PLAIN"
				if c.change != nil {
					c.change(p)
				}
			})
			s := client(t, c.scheme+"://postman:hunter2@"+p.address()+c.query, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // without TLS both wait for the other to begin
			defer cancel()
			err := s.deliver(ctx, aMessage())
			if _, refused := errors.AsType[*refusal](err); err == nil || refused {
				t.Errorf("delivered: %v", err)
			}
			for _, verb := range []string{"AUTH", "MAIL", "RCPT"} {
				if got := p.received(verb); len(got) > 0 {
					t.Errorf("the server received %v, want nothing", got)
				}
			}
		})
	}
}

// always answers commands of the verb alike.
func always(verb, answer string) func(string) string {
	return func(command string) string {
		if strings.HasPrefix(command, verb) {
			return answer
		}
		return ""
	}
}

func TestSMTP_ClassifiesReplies(t *testing.T) {
	t.Parallel()
	const temporary, permanent, away = "temporary", "permanent", "away"
	for name, c := range map[string]struct{ verb, answer, want string }{
		"greylisted":           {"RCPT", "451 4.7.1 <ada@example.com>: come back later", temporary},
		"no such mailbox":      {"RCPT", "550 5.1.1 <ada@example.com>: unknown", permanent},
		"of several lines":     {"RCPT", "550-5.1.1 <ada@example.com>\r\n550 5.1.1 unknown", permanent},
		"not here":             {"DATA", "554 never, ada", permanent},
		"text refused":         {".", "554 5.7.1 " + secret + " looks like spam", permanent},
		"text put off":         {".", "452 no room for " + secret, temporary},
		"closes":               {"RCPT", "421 ada, we are closing", away},
		"unwelcome":            {"CONNECT", "554 go away, ada", away},
		"no hello":             {"EHLO", "hang up", away},
		"user unknown":         {"AUTH", "535 5.7.8 postman:hunter2 is wrong", away},
		"sender refused":       {"MAIL", "550 ada", away},
		"hangs up at the end":  {".", "hang up", away},
		"not SMTP":             {"RCPT", "ada@example.com, hello", away},
		"a number, not SMTP's": {"RCPT", "99 ada@example.com", away},
		"success of a kind":    {"DATA", "250 ada, go on", away},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPostOffice(t, "127.0.0.1:0", func(p *postOffice) {
				p.ways, p.answer = "PLAIN", always(c.verb, c.answer)
			})
			err := client(t, "smtp://postman:hunter2@"+p.address(), nil).post(t, aMessage())
			got := away
			if refused, ok := errors.AsType[*refusal](err); ok {
				got = map[bool]string{true: temporary, false: permanent}[refused.temporary()]
			}
			if err == nil || got != c.want || len(p.taken()) > 0 {
				t.Errorf("%s, %d messages taken: %v; want %s", got, len(p.taken()), err, c.want)
			}
		})
	}
}

// TestSMTP_DeliversOnce: responses after the accepted message have no effect.
func TestSMTP_DeliversOnce(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"hang up", "554 never", "nonsense"} {
		p := newPostOffice(t, "127.0.0.1:0", func(p *postOffice) { p.answer = always("QUIT", answer) })
		if err := client(t, "smtp://"+p.address(), nil).post(t, aMessage()); err != nil || len(p.taken()) != 1 {
			t.Errorf("%q at the end, %d messages: %v", answer, len(p.taken()), err)
		}
	}
}

func TestSMTP_TimesOut(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"smtp", "smtps"} {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		must.NoError(t, err)
		defer silent.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = client(t, scheme+"://"+silent.Addr().String(), nil).deliver(ctx, aMessage())
		if _, refused := errors.AsType[*refusal](err); err == nil || refused || ctx.Err() == nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// TestSMTP_RefusesHeaderInjection: nothing that a message says passes for a command or a header.
func TestSMTP_RefusesHeaderInjection(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t, "127.0.0.1:0", nil)
	l := aMessage()
	l.subject = strings.Repeat("Grüße? =0D=0A =?utf-8?q?=0D=0ABcc:?= ", 20)
	l.text = "Bcc: eve@example.com\r\n.\r\nRCPT TO:<eve@example.com>\r\n\r\n.\n"
	must.NoError(t, client(t, "smtp://"+p.address(), nil).post(t, l))
	m, err := netmail.ReadMessage(strings.NewReader(p.taken()[0]))
	if err != nil || m.Header.Get("Bcc") != "" || len(m.Header) != 9 || len(p.taken()) != 1 ||
		len(p.received("RCPT")) != 1 {
		t.Errorf("%v, %d messages, %v: %v", m.Header, len(p.taken()), p.received("RCPT"), err)
	}
}

func TestParseURL_AcceptsURLs(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]server{
		"smtp://mail.example.org":           {host: "mail.example.org", port: "587"},
		"smtp://mail.example.org:25":        {host: "mail.example.org", port: "25"},
		"smtp://mail.example.org?tls=off":   {host: "mail.example.org", port: "587", security: noTLS},
		"smtp://u:p%40%3A@mail.example.org": {host: "mail.example.org", port: "587", user: "u", password: "p@:"},
		"smtp://u%40example.org:p@[2001:db8::1]:587": {host: "2001:db8::1", port: "587", user: "u@example.org",
			password: "p"},
		"smtps://mail.example.org": {host: "mail.example.org", port: "465", security: implicitTLS},
		"smtp://localhost:1025":    {host: "localhost", port: "1025", security: noTLS},
		"smtp://[::1]:1025":        {host: "::1", port: "1025", security: noTLS},
		"smtp://u:p@127.1.2.3?tls=off": {host: "127.1.2.3", port: "587", security: noTLS, user: "u",
			password: "p"},
		"smtp://u:p@localhost?tls=on": {host: "localhost", port: "587", user: "u", password: "p"},
	} {
		s, err := newServer(rawURL, from)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		s.from = nil
		if diff := cmp.Diff(want, *s, cmp.AllowUnexported(server{})); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", rawURL, diff)
		}
	}
}

func TestParseURL_RefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, from string }{
		{"smtp://postman:hunter2@", from},
		{"smtp:postman:hunter2@mail.example.org", from},
		{"http://postman:hunter2@mail.example.org", from},
		{"postman:hunter2@mail.example.org", from},
		{"smtp://postman:hunter2@mail.example.org:smtp", from},
		{"smtp://postman:hunter2@mail.example.org:0", from},
		{"smtp://postman:hunter2@mail.example.org:65536", from},
		{"smtp://postman:hunter2@mail.example.org/inbox", from},
		{"smtp://postman:hunter2@mail.example.org#inbox", from},
		{"smtp://postman:hunter2@mail.example.org?tls=maybe", from},
		{"smtp://postman:hunter2@mail.example.org?starttls=off", from},
		{"smtp://postman:hunter2@mail.example.org?tls=off", from}, // the password would be sent in the clear
		{"smtps://postman:hunter2@mail.example.org?tls=off", from},
		{"smtp://postman@mail.example.org", from},
		{"smtp://:hunter2@mail.example.org", from},
		{"smtp://postman:hunter2@mail.example.org%", from},
		{"smtp://postman:hunter2%zz@mail.example.org", from},
		{"smtp://postman:hunter2\n@mail.example.org", from},
		{"smtp://postman:hunter2@mail.example.org", ""},
		{"smtp://postman:hunter2@mail.example.org", "no-reply"},
		{"smtp://postman:hunter2@mail.example.org", "no-reply@sho.rt\r\nBcc: eve@example.com"},
	} {
		m, err := New(Config{URL: c.url, From: c.from})
		if err == nil || m != nil || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "postman") {
			t.Errorf("%q from %q: %v", c.url, c.from, err)
		}
	}
}

package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// security is the protection of the connection.
type security int

const (
	startTLS security = iota // required: a server without it may be an impostor
	implicitTLS
	noTLS
)

// server sends messages to a mail server.
type server struct {
	host, port     string
	user, password string // empty: no authentication
	security       security
	from           *netmail.Address
	// roots are the trusted authorities; nil selects the system's.
	roots *x509.CertPool
}

var errURL = errors.New("the mail server's URL is not of the form smtp://user:password@host:587 or " +
	"smtps://user:password@host:465")

func newServer(rawURL, from string) (*server, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" && u.RawQuery != "tls=on" && u.RawQuery != "tls=off" {
		return nil, errURL // the library's own text may hold the password
	}
	if strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return nil, errURL
	}
	s := &server{host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	s.password, _ = u.User.Password()
	if err := s.secure(u.Scheme, u.RawQuery); err != nil {
		return nil, err
	}
	if n, err := strconv.ParseUint(s.port, 10, 16); err != nil || n == 0 {
		return nil, errURL
	}
	if (s.user == "") != (s.password == "") {
		return nil, errors.New("the mail server's URL must have both a user and a password, or neither")
	}
	if s.from, err = netmail.ParseAddress(from); err != nil {
		return nil, errors.New("the sender is not an address: it must have the form Name <name@example.com>")
	}
	return s, nil
}

// secure sets the protection and the default port.
func (s *server) secure(scheme, query string) error {
	switch here := isLoopback(s.host); {
	case scheme == "smtps" && query == "tls=off":
		return errors.New("the mail server's URL has both smtps, which requires TLS, and tls=off")
	case scheme == "smtps":
		s.security, s.port = implicitTLS, cmp.Or(s.port, "465")
	case scheme != "smtp":
		return errURL
	case query == "tls=off" && !here && s.user != "":
		return errors.New("the mail server's URL has a password and tls=off: passwords are only sent with TLS")
	case query == "tls=off" || here && query != "tls=on":
		s.security = noTLS
	}
	s.port = cmp.Or(s.port, "587")
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// deliver sends one message. It returns a refusal if the server refuses it.
func (s *server) deliver(ctx context.Context, l *message) error {
	message, err := s.format(l)
	if err != nil {
		return err
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the mail server: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // the library knows no context
	client, err := s.begin(conn)
	if err == nil {
		err = s.hand(client, l, message)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the mail server timed out: %w", err)
	}
	return err
}

// format returns the message in the form of RFC 5322. The library encodes non-ASCII text; Send has
// checked that neither address nor subject has line breaks.
func (s *server) format(l *message) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.FromMailAddress(s.from)
	if err := m.To(l.to); err != nil {
		return nil, errors.New("the mail library rejected the address") // which is in its own text
	}
	m.Subject(l.subject)
	m.SetMessageIDWithValue(l.id + "@" + s.domain())
	m.SetDateWithValue(l.born.UTC())
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: suppresses automatic replies
	m.SetBodyString(gomail.TypeTextPlain, l.text)
	return m, nil
}

// domain returns the domain of the sender.
func (s *server) domain() string {
	return s.from.Address[strings.LastIndex(s.from.Address, "@")+1:]
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	address := net.JoinHostPort(s.host, s.port)
	if s.security == implicitTLS {
		return (&tls.Dialer{Config: s.tls()}).DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (s *server) tls() *tls.Config { return &tls.Config{ServerName: s.host, RootCAs: s.roots} }

// begin greets the server and authenticates. The library's own client has no deadline for the
// greeting and hides status codes, so only its protocol layer is used.
func (s *server) begin(conn net.Conn) (*smtp.Client, error) {
	client, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return nil, away("greeting", err)
	}
	if err := client.Hello(s.domain()); err != nil { // not the host's name, which is private
		return nil, away("EHLO", err)
	}
	if s.security == startTLS {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return nil, errors.New("the mail server does not offer STARTTLS, which is required")
		}
		if err := client.StartTLS(s.tls()); err != nil {
			return nil, away("STARTTLS", err)
		}
	}
	if s.user == "" {
		return client, nil
	}
	return client, s.logIn(client)
}

// logIn uses PLAIN or LOGIN, which every server offers, within TLS.
func (s *server) logIn(client *smtp.Client) error {
	_, offered := client.Extension("AUTH")
	var auth smtp.Auth
	switch ways := strings.Fields(offered); {
	case slices.Contains(ways, "PLAIN"):
		auth = smtp.PlainAuth("", s.user, s.password, s.host, s.security == noTLS)
	case slices.Contains(ways, "LOGIN"):
		auth = smtp.LoginAuth(s.user, s.password, s.host, s.security == noTLS)
	default:
		return errors.New("the mail server offers neither AUTH PLAIN nor AUTH LOGIN")
	}
	if err := client.Auth(auth); err != nil {
		return away("AUTH", err)
	}
	return nil
}

// hand sends the message. Errors before RCPT do not refuse it.
func (s *server) hand(client *smtp.Client, l *message, message *gomail.Msg) error {
	if err := client.Mail(path(s.from.Address)); err != nil {
		return away("MAIL", err)
	}
	if err := client.Rcpt(path(l.to)); err != nil {
		return refusedOrAway("RCPT", err)
	}
	data, err := client.Data()
	if err != nil {
		return refusedOrAway("DATA", err)
	}
	if _, err := message.WriteTo(data); err != nil { // without its end, no server accepts it
		return away("DATA", err)
	}
	if err := data.Close(); err != nil {
		return refusedOrAway("DATA", err)
	}
	_ = client.Quit() // the server has the message
	return nil
}

// path returns the address in the form of SMTP commands.
func path(address string) string { return (&netmail.Address{Address: address}).String() }

// refusal is a refused message, without the server's text, which may contain the address.
type refusal struct {
	command string
	code    int
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the mail server responded to %s with %d", r.command, r.code)
}

// temporary reports whether the server may accept the message later.
func (r *refusal) temporary() bool { return r.code < 500 }

func refusedOrAway(command string, err error) error {
	answer, ok := errors.AsType[*textproto.Error](err)
	if ok && answer.Code >= 400 && answer.Code != 421 { // 421 closes the connection after any command
		return &refusal{command: command, code: answer.Code}
	}
	return away(command, err)
}

// away describes an error without the server's text.
func away(command string, err error) error {
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("the mail server responded to %s with %d", command, answer.Code)
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return fmt.Errorf("%s: %w", command, err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%s: %w", command, err)
	}
	return fmt.Errorf("the connection to the mail server failed during %s", command)
}

package mail

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// postOffice is a little mail server.
type postOffice struct {
	listener net.Listener
	// tls is nil without STARTTLS; implicit begins every connection with TLS.
	tls      *tls.Config
	implicit bool
	// ways are the kinds of AUTH offered.
	ways string
	// answer replaces the response to a command or its first line. Empty means the usual response,
	// and "hang up" closes the connection. A connection begins with the command "CONNECT", and a
	// message ends with ".".
	answer func(command string) string

	mu       sync.Mutex
	commands []string
	messages []string
	users    []string
}

// newPostOffice opens a post office on the address, or on any.
func newPostOffice(t *testing.T, address string, change func(p *postOffice)) *postOffice {
	t.Helper()
	l := must.Value(net.Listen("tcp", address))(t)
	p := &postOffice{listener: l, answer: func(string) string { return "" }}
	if change != nil {
		change(p)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(t, conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return p
}

func (p *postOffice) address() string { return p.listener.Addr().String() }

// serve speaks SMTP (RFC 5321) to one client.
func (p *postOffice) serve(t *testing.T, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(t.Context(), func() { conn.Close() })()
	if p.implicit {
		conn = tls.Server(conn, p.tls)
	}
	lines := textproto.NewConn(conn)
	if !p.reply(lines, "CONNECT", "220 ready") {
		return
	}
	for {
		command, err := lines.ReadLine()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.commands = append(p.commands, command)
		p.mu.Unlock()
		switch verb, _, _ := strings.Cut(command, " "); verb {
		case "STARTTLS":
			if p.reply(lines, command, "220 go on") {
				conn = tls.Server(conn, p.tls)
				lines = textproto.NewConn(conn)
			}
		case "AUTH":
			p.authenticate(lines, command)
		case "DATA":
			if p.reply(lines, command, "354 go on") {
				text, err := io.ReadAll(lines.DotReader())
				if err == nil && p.reply(lines, ".", "250 taken") {
					p.mu.Lock()
					p.messages = append(p.messages, string(text))
					p.mu.Unlock()
				}
			}
		case "EHLO":
			p.reply(lines, command, p.extensions(conn))
		case "QUIT":
			p.reply(lines, command, "221 bye")
			return
		default:
			p.reply(lines, command, "250 ok")
		}
	}
}

// reply reports whether the usual answer was given. It closes the connection by writing what ends
// it.
func (p *postOffice) reply(lines *textproto.Conn, command, usual string) bool {
	other := p.answer(command)
	switch other {
	case "":
		return lines.PrintfLine("%s", usual) == nil
	case "hang up":
		lines.Close()
	default:
		_ = lines.PrintfLine("%s", other)
	}
	return false
}

func (p *postOffice) extensions(conn net.Conn) string {
	answer := "250-post office\r\n"
	if _, secured := conn.(*tls.Conn); p.tls != nil && !secured {
		answer += "250-STARTTLS\r\n"
	}
	if p.ways != "" {
		answer += "250-AUTH " + p.ways + "\r\n"
	}
	return answer + "250 8BITMIME"
}

// authenticate accepts any credentials by an offered method, and records them.
func (p *postOffice) authenticate(lines *textproto.Conn, command string) {
	if !slices.Contains(strings.Fields(p.ways), strings.Fields(command)[1]) {
		_ = lines.PrintfLine("504 not in this way")
		return
	}
	var who string
	if plain, ok := strings.CutPrefix(command, "AUTH PLAIN "); ok {
		who = strings.ReplaceAll(plainText(plain), "\x00", ":")
	} else {
		for _, question := range []string{"Username:", "Password:"} {
			_ = lines.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte(question)))
			line, _ := lines.ReadLine()
			who += ":" + plainText(line)
		}
	}
	if p.reply(lines, "AUTH", "235 welcome") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.users = append(p.users, who)
	}
}

func plainText(encoded string) string {
	text, _ := base64.StdEncoding.DecodeString(encoded)
	return string(text)
}

func (p *postOffice) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

func (p *postOffice) received(verb string) (commands []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, command := range p.commands {
		if strings.HasPrefix(command, verb) {
			commands = append(commands, command)
		}
	}
	return commands
}

// certified makes a certificate for 127.0.0.1, and the authority that vouches for it.
func certified(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Value(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	certificate := must.Value(x509.ParseCertificate(der))(t)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, roots
}

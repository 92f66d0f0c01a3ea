package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// mailbox is a mail server that stores all messages.
type mailbox struct {
	address  string
	mu       sync.Mutex
	received []string // with the recipient before each
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	listener := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	m := &mailbox{address: listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go m.serve(conn)
			}
		}
	}()
	return m
}

// serve receives the messages of a connection (RFC 5321).
func (m *mailbox) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	fmt.Fprint(conn, "220 ready\r\n")
	var message strings.Builder
	for inData := false; lines.Scan(); {
		line := lines.Text()
		switch {
		case inData && line == ".":
			m.mu.Lock()
			m.received = append(m.received, message.String())
			m.mu.Unlock()
			message.Reset()
			inData = false
			fmt.Fprint(conn, "250 accepted\r\n")
		case inData:
			message.WriteString(line + "\n")
		case strings.HasPrefix(line, "EHLO"):
			fmt.Fprint(conn, "250-mail\r\n250 8BITMIME\r\n")
		case line == "DATA":
			inData = true
			fmt.Fprint(conn, "354 go on\r\n")
		case line == "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			if recipient, ok := strings.CutPrefix(line, "RCPT TO:"); ok {
				message.WriteString(recipient + "\n")
			}
			fmt.Fprint(conn, "250 fine\r\n")
		}
	}
}

func (m *mailbox) count() int { return m.to("") }

// to returns the number of messages to recipients with the prefix.
func (m *mailbox) to(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.received {
		if strings.HasPrefix(message, "<"+prefix) {
			n++
		}
	}
	return n
}

// has reports whether there is a message with the text for the recipient.
func (m *mailbox) has(recipient, text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.received, func(message string) bool {
		return strings.HasPrefix(message, "<"+recipient+">") && strings.Contains(message, text)
	})
}

var tokenInMail = regexp.MustCompile(`\b[A-Za-z0-9_-]{32,}\b`)

// token returns the token in the first message for the recipient.
func (m *mailbox) token(t *testing.T, recipient string) (token string) {
	t.Helper()
	polltest.Until(t, "the mail with the token arrives", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, message := range m.received {
			_, text, _ := strings.Cut(message, "\n\n")
			if token == "" && strings.HasPrefix(message, "<"+recipient+">") {
				token = tokenInMail.FindString(strings.ReplaceAll(text, "=\n", ""))
			}
		}
		return token != ""
	})
	return token
}

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// statement is one that came by, with the scope that its connection was in.
type statement struct{ scope, text string }

// recorder stands between Linkforge and PostgreSQL, hands everything on, and keeps the statements
// that it is asked to keep.
type recorder struct {
	listener net.Listener
	server   string // where PostgreSQL listens
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	kept  []statement
	wrong error // the first thing that was not understood
}

// startRecorder listens for whom it is to hand on to the server.
func startRecorder(server string) (*recorder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &recorder{listener: listener, server: server}
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			r.running.Go(func() { r.serve(client) })
		}
	})
	return r, nil
}

// serve hands on what is said on one connection, until either side ends it.
func (r *recorder) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return // the client sees that its connection has ended
	}
	defer server.Close()
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	r.running.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, server) // the client sees the end of it
	})
	err = r.read(client, server)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		r.wrong = err
	}
}

// close ends all connections, and waits for them.
func (r *recorder) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.Close() // it may be closed already
	}
	r.mu.Unlock()
	r.running.Wait()
	return err
}

// taken are the statements since the last call.
func (r *recorder) taken() ([]statement, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.kept
	r.kept = nil
	return kept, r.wrong
}

// longestMessage bounds what is believed to be a message.
const longestMessage = 16 << 20

// read reads what a client says
// (https://www.postgresql.org/docs/current/protocol-message-formats.html), and hands it on once it
// is kept: whoever has its answer finds it among the statements. The first message has no type.
func (r *recorder) read(client io.Reader, server io.Writer) error {
	c := conversation{parsed: map[string]string{}}
	for first := true; ; first = false {
		whole, err := readMessage(client, first)
		if err != nil {
			return err
		}
		if !first {
			if err := r.understand(&c, whole[0], whole[5:]); err != nil {
				return err
			}
		}
		if _, err := server.Write(whole); err != nil {
			return err
		}
	}
}

// conversation is what was said over one connection: its scope, and its statements by their names,
// under which they may be asked again.
type conversation struct {
	scope  string
	parsed map[string]string
}

// understand keeps what a message asks for, if it asks for something.
func (r *recorder) understand(c *conversation, kind byte, message []byte) error {
	switch kind {
	case 'Q':
		var q pgproto3.Query
		if err := q.Decode(message); err != nil {
			return err
		}
		r.keep(c, q.String)
	case 'P':
		var p pgproto3.Parse
		if err := p.Decode(message); err != nil {
			return err
		}
		c.parsed[p.Name] = p.Query
	case 'B':
		var b pgproto3.Bind
		if err := b.Decode(message); err != nil {
			return err
		}
		text, err := inlined(c.parsed[b.PreparedStatement], b)
		if err != nil {
			return err
		}
		r.keep(c, text)
	}
	return nil
}

// readMessage is a message as it was sent: its type, but of the first, its length, and the rest.
func readMessage(from io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	if length < 4 || length > longestMessage {
		return nil, fmt.Errorf("a message of %d bytes to PostgreSQL", length)
	}
	whole := append(head, make([]byte, length-4)...)
	_, err := io.ReadFull(from, whole[len(head):])
	return whole, err
}

// scopeStatement begins what tells a connection's scope (internal/db/scope.go).
const scopeStatement = "SELECT set_config('role', "

func (r *recorder) keep(c *conversation, text string) {
	text = strings.TrimRight(strings.TrimSpace(text), ";")
	switch {
	case strings.HasPrefix(text, scopeStatement):
		c.scope = text
	case text != "" && !strings.HasPrefix(text, "--"): // pgx pings with a comment
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept = append(r.kept, statement{scope: c.scope, text: text})
	}
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// inlined is a statement with its parameters written into it.
func inlined(text string, b pgproto3.Bind) (string, error) {
	for _, format := range b.ParameterFormatCodes {
		if format != 0 {
			return "", errors.New("a parameter to PostgreSQL is not written as text")
		}
	}
	return parameter.ReplaceAllStringFunc(text, func(name string) string {
		n, _ := strconv.Atoi(name[1:]) // digits
		if n < 1 || n > len(b.Parameters) {
			return name
		}
		if b.Parameters[n-1] == nil {
			return "NULL"
		}
		return "'" + string(bytes.ReplaceAll(b.Parameters[n-1], []byte("'"), []byte("''"))) + "'"
	}), nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// usual is the sequence of statements that came most often, numbers aside: what others have said
// meanwhile, jobs and the feeds of changes, is in a few of them only. Of sequences that differ by
// numbers only it is the last.
func usual(sequences [][]statement) []statement {
	count, last := map[string]int{}, map[string][]statement{}
	most := ""
	for _, s := range sequences {
		var shape strings.Builder
		for _, one := range s {
			shape.WriteString(digits.ReplaceAllString(one.scope+"\n"+one.text, "0") + "\n")
		}
		key := shape.String()
		count[key]++
		last[key] = s
		if count[key] > count[most] {
			most = key
		}
	}
	return last[most]
}

// script is what pgbench runs: the statements, and before them, as Linkforge does, those that tell
// a connection which scope it is in, where that changes. A scope that all of them share is told
// once a connection.
func script(statements []statement) string {
	var out strings.Builder
	for i, s := range statements {
		before := statements[(i+len(statements)-1)%len(statements)].scope
		switch {
		case s.scope != before:
			out.WriteString(s.scope + ";\n")
		case i == 0 && s.scope != "":
			out.WriteString("\\if :fresh\n" + s.scope + ";\n\\set fresh 0\n\\endif\n")
		}
		out.WriteString(s.text + ";\n")
	}
	return out.String()
}

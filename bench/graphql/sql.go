package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// measureSQL runs a script with pgbench for a burst, over as many connections. It counts
// the transactions in pgbench's log that end within the burst, without the time to connect.
func (b *bench) measureSQL(script string) rig.Figures {
	folder := rig.Must(os.MkdirTemp(b.Folder, "pgbench."))
	defer os.RemoveAll(folder)
	rig.Check(os.WriteFile(folder+"/script.sql", []byte(script), 0o600))
	const slack = 2 * time.Second // for what pgbench does before and after the burst
	cmd := exec.CommandContext(b, rig.Program("pgbench"), "--no-vacuum", "--protocol=extended", "--define=fresh=1",
		"--file="+folder+"/script.sql", "--client="+strconv.Itoa(*connections),
		"--jobs="+strconv.Itoa(min(2, *connections)),
		fmt.Sprintf("--time=%.0f", math.Ceil((warmUpTime+*burst+slack).Seconds())), "--log",
		"--log-prefix="+folder+"/log")
	var output bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), rig.LibpqEnv(b.DatabaseURL)...), &output, &output
	rig.Check(cmd.Start())
	b.Await("pgbench has all connections", func() bool { return len(readLogs(folder, time.Time{}, time.Now())) > 0 })
	b.Pause(warmUpTime)
	t := rig.Target{Own: []int{cmd.Process.Pid}, Beside: b.ServicePIDs}
	from, before := time.Now(), rig.Used(t)
	b.Pause(*burst)
	used := rig.Used(t).Since(before)
	if err := cmd.Wait(); err != nil {
		rig.Failf("pgbench: %w\n%s", err, output.String())
	}
	times := readLogs(folder, from, from.Add(used.At))
	return rig.FiguresOf(rig.Outcome{Right: int64(len(times)), Took: used.At, P50: rig.Percentile(times, 0.5),
		P99: rig.Percentile(times, 0.99)}, used)
}

// readLogs returns the latencies of transactions that ended within a time. Lines have the client,
// the transaction, microseconds, the script, and the second and microsecond of the end
// (https://www.postgresql.org/docs/current/pgbench.html).
func readLogs(folder string, from, to time.Time) (times []time.Duration) {
	for _, log := range rig.Must(filepath.Glob(folder + "/log.*")) {
		for line := range strings.Lines(string(rig.Must(os.ReadFile(log)))) {
			var client, transaction, micros, script, second, micro int64
			if !strings.HasSuffix(line, "\n") {
				break // pgbench is writing it
			}
			rig.Must(fmt.Sscan(line, &client, &transaction, &micros, &script, &second, &micro))
			if end := time.Unix(second, micro*1000); !end.Before(from) && end.Before(to) {
				times = append(times, time.Duration(micros)*time.Microsecond)
			}
		}
	}
	return times
}

// statement is one that was recorded, with the scope of its connection.
type statement struct{ scope, text string }

// recorder is a proxy between a Linkforge and PostgreSQL that records statements.
type recorder struct {
	server string // where PostgreSQL listens
	mu     sync.Mutex
	taken  []statement
	err    error
}

// record records the SQL of each query: another Linkforge connects to PostgreSQL through a
// recorder.
func (b *bench) record() {
	u := rig.Must(url.Parse(b.DatabaseURL))
	listener := rig.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	r := &recorder{server: u.Host}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(client)
		}
	}()
	u.Host, u.RawQuery = listener.Addr().String(), "sslmode=disable"
	// Tokens are valid at the public URL of the server that issued them.
	p := b.Serve("recorded", b.Server, "LINKFORGE_DATABASE_URL="+u.String(), "LINKFORGE_REDIS_URL="+b.RedisURL,
		"LINKFORGE_PUBLIC_URL=http://"+b.ours.address)
	defer p.Stop()
	for _, o := range b.operations {
		if o.creates {
			continue
		}
		var sequences [][]statement
		const repetitions = 40 // distinguishes statements of the request from those of jobs
		for range repetitions {
			r.take()
			rig.Must(b.tenant.At(p.Address).Post(o.bodies()[0]))
			sequences = append(sequences, r.take())
			b.Pause(5 * time.Millisecond) // statements after the response do not belong to the next request
		}
		statements := usual(sequences)
		if len(statements) == 0 {
			rig.Failf("%s sent no statement to PostgreSQL: %w", o.name, r.err)
		}
		o.sql = script(statements)
		b.Say("%s is %d statements", o.name, len(statements))
	}
}

// take returns the statements since the last call.
func (r *recorder) take() []statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	rig.Check(r.err)
	taken := r.taken
	r.taken = nil
	return taken
}

// serve passes a connection on until either side closes it.
func (r *recorder) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server) // the client sees the end
	}()
	err = r.read(client, server)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
		r.err = errors.Join(r.err, err)
	}
}

// read records the messages of a client, and passes them on
// (https://www.postgresql.org/docs/current/protocol-message-formats.html). The first has no type.
func (r *recorder) read(client io.Reader, server io.Writer) error {
	scope, prepared := "", map[string]string{}
	for head := make([]byte, 4); ; head = make([]byte, 5) {
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		text, err := "", error(nil)
		if len(head) == 5 {
			text, err = statementOf(head[0], body, prepared)
		}
		text = strings.TrimRight(strings.TrimSpace(text), ";")
		switch {
		case strings.HasPrefix(text, "SELECT set_config('role', "): // sets the scope (package pgscope)
			scope = text
		case text != "" && !strings.HasPrefix(text, "--"): // pgx pings with a comment
			r.mu.Lock()
			r.taken = append(r.taken, statement{scope, text})
			r.mu.Unlock()
		}
		if _, failed := server.Write(append(head, body...)); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// statementOf returns the statement that a message runs, with its parameters written into it.
func statementOf(kind byte, body []byte, prepared map[string]string) (string, error) {
	switch kind {
	case 'Q':
		var q pgproto3.Query
		err := q.Decode(body)
		return q.String, err
	case 'P':
		var p pgproto3.Parse
		err := p.Decode(body)
		prepared[p.Name] = p.Query
		return "", err
	case 'B':
		var b pgproto3.Bind
		if err := b.Decode(body); err != nil {
			return "", err
		}
		for _, format := range b.ParameterFormatCodes {
			if format != pgproto3.TextFormat {
				return "", errors.New("a parameter to PostgreSQL is not in text format")
			}
		}
		return parameter.ReplaceAllStringFunc(prepared[b.PreparedStatement], func(name string) string {
			n, _ := strconv.Atoi(name[1:]) // digits
			switch {
			case n < 1 || n > len(b.Parameters):
				return name
			case b.Parameters[n-1] == nil:
				return "NULL"
			}
			return "'" + strings.ReplaceAll(string(b.Parameters[n-1]), "'", "''") + "'"
		}), nil
	}
	return "", nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// usual returns the most frequent sequence of statements, regardless of numbers: statements of jobs
// and feeds are in few of them. Of sequences that differ in numbers it is the last.
func usual(sequences [][]statement) []statement {
	count, last := map[string]int{}, map[string][]statement{}
	most := ""
	for _, s := range sequences {
		key := digits.ReplaceAllString(fmt.Sprint(s), "0")
		count[key]++
		last[key] = s
		if count[key] > count[most] {
			most = key
		}
	}
	return last[most]
}

// script returns the script for pgbench: the statements, and a statement that sets the scope
// where it changes, as in Linkforge. A scope that all statements share is set once per connection.
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

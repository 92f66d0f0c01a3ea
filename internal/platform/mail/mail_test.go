package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// The texts of the tests' messages, which must not be logged.
const (
	ada    = "ada@example.com"
	secret = "mailed_SECRET"
)

// journal is a log that must not contain addresses or texts.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	j := &journal{}
	t.Cleanup(func() {
		for _, private := range []string{"example.com", "ada", "SECRET", "hunter2", "postman"} {
			if strings.Contains(j.String(), private) {
				t.Errorf("the log says %q:\n%s", private, j)
			}
		}
	})
	return j
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) says(t *testing.T, line string, want int) {
	t.Helper()
	if got := strings.Count(j.String(), line); got != want {
		t.Errorf("the log says %q %d times, want %d:\n%s", line, got, want, j)
	}
}

// office is a Mailer whose deliveries are the test's. It lives in a synctest bubble, where only
// waiting takes time.
type office struct {
	*Mailer
	stop  context.CancelFunc
	ended chan struct{}
	err   error // Run's
}

// open runs a Mailer.
func open(t *testing.T, j *journal, deliver func(ctx context.Context, l *message) error) *office {
	t.Helper()
	o := prepare(t, j, deliver)
	o.run(t)
	return o
}

func prepare(t *testing.T, j *journal, deliver func(ctx context.Context, l *message) error) *office {
	t.Helper()
	m := must.Value(New(Config{Log: j.logger()}))(t)
	m.deliver = deliver
	return &office{Mailer: m, ended: make(chan struct{})}
}

func (o *office) run(t *testing.T) {
	var ctx context.Context
	ctx, o.stop = context.WithCancel(t.Context())
	go func() {
		o.err = o.Run(ctx)
		close(o.ended)
	}()
	t.Cleanup(func() { _ = o.close() })
}

// close shuts down, and returns Run's error.
func (o *office) close() error {
	o.stop()
	<-o.ended
	return o.err
}

func (o *office) send(t *testing.T, subject string) {
	t.Helper()
	o.Send(t.Context(), ada, subject, secret)
}

func (o *office) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// inBubble runs a test in parallel with others, in a synctest bubble with a log.
func inBubble(t *testing.T, test func(t *testing.T, j *journal)) {
	t.Helper()
	t.Parallel()
	j := newJournal(t)
	synctest.Test(t, func(t *testing.T) { test(t, j) })
}

// stopwatch counts seconds.
func stopwatch() func() int {
	began := time.Now()
	return func() int { return int(time.Since(began).Seconds()) }
}

// pass advances the time, and waits until all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestQueue_RetriesADeferredMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		after := stopwatch()
		var tried []int
		o := open(t, j, func(_ context.Context, l *message) error {
			if l.subject == "other" {
				return nil
			}
			tried = append(tried, after())
			if len(tried) < 12 {
				return &refusal{command: "RCPT", code: 451}
			}
			return nil
		})
		o.send(t, "put off")
		pass(10 * time.Second)
		o.send(t, "other")
		synctest.Wait()
		if o.left() != 1 {
			t.Error("one message that is put off keeps another one")
		}
		pass(time.Hour)
		if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111}, tried); diff != "" ||
			o.left() != 0 {
			t.Errorf("%d messages left, tried after seconds (-want +got):\n%s", o.left(), diff)
		}
		j.says(t, "mail deferred", 1)
		must.NoError(t, o.close())
	})
}

func TestQueue_GivesUpAfterLastAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		after := stopwatch()
		last := 0
		o := open(t, j, func(context.Context, *message) error {
			last = after()
			return &refusal{command: "RCPT", code: 451}
		})
		o.send(t, "a message")
		pass(24 * time.Hour)
		if hours := last / 3600; hours != 12 || o.left() != 0 {
			t.Errorf("last tried after %d hours, %d messages left", hours, o.left())
		}
		j.says(t, "mail delivery expired", 1)
	})
}

func TestQueue_DoesNotRetryARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		tried := 0
		o := open(t, j, func(context.Context, *message) error {
			tried++
			return fmt.Errorf("handing it over: %w", &refusal{command: "RCPT", code: 550})
		})
		o.send(t, "a message")
		pass(24 * time.Hour)
		if tried != 1 || o.left() != 0 {
			t.Errorf("tried %d times, %d messages left", tried, o.left())
		}
		j.says(t, "mail rejected by SMTP server", 1)
		j.says(t, "RCPT with 550", 1)
	})
}

func TestQueue_OutlastsAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		after := stopwatch()
		var tried atomic.Int32
		sent := map[string]int{}
		o := open(t, j, func(_ context.Context, l *message) error {
			if tried.Add(1); after() < 3600 {
				return errors.New("connection refused")
			}
			sent[l.subject]++
			return nil
		})
		for i := range 100 {
			o.send(t, fmt.Sprintf("message %d", i))
		}
		pass(3599 * time.Second)
		if tried.Load() > 30 {
			t.Errorf("the server that is away was tried %d times in an hour", tried.Load())
		}
		pass(maxBackoff)
		if len(sent) != 100 || o.left() != 0 {
			t.Errorf("%d messages arrived, %d left", len(sent), o.left())
		}
		for subject, times := range sent {
			if times != 1 {
				t.Errorf("%s arrived %d times", subject, times)
			}
		}
		j.says(t, "SMTP server unavailable", 1)
		j.says(t, "mail delivery resumed", 1)
	})
}

// TestQueue_SurvivesABrokenConnection sends a message that makes the server close the connection.
// Other messages must not wait for it.
func TestQueue_SurvivesABrokenConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		sent := 0
		o := open(t, j, func(_ context.Context, l *message) error {
			if l.subject == "broken" {
				return errors.New("broken off")
			}
			sent++
			return nil
		})
		o.send(t, "broken")
		for range 10 {
			o.send(t, "whole")
		}
		pass(time.Minute)
		if sent != 10 || o.left() != 1 {
			t.Errorf("%d of 10 arrived, %d left", sent, o.left())
		}
	})
}

func TestShutdown_SendsQueuedMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		after := stopwatch()
		var stopping atomic.Bool
		sent := 0
		o := open(t, j, func(ctx context.Context, l *message) error {
			if !stopping.Load() {
				return &refusal{command: "RCPT", code: 451}
			}
			if sent == 2 && after() < 103 {
				return errors.New("connection refused")
			}
			sent++
			return ctx.Err()
		})
		for range 5 {
			o.send(t, "a message")
		}
		pass(100 * time.Second)
		stopping.Store(true)
		if err := o.close(); err != nil || sent != 5 || after() > 104 {
			t.Errorf("%d of 5 arrived after %d seconds: %v", sent, after(), err)
		}
		o.send(t, "too late")
		if o.left() != 0 {
			t.Error("a message was queued after the shutdown")
		}
		j.says(t, "the server is shutting down", 1)
	})
}

// TestShutdown_AfterAnOutage tries the server again, even during a pause.
func TestShutdown_AfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		var back atomic.Bool
		o := open(t, j, func(context.Context, *message) error {
			if !back.Load() {
				return errors.New("connection refused")
			}
			return nil
		})
		for range 5 {
			o.send(t, "a message")
		}
		pass(time.Hour)
		back.Store(true)
		if err := o.close(); err != nil || o.left() != 0 {
			t.Errorf("%d messages left: %v", o.left(), err)
		}
	})
}

func TestShutdown_TakesAtMostTenSeconds(t *testing.T) {
	t.Parallel()
	for name, deliver := range map[string]func(ctx context.Context, l *message) error{
		"the server hangs":       func(ctx context.Context, _ *message) error { <-ctx.Done(); return ctx.Err() },
		"the server is away":     func(context.Context, *message) error { return errors.New("connection refused") },
		"messages are put off":   func(context.Context, *message) error { return &refusal{command: "DATA", code: 452} },
		"messages take too long": func(context.Context, *message) error { time.Sleep(4 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, j *journal) {
				after := stopwatch()
				o := open(t, j, deliver)
				for range 5 {
					o.send(t, "a message")
				}
				synctest.Wait()
				err := o.close()
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d messages were lost", o.left())) ||
					o.left() == 0 {
					t.Errorf("%d messages left: %v", o.left(), err)
				}
				if after() < 9 || after() > 12 {
					t.Errorf("it took %d seconds", after())
				}
				if name == "the server hangs" { // that it was cut off is our doing
					j.says(t, "SMTP server unavailable", 0)
				}
			})
		})
	}
}

func TestShutdown_CompletesAnAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		tried := 0
		o := open(t, j, func(ctx context.Context, _ *message) error {
			tried++
			time.Sleep(5 * time.Second)
			return ctx.Err()
		})
		o.send(t, "a message")
		synctest.Wait()
		if err := o.close(); err != nil || tried != 1 {
			t.Errorf("tried %d times: %v", tried, err)
		}
	})
}

func TestQueue_AttemptHasADeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		tried := 0
		o := open(t, j, func(ctx context.Context, _ *message) error {
			if tried++; tried == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		o.send(t, "a message")
		pass(attemptDeadline + minBackoff)
		if tried != 2 || o.left() != 0 {
			t.Errorf("tried %d times, %d messages left", tried, o.left())
		}
		j.says(t, "SMTP server unavailable", 1)
	})
}

func TestQueue_IsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		var sent atomic.Int32
		o := prepare(t, j, func(context.Context, *message) error {
			sent.Add(1)
			time.Sleep(time.Second)
			return nil
		})
		for range maxWaiting + 100 { // without a running mailer: Send does not block
			o.send(t, "a message")
		}
		if o.left() != maxWaiting {
			t.Errorf("%d messages wait", o.left())
		}
		j.says(t, "the queue for the mail server is full", 1)
		o.run(t)
		pass(maxWaiting * time.Second)
		o.send(t, "another")
		pass(time.Second)
		if sent.Load() != maxWaiting+1 {
			t.Errorf("%d messages arrived", sent.Load())
		}
		for range maxWaiting + 100 { // faster than they are sent
			o.send(t, "a message")
		}
		j.says(t, "the queue for the mail server is full", 2)
	})
}

func TestQueue_DropsInvalidMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ to, subject string }{
		"line break in the address":     {"ada@example.com\r\nBcc: eve@example.com", "Hello"},
		"two addresses":                 {"ada@example.com, eve@example.com", "Hello"},
		"a name":                        {"Ada <ada@example.com>", "Hello"},
		"no address":                    {"", "Hello"},
		"line break in the subject":     {ada, "Hello\r\nBcc: eve@example.com"},
		"another control character":     {ada, "Hello\x00ada"},
		"a line break that is encoded":  {"=?utf-8?q?ada=0D=0A?= <ada@example.com>", "Hello"},
		"a line break that is quoted":   {"\"ada\r\n\"@example.com", "Hello"},
		"next line, which some believe": {ada, "Hello\u0085Bcc: eve@example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			o := prepare(t, j, nil)
			o.Send(t.Context(), c.to, c.subject, secret)
			if o.left() != 0 {
				t.Errorf("taken: %+v", o.waiting[0])
			}
			j.says(t, "mail not sent", 1)
		})
	}
}

func TestQueue_WithoutAServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		print *bytes.Buffer
		want  string
	}{
		"in production": {nil, ""},
		"in development": {&bytes.Buffer{},
			"To: ada@example.com\nSubject: Your token\n\nHere it is: mailed_SECRET\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			config := Config{Log: j.logger()}
			if c.print != nil {
				config.Print = c.print
			}
			m, err := New(config)
			if err != nil || m.Configured() {
				t.Fatalf("configured %t: %v", m.Configured(), err)
			}
			m.Send(t.Context(), ada, "Your token", "Here it is: "+secret+"\n")
			ctx, stop := context.WithCancel(t.Context())
			stop()
			must.NoError(t, m.Run(ctx))
			j.says(t, `level=WARN msg="mail not sent: no mail server is configured" subject="Your token"`, 1)
			if c.print != nil {
				wanttest.Equal(t, c.want, c.print.String(), "printed")
			}
		})
	}
}

// TestToOthers_DelaysNoOthers: a flood of messages to others neither drops nor delays one that a
// user has requested.
func TestToOthers_DelaysNoOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, j *journal) {
		var mu sync.Mutex
		var subjects []string
		o := prepare(t, j, func(_ context.Context, l *message) error {
			mu.Lock()
			subjects = append(subjects, l.subject)
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		})
		for range maxWaiting + 10 {
			ToOthers{o.Mailer}.Send(t.Context(), "stranger@example.com", "an invitation", "")
		}
		j.says(t, "the queue for the mail server is full", 1)
		for range maxWaiting {
			o.Send(t.Context(), "user@example.com", "a reset", "")
		}
		o.run(t)
		pass((maxWaiting - 1) * time.Second)
		mu.Lock()
		if n := slices.Index(subjects, "an invitation"); n >= 0 {
			t.Errorf("an invitation was sent as message %d, before resets", n)
		}
		mu.Unlock()
		pass((maxWaiting + 2) * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(subjects) != 2*maxWaiting {
			t.Errorf("%d messages were sent, want %d", len(subjects), 2*maxWaiting)
		}
	})
}

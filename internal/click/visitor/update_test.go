package visitor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// december is the time of updates in these tests.
var december = time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)

// wholeWorld is a file that an update accepts, with more networks than the well-known ones.
func wholeWorld(t testing.TB, more ...string) []byte {
	t.Helper()
	networks := maps.Clone(visitortest.WellKnown)
	for _, network := range more {
		networks[network] = "NP"
	}
	return must.Value(visitortest.Encode("DBIP-Country-Lite", networks))(t)
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Value(w.Write(content))(t)
	must.NoError(t, w.Close())
	return b.Bytes()
}

// archived returns a tar archive of files, each name followed by the content.
func archived(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		must.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}))
		must.Value(w.Write([]byte(files[i+1])))(t)
	}
	must.NoError(t, w.Close())
	return b.Bytes()
}

// newUpdater returns an updater from a TLS server with the handler, whose file exists.
func newUpdater(t testing.TB, old []byte, h http.HandlerFunc) Updater {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	u := Updater{
		URL:  "https://123:secret@" + server.Listener.Addr().String() + "/countries-{month}.mmdb.gz?key=secret",
		Path: filepath.Join(t.TempDir(), "countries.mmdb"), Transport: server.Client().Transport,
		Now: func() time.Time { return december },
	}
	must.NoError(t, os.WriteFile(u.Path, old, 0o600))
	return u
}

func answer(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
}

func TestUpdate_ReplacesTheFile(t *testing.T) {
	t.Parallel()
	world := wholeWorld(t)
	for name, content := range map[string][]byte{
		"plain":          world,
		"gzip":           gzipped(t, world),
		"tar and gzip":   gzipped(t, archived(t, "a_1/LICENSE.txt", "CC", "a_1/a.mmdb", string(world))),
		"tar":            archived(t, "a.mmdb", string(world)),
		"one is unknown": must.Value(visitortest.Encode("DBIP", without(visitortest.WellKnown, "JP", "ZA")))(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdater(t, []byte("old"), func(w http.ResponseWriter, r *http.Request) {
				if user, password, _ := r.BasicAuth(); user != "123" || password != "secret" ||
					r.URL.String() != "/countries-2026-12.mmdb.gz?key=secret" {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = w.Write(content)
			})
			e := must.Value(u.Update(t.Context()))(t)
			if !e.IsDBIP() || e.BuiltAt.Year() != 2024 {
				t.Errorf("the edition is %v", e)
			}
			c, _ := openCountries(t, u.Path)
			wantCountry(t, c, "129.132.98.12", "CH")
			if mode := must.Value(os.Stat(u.Path))(t).Mode(); mode != 0o644 {
				t.Errorf("the mode is %s: the server may be another user", mode)
			}
		})
	}
}

// without returns the networks that are in other countries.
func without(networks map[string]string, countries ...string) map[string]string {
	rest := maps.Clone(networks)
	maps.DeleteFunc(rest, func(_, code string) bool { return strings.Contains(strings.Join(countries, " "), code) })
	return rest
}

// TestUpdate_TakesThePreviousMonth: on the last day of a month, whose number the previous one may not have.
func TestUpdate_TakesThePreviousMonth(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 3)
	u := newUpdater(t, nil, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if strings.Contains(r.URL.Path, "2026-12") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(wholeWorld(t))
	})
	must.Value(u.Update(t.Context()))(t)
	if first, second := <-asked, <-asked; first != "/countries-2026-12.mmdb.gz" ||
		second != "/countries-2026-11.mmdb.gz" || len(asked) > 0 {
		t.Errorf("requested %s, then %s, and %d more", first, second, len(asked))
	}
}

func TestUpdate_LeavesTheFileAfterAnError(t *testing.T) {
	t.Parallel()
	world := wholeWorld(t)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("requested without encryption")
	}))
	t.Cleanup(plain.Close)
	noise := make([]byte, 100_000)
	_, _ = rand.Read(noise)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		url    string // instead of the server's
		want   string
	}{
		"cut short":         {answer: cutShort(world), want: "the download is incomplete"},
		"cut short, gzip":   {answer: cutShort(gzipped(t, world)), want: "the download is incomplete"},
		"half a file":       {answer: answer(world[:len(world)/2]), want: "are not used: "},
		"half a file, gzip": {answer: answer(gzipped(t, noise)[:50_000]), want: "the download is incomplete"},
		"damaged gzip":      {answer: answer(flipped(gzipped(t, noise), 50_000)), want: "gzip: "},
		"nothing":           {answer: answer(nil), want: "are not used: "},
		"a page":            {answer: answer([]byte("<!doctype html>")), want: "are not used: "},
		"an archive of other text": {answer: answer(archived(t, "a.txt", "text")),
			want: "the archive has no .mmdb file"},
		"another database": {answer: answer(must.Value(visitortest.Encode("ASN",
			map[string]string{"1.0.0.0/8": "AU"}))(t)), want: "it knows the countries of 0 of 10 well-known addresses"},
		"a part of the world": {answer: answer(must.Value(visitortest.Encode("DBIP",
			without(visitortest.WellKnown, "JP", "ZA", "BR")))(t)),
			want: `7 of 10 well-known addresses: 143.107.1.1 is in "BR", not "", 133.11.0.1`},
		"too large": {answer: answer(make([]byte, maxDownload+1)), want: "more than 64 MiB"},
		"too large when it is unpacked": {answer: answer(gzipped(t, make([]byte, maxDownload+1))),
			want: "more than 64 MiB"},
		"too large beside the file": {answer: answer(gzipped(t, archived(t, "a.csv",
			string(make([]byte, maxDownload+1)), "a.mmdb", string(world)))), want: "more than 64 MiB"},
		"no file of two months": {answer: http.NotFound, want: "the server responds 404 Not Found"},
		"a wrong key": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			want: "the server responds 401 Unauthorized"},
		"redirected to http": {answer: http.RedirectHandler(plain.URL, http.StatusFound).ServeHTTP,
			want: "redirects to a URL that is not one of https://"},
		"redirected in circles": {answer: http.RedirectHandler("/circle?key=secret", http.StatusFound).ServeHTTP,
			want: "redirects too often"},
		"http": {url: "http://secret@example.com/", want: "the URL must be one of https://"},
		"no URL": {url: "https://secret\x00/",
			want: "from an invalid URL: the URL must be one of https://"},
		"a server of no name": {url: "https://secret@127.0.0.1:1/", want: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdater(t, world, c.answer)
			if c.url != "" {
				u.URL = c.url
			}
			wantRefused(t, u, world, c.want)
		})
	}
}

// TestUpdate_ChecksTheCertificate with one of another name, and one of an unknown authority.
func TestUpdate_ChecksTheCertificate(t *testing.T) {
	t.Parallel()
	world := wholeWorld(t)
	u := newUpdater(t, world, answer(world))
	u.URL = strings.Replace(u.URL, "127.0.0.1", "localhost", 1)
	wantRefused(t, u, world, "certificate is valid for example.com, *.example.com, not localhost")
	u.URL = strings.Replace(u.URL, "localhost", "127.0.0.1", 1)
	u.Transport = nil
	wantRefused(t, u, world, "certificate signed by unknown authority")
}

// wantRefused expects one line about the reason, without secrets, and the old file alone.
func wantRefused(t *testing.T, u Updater, old []byte, want string) {
	t.Helper()
	_, err := u.Update(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v, want %q", err, want)
	}
	if got := must.Value(os.ReadFile(u.Path))(t); !bytes.Equal(got, old) {
		t.Errorf("the old file has been replaced by %d bytes", len(got))
	}
	if left := must.Value(os.ReadDir(filepath.Dir(u.Path)))(t); len(left) != 1 {
		t.Errorf("the folder has %v", left)
	}
}

// cutShort ends the connection after half of the content.
func cutShort(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func flipped(content []byte, at int) []byte {
	content[at] ^= 0x55
	return content
}

// pipes is a network whose connections wait in the time of synctest.
type pipes struct {
	servers chan net.Conn
	context.Context
	cancel context.CancelFunc
}

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.servers <- server
	return client, nil
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.servers:
		return c, nil
	case <-p.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error { p.cancel(); return nil }

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:443"))
}

// TestUpdate_DemandsProgress from servers that are silent before and after their first byte, or too slow.
func TestUpdate_DemandsProgress(t *testing.T) {
	t.Parallel()
	world := wholeWorld(t)
	for name, c := range map[string]struct {
		first, every time.Duration
		want         string
		after        time.Duration
	}{
		"silent":              {first: time.Hour, want: "has sent nothing for 30s", after: stallTimeout},
		"silent in the midst": {every: 31 * time.Second, want: "has sent nothing for 30s", after: stallTimeout},
		"a byte now and then": {every: 29 * time.Second, want: "takes longer than 10m0s", after: updateTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				network := pipes{make(chan net.Conn), ctx, cancel}
				trickle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					pause(r, c.first)
					for r.Context().Err() == nil {
						_, _ = w.Write(world[:1])
						_ = http.NewResponseController(w).Flush()
						pause(r, c.every)
					}
				})
				server := &httptest.Server{Listener: network, Config: &http.Server{Handler: trickle}}
				server.StartTLS()
				transport := server.Client().Transport.(*http.Transport)
				transport.DialContext = network.dial
				u := Updater{URL: "https://example.com/", Path: filepath.Join(folder, "file"), Now: time.Now,
					Transport: transport}
				must.NoError(t, os.WriteFile(u.Path, world, 0o600))
				began := time.Now()
				wantRefused(t, u, world, c.want)
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("took %s, want %s", took, c.after)
				}
				transport.CloseIdleConnections()
				server.Close()
			})
		})
	}
}

// pause waits, or until the client has gone.
func pause(r *http.Request, d time.Duration) {
	select {
	case <-r.Context().Done():
	case <-time.After(d):
	}
}

// TestUpdate_IsWholeForReaders loads the file again and again while it is replaced.
func TestUpdate_IsWholeForReaders(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	u := newUpdater(t, wholeWorld(t), func(w http.ResponseWriter, _ *http.Request) {
		var more []string
		for i := range requests.Add(1) {
			more = append(more, fmt.Sprintf("%d.0.0.0/8", 10+i))
		}
		_, _ = w.Write(wholeWorld(t, more...))
	})
	c, _ := openCountries(t, u.Path)
	var updates sync.WaitGroup
	stop := make(chan struct{})
	for range 2 { // nodes that share a disk
		updates.Go(func() {
			for range 25 {
				if _, err := u.Update(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { updates.Wait(); close(stop) }()
	for loads := 0; ; loads++ {
		if err := c.load(); err != nil {
			t.Fatalf("load %d: %v", loads, err)
		}
		wantCountry(t, c, "129.132.98.12", "CH")
		select {
		case <-stop:
			return
		default:
		}
	}
}

// TestKeep_UpdatesAnOldFile: a missing file at once, an older one within a day, and a failure again.
func TestKeep_UpdatesAnOldFile(t *testing.T) {
	t.Parallel()
	world, path := wholeWorld(t), filepath.Join(t.TempDir(), "countries.mmdb")
	synctest.Test(t, func(t *testing.T) {
		var requests, status atomic.Int64
		status.Store(http.StatusOK)
		u := Updater{URL: "https://example.com/{month}", Path: path, Now: time.Now,
			Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				requests.Add(1)
				return &http.Response{StatusCode: int(status.Load()), Body: io.NopCloser(bytes.NewReader(world))}, nil
			})}
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() {
			if err := u.Keep(ctx, 30*24*time.Hour, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Error(err)
			}
		})
		// requested expects a number of requests within a time.
		requested := func(d time.Duration, least, most int64) {
			t.Helper()
			requests.Store(0)
			time.Sleep(d)
			synctest.Wait()
			if got := requests.Load(); got < least || got > most {
				t.Errorf("%d requests in %s, want %d to %d", got, d, least, most)
			}
		}
		requested(5*time.Second, 1, 1)
		if got := must.Value(os.ReadFile(path))(t); !bytes.Equal(got, world) {
			t.Errorf("the file has %d bytes, want %d", len(got), len(world))
		}
		must.NoError(t, os.Chtimes(path, time.Time{}, time.Now()))
		requested(30*24*time.Hour-time.Minute, 0, 0)
		status.Store(http.StatusBadGateway)
		requested(4*24*time.Hour, 8, 17)
		if got := strings.Count(log.String(), "updating the countries failed"); got != 1 {
			t.Errorf("logged %d times:\n%s", got, &log)
		}
		status.Store(http.StatusOK)
		requested(maxCheck, 1, 2)
		must.NoError(t, os.Chtimes(path, time.Time{}, time.Now()))
		requested(24*time.Hour, 0, 0)
		cancel()
		keeping.Wait()
	})
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Package web owns what all HTTP responses share: request ids, the access log, recovery from panics,
// allowed origins, addresses of clients behind proxies, traces, and the layout of pages. The routes are
// in the server, GraphQL over HTTP in graph/transport.
package web

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Middleware wraps a handler.
type Middleware func(http.Handler) http.Handler

// Chain wraps h so that the first middleware is the outermost.
func Chain(h http.Handler, all ...Middleware) http.Handler {
	for i := len(all) - 1; i >= 0; i-- {
		h = all[i](h)
	}
	return h
}

// Before calls f with each request before the handler.
func Before(f func(http.ResponseWriter, *http.Request)) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f(w, r)
			next.ServeHTTP(w, r)
		})
	}
}

// NameRequest sets the X-Request-Id of a request and its response. A valid one that a proxy has set
// is retained.
func NameRequest(w http.ResponseWriter, r *http.Request) {
	requestID := r.Header.Get("X-Request-Id")
	if !plain(requestID) {
		requestID = uuid.NewString()
		r.Header.Set("X-Request-Id", requestID)
	}
	w.Header().Set("X-Request-Id", requestID)
}

func plain(s string) bool {
	if len(s) < 8 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// Log writes one line a request: no address, no query, no header but the request's id.
func Log(log *slog.Logger, now func() time.Time) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !log.Enabled(r.Context(), slog.LevelDebug) {
				next.ServeHTTP(w, r)
				return
			}
			start, recorded := now(), &statusWriter{ResponseWriter: w}
			next.ServeHTTP(recorded, r)
			status := cmp.Or(recorded.status, http.StatusOK)
			log.DebugContext(r.Context(), "request", "method", r.Method, "pattern", r.Pattern, "status", status,
				"duration", now().Sub(start), "request_id", r.Header.Get("X-Request-Id"))
		})
	}
}

// Recover has fail respond to a request whose handler panics, and logs the panic with its stack. A
// response that has begun is cut off, so that the client notices that it is incomplete. It does not
// affect http.ErrAbortHandler.
func Recover(log *slog.Logger, fail http.HandlerFunc) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorded := &statusWriter{ResponseWriter: w}
			defer Recovered(log, recorded, r, fail)
			next.ServeHTTP(recorded, r)
		})
	}
}

// Recovered is what Recover defers, for a handler that defers it by itself.
func Recovered(log *slog.Logger, w http.ResponseWriter, r *http.Request, fail http.HandlerFunc) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	log.ErrorContext(r.Context(), "panic", "panic", p, "request_id", r.Header.Get("X-Request-Id"), "stack",
		string(debug.Stack()))
	if recorded, ok := w.(*statusWriter); ok && recorded.status != 0 {
		panic(http.ErrAbortHandler)
	}
	fail(w, r)
}

// statusWriter remembers the status; zero means that the answer has not begun.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(body []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(body)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// IsUTF8 reports whether the path, the query and the form, if it has been parsed, of a request are
// UTF-8. Databases and JSON replace or refuse other bytes, so that different texts become equal.
func IsUTF8(r *http.Request) bool {
	for name, values := range r.PostForm {
		if !utf8.ValidString(name) || !utf8.ValidString(strings.Join(values, " ")) {
			return false
		}
	}
	for part := range strings.FieldsFuncSeq(r.URL.RawQuery, func(c rune) bool { return c == '&' || c == ';' }) {
		if text, err := url.QueryUnescape(part); !utf8.ValidString(part) || err == nil && !utf8.ValidString(text) {
			return false
		}
	}
	return utf8.ValidString(r.URL.Path)
}

// SetRetryAfter says when a repeated request can succeed, in whole seconds. Zero says nothing.
func SetRetryAfter(w http.ResponseWriter, wait time.Duration) {
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
}

// Host returns the host of a request in the form of stored domains: in lower case, without the
// port.
func Host(r *http.Request) string {
	host := r.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 &&
		(host[0] == '[' || strings.IndexByte(host, ':') == i) {
		host = host[:i]
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// client is where a request came from.
type client struct {
	address, agent, origin string
	exact                  netip.Addr
}

type clientKey struct{}

// Client remembers where a request came from: the address as rate limits count it, an IPv4 address
// or an IPv6 network of 64 bits, which is what one subscriber has, and the program's name for
// itself.
func Client(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := client{
			address: network(r.RemoteAddr), agent: strings.ToValidUTF8(r.UserAgent(), ""),
			origin: r.Header.Get("Origin"),
			exact:  ClientAddress(r),
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, from)))
	})
}

// AddressOf is the address that Client remembered.
func AddressOf(ctx context.Context) string { return clientOf(ctx).address }

// Site is the IPv6 network of 48 bits, the size for a site, that an address as of AddressOf belongs
// to; empty for IPv4.
func Site(address string) string {
	network, err := netip.ParsePrefix(address)
	if err != nil {
		return ""
	}
	wide, _ := network.Addr().Prefix(48) // 48 bits fit into every IPv6 address
	return wide.String()
}

// Holder is the network whose calls share a turn: the IPv6 site of an address as of AddressOf, or
// the address itself. A customer of a provider has no more than that.
func Holder(address string) string { return cmp.Or(Site(address), address) }

// ExactAddressOf is the address that Client remembered, for comparisons with networks; invalid when
// it is unknown.
func ExactAddressOf(ctx context.Context) netip.Addr { return clientOf(ctx).exact }

// OriginOf is the origin of the page that Client remembered; empty for programs.
func OriginOf(ctx context.Context) string { return clientOf(ctx).origin }

// AgentOf is the program that Client remembered.
func AgentOf(ctx context.Context) string { return clientOf(ctx).agent }

func clientOf(ctx context.Context) client {
	from, _ := ctx.Value(clientKey{}).(client)
	return from
}

func network(remote string) string { return Network(peer(remote)) }

// Network is the text of a Peer, as AddressOf has it.
func Network(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).String()
}

// ClientAddress returns the whole address that a request came from; invalid if it is unknown. Peer
// is for all that limits or counts clients.
func ClientAddress(r *http.Request) netip.Addr { return parseAddress(r.RemoteAddr) }

func parseAddress(remote string) netip.Addr {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// Peer is where a request came from: an IPv4 address, or the first 64 bits of an IPv6 address;
// invalid when that is unknown.
func Peer(r *http.Request) netip.Addr { return peer(r.RemoteAddr) }

func peer(remote string) netip.Addr {
	addr := parseAddress(remote)
	if !addr.IsValid() || addr.Is4() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // 64 bits fit into every IPv6 address
	return prefix.Addr()
}

// LimitBody bounds the body of a request: reading beyond the limit returns an
// http.MaxBytesError. A client that waits with a larger one for "100 Continue" gets its final
// status without having sent it.
func LimitBody(w http.ResponseWriter, r *http.Request, limit int64) {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if r.ContentLength > limit && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		w.Header().Set("Connection", "close") // else net/http waits for the body before it responds
		r.Body = tooLarge{r.Body, limit}
	}
}

// tooLarge is a body that is not read, because it exceeds a limit.
type tooLarge struct {
	io.ReadCloser
	limit int64
}

// Read implements io.Reader.
func (b tooLarge) Read([]byte) (int, error) { return 0, &http.MaxBytesError{Limit: b.limit} }

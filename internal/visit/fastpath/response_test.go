package fastpath

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestResponse_BodyMatchesContentLength: for any Content-Length that the handler sets. Otherwise
// the next response would begin inside the body.
func TestResponse_BodyMatchesContentLength(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"0", "1", "5"} {
		var w response
		w.reset()
		w.Header().Set("Content-Length", said)
		_, _ = io.WriteString(&w, "ab")
		if got := string(w.encode(time.Unix(0, 0))); strings.Count(got, "\nContent-Length: 2\r\n") != 1 ||
			!strings.HasSuffix(got, "\r\n\r\nab") {
			t.Errorf("of %s bytes: %q", said, got)
		}
	}
}

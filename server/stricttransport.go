package main

import (
	"net/http"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// strictTransport makes browsers use only https for a host, for a year (RFC 6797). It does not
// extend to subdomains, which other servers may have. The slice is shared between all responses and
// never written to.
var strictTransport = []string{"max-age=31536000"}

// setStrictTransport sets Strict-Transport-Security for the instance's own hosts if the public URL
// is https. A workspace's domain does not get it: the workspace may serve it without TLS later.
func (a *app) setStrictTransport(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(a.config.PublicURL, "https://") && a.config.IsOwnHost(web.Host(r)) {
		w.Header()["Strict-Transport-Security"] = strictTransport
	}
}

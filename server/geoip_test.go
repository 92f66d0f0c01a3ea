package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// downloads is a TLS server with a database of countries, whose certificate processes trust by the variable in env.
func downloads(t *testing.T, content []byte) (url string, env string, requests chan string) {
	t.Helper()
	requests = make(chan string, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "authority.pem")
	must.NoError(t, os.WriteFile(file,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return server.URL, "SSL_CERT_FILE=" + file, requests
}

// TestGeoIP_UpdatesTheFile by the command, and by a node that is to do it. A node that is not to downloads nothing, and
// a downloaded database is named, and attributed, without any setting.
func TestGeoIP_UpdatesTheFile(t *testing.T) {
	t.Parallel()
	content := must.Value(visitortest.Encode("DBIP-Country-Lite", visitortest.WellKnown))(t)
	url, trust, requests := downloads(t, content)
	b := embedded(t)
	file := filepath.Join(folderOf(b.env), "countries.mmdb")
	updating := embedded(t).inProcesses()
	updating.env = append(updating.env, trust)
	without := start(t, b.inProcesses(), trust, "LINKFORGE_GEOIP_URL="+url+"/unwanted")
	start(t, updating, "LINKFORGE_GEOIP_UPDATE=30d", "LINKFORGE_GEOIP_URL="+url+"/{month}")
	same(t, "the database without a file", without.attribution(t, "first"), "no database, no link")
	updated := filepath.Join(folderOf(updating.env), "countries.mmdb")
	polltest.Until(t, "the node downloads the file", func() bool {
		got, _ := os.ReadFile(updated)
		return bytes.Equal(got, content)
	})
	without.stop()

	p := program(t.Context(), t, append(b.env, trust), "geoip", "update", "--from", url+"/by-hand")
	said := string(must.Value(p.CombinedOutput())(t))
	if !strings.HasPrefix(said, "wrote "+file+`: "DBIP-Country-Lite" of 2024-01-01`+"\n") {
		t.Errorf("the command prints %q", said)
	}
	same(t, "the database of a file", start(t, b).attribution(t, "second"), "DBIP-Country-Lite, linked")
	for range len(requests) {
		if path := <-requests; path == "/unwanted" {
			t.Error("a node has downloaded a file without the setting")
		}
	}
	declined(t, b.env, "the URL must be one of https://", "geoip", "update", "--from", "http://127.0.0.1/")
	if got := must.Value(os.ReadFile(file))(t); !bytes.Equal(got, content) {
		t.Errorf("a refused download has left %d bytes", len(got))
	}
}

// TestGeoIP_NamedFileMustExist, unless the node downloads it.
func TestGeoIP_NamedFileMustExist(t *testing.T) {
	t.Parallel()
	b, missing := embedded(t), "LINKFORGE_GEOIP="+filepath.Join(t.TempDir(), "missing.mmdb")
	if said := failing(t, append(b.env, missing)...); !strings.Contains(said, "LINKFORGE_GEOIP: countries in ") {
		t.Errorf("a missing file: %s", said)
	}
	b.fails = true // it logs that nobody listens there
	start(t, b, missing, "LINKFORGE_GEOIP_UPDATE=30d", "LINKFORGE_GEOIP_URL=https://127.0.0.1:1/")
}

// attribution is the name of the database of countries, and whether a page of stats of a new workspace links to DB-IP.
func (s *server) attribution(t *testing.T, slug string) string {
	t.Helper()
	who := s.tenant(t, slug)
	l := who.shorten(t, "https://example.com/").Link
	who.publish(t, l.ID)
	name := who.ask(t, `{ countryDatabase }`, nil).text("countryDatabase")
	page := s.expect(t, http.StatusOK, http.MethodGet, l.path(s)+"+", "Accept", "text/html").body
	switch linked := strings.Contains(page, `<a href="https://db-ip.com"`); {
	case linked:
		return name + ", linked"
	case name == "" || name == "null":
		return "no database, no link"
	default:
		return name + ", no link"
	}
}

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestServer_AnswersHeads sends heads of requests without their bodies. A client that waits for
// "100 Continue" with a body beyond the limit gets its final status, and one whose body is within
// the limit is to send it. A connection ends after a request that another server may read as two.
func TestServer_AnswersHeads(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_IMPORT_BYTES=1024")
	who := s.tenant(t, "ada")
	_, upload := who.createImport(t, map[string]any{"workspaceId": who.workspaceID, "source": "CSV"})
	upload = strings.TrimPrefix(upload, s.public)
	gated := who.shorten(t, "https://example.com/gated", "routing", map[string]any{
		"gate": map[string]any{"password": "a long password"},
	}).Link
	const form, json = "application/x-www-form-urlencoded", "application/json"
	bearer, other := "Authorization: Bearer "+who.token+"\r\n", "Authorization: Bearer x\r\n"
	for name, c := range map[string]struct {
		method, path, kind, fields string
		size                       int
		status                     int
	}{
		"an operation":                {"POST", "/graphql", json, "", 100, http.StatusContinue},
		"a large anonymous one":       {"POST", "/graphql", json, "", 262145, http.StatusRequestEntityTooLarge},
		"the same, by an account":     {"POST", "/graphql", json, bearer, 262145, http.StatusContinue},
		"a huge one of an account":    {"POST", "/graphql", json, bearer, 1 << 40, http.StatusRequestEntityTooLarge},
		"a large one without access":  {"POST", "/graphql", json, other, 1 << 40, http.StatusUnauthorized},
		"a large one of another kind": {"POST", "/graphql", form, "", 1 << 40, http.StatusUnsupportedMediaType},
		"a file":                      {"PUT", upload, "text/csv", "", 1024, http.StatusContinue},
		"a large file":                {"PUT", upload, "text/csv", "", 1025, http.StatusRequestEntityTooLarge},
		"a file without an import":    {"PUT", "/import/x.y", "text/csv", "", 1, http.StatusNotFound},
		"a large report":              {"POST", "/abuse", form, "", 1 << 20, http.StatusBadRequest},
		"a large password":            {"POST", "/password", form, "", 1 << 20, http.StatusBadRequest},
		"a large form of a gate":      {"POST", gated.path(s), form, "", 1 << 20, http.StatusOK},
		"a body for nobody":           {"POST", "/nosuchcode", form, "", 1 << 20, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n"+
				"Expect: 100-Continue\r\n\r\n", c.method, c.path, s.address, c.kind, c.fields, c.size)
			a := s.raw(t, head)
			wantStatus(t, name, a, c.status)
			same(t, "the connection closes", a.header.Get("Connection") == "close", c.status != http.StatusContinue)
		})
	}
	for _, request := range []string{
		"POST /graphql HTTP/1.1\r\nContent-Type: application/json\r\n", "GET " + gated.path(s) + " HTTP/1.1\r\n",
		"PUT " + upload + " HTTP/1.1\r\n",
	} {
		a := s.raw(t, request+"Host: "+s.address+"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		if a.header.Get("Connection") != "close" {
			t.Errorf("%.20s: %d with Connection %q", request, a.status, a.header.Get("Connection"))
		}
	}
}

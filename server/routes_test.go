package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// patterns are the patterns that routes.go registers, as they are written there.
func patterns(t *testing.T) []string {
	t.Helper()
	file := must.Value(parser.ParseFile(token.NewFileSet(), "routes.go", nil, 0))(t)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "Handle" && method.Sel.Name != "HandleFunc" {
			return true
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("a pattern of routes.go is not written out: %v", call.Args[0])
		}
		pattern := must.Value(strconv.Unquote(literal.Value))(t)
		all = append(all, pattern)
		return true
	})
	return all
}

func TestRoutes_AreReservedWords(t *testing.T) {
	t.Parallel()
	all := patterns(t)
	if len(all) < 9 {
		t.Fatalf("only %d patterns found: %v", len(all), all)
	}
	for _, pattern := range all {
		method, path, _ := strings.Cut(pattern, " ")
		word, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if method != http.MethodGet && method != http.MethodPost && method != http.MethodPut &&
			method != http.MethodOptions ||
			!strings.HasPrefix(path, "/") {
			t.Errorf("%q does not say its method and path", pattern)
		}
		if word == "" || strings.HasPrefix(word, "{") {
			continue
		}
		if !shortcode.Reserved(word) {
			t.Errorf("%q is served, and could be a code or slug: it is not reserved", word)
		}
	}
}

// TestRoutes_AreServed requests every pattern. The log names the pattern of a request.
func TestRoutes_AreServed(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_LOG_LEVEL=debug")
	who := s.tenant(t, "routed")
	root := who.shorten(t, "https://example.com/").Link.path(s)
	const query = "?query=%7B__typename%7D"
	probes := map[string]struct {
		path, body string
		status     int
	}{
		"GET /livez":         {"/livez", "alive\n", http.StatusOK},
		"GET /readyz":        {"/readyz", "ready\n", http.StatusOK},
		"GET /readyz/redis":  {"/readyz/redis", "ready\n", http.StatusOK},
		"GET /graphql":       {"/graphql" + query, `{"data":{"__typename":"Query"}}`, http.StatusOK},
		"POST /graphql":      {"/graphql", "application/json", http.StatusUnsupportedMediaType},
		"OPTIONS /graphql":   {"/graphql", "", http.StatusNoContent},
		"GET /playground":    {"/playground", "<html", http.StatusOK},
		"GET /abuse":         {"/abuse?link=x", "Report a short link", http.StatusOK},
		"POST /abuse":        {"/abuse", "Report a short link", http.StatusBadRequest},
		"GET /password":      {"/password", "resetPassword", http.StatusOK},
		"POST /password":     {"/password", "The password must have", http.StatusBadRequest},
		"GET /verify":        {"/verify", "verifyEmail", http.StatusOK},
		"POST /verify":       {"/verify", "The token is invalid", http.StatusUnauthorized},
		"GET /invitation":    {"/invitation", "acceptInvitation", http.StatusOK},
		"POST /invitation":   {"/invitation", "There is no invitation", http.StatusNotFound},
		"GET /robots.txt":    {"/robots.txt", "Disallow: /", http.StatusOK},
		"GET /favicon.ico":   {"/favicon.ico", "", http.StatusNoContent},
		"GET /app":           {"/app", "<title>Linkforge</title>", http.StatusOK},
		"GET /app/":          {"/app/own/links", "<title>Linkforge</title>", http.StatusOK},
		"GET /{$}":           {"/", "This is a link shortener", http.StatusNotFound},
		"GET /{code}":        {root, "", http.StatusFound},
		"GET /{slug}/{code}": {"/routed" + root, "", http.StatusFound},
		"GET /{code}+":       {root + "+", "No stats available", http.StatusNotFound},
		"GET /export/audit/{workspace}": {"/export/audit/" + who.workspaceID, "UNAUTHENTICATED",
			http.StatusUnauthorized},
		"GET /export/clicks":            {"/export/clicks", "NOT_FOUND", http.StatusNotFound},
		"GET /export/workspace/{token}": {"/export/workspace/x", "NOT_FOUND", http.StatusNotFound},
		"PUT /import/{token}":           {"/import/x", "NOT_FOUND", http.StatusNotFound},
		"OPTIONS /import/{token}":       {"/import/x", "", http.StatusNoContent},
		"GET /.well-known/linkforge":    {"/.well-known/linkforge", "", http.StatusOK},
		"GET /domains/known":            {"/domains/known?domain=sho.rt", "Not verified", http.StatusNotFound},
		"GET /":                         {"/graphql/b/c", "Page not found.", http.StatusNotFound},
	}
	for _, pattern := range append(patterns(t), "GET /{code}", "GET /{slug}/{code}", "GET /{code}+") {
		probe, ok := probes[pattern]
		if !ok {
			t.Errorf("%q has no probe in this test", pattern)
			continue
		}
		method, _, _ := strings.Cut(pattern, " ")
		a := s.expect(t, probe.status, method, probe.path)
		if !strings.Contains(a.body, probe.body) {
			t.Errorf("%q: %.300s", pattern, a.body)
		}
		if a.header.Get("X-Request-Id") == "" {
			t.Errorf("%q: the answer has no name", pattern)
		}
		polltest.Until(t, pattern+" is in the log", func() bool {
			return strings.Contains(content(t, s.err), " pattern=\""+pattern+"\" ")
		})
	}
	for _, secret := range []string{who.token, who.password, who.email, "__typename"} {
		if strings.Contains(content(t, s.err), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

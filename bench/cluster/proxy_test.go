package main

import (
	"strings"
	"testing"
)

// TestTheDocumentedProxyIsDrilled: only places are changed in docs/deploy/nginx.conf, and nothing of its own place is left.
func TestTheDocumentedProxyIsDrilled(t *testing.T) {
	t.Parallel()
	text, err := moduleFile(t.Context(), proxyFile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := adaptProxy(text, proxyPlaces{
		nodes: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, plain: "127.0.0.1:80", secure: "127.0.0.1:443",
		certificate: "/tmp/c.pem", key: "/tmp/c.key", folder: "/tmp/n",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\t\tserver 127.0.0.1:1 max_fails=1 fail_timeout=2s;\n\t\tserver 127.0.0.1:2 max_fails=1 fail_timeout=2s;\n\t\tserver 127.0.0.1:3 max_fails=1 fail_timeout=2s;\n",
		"listen 127.0.0.1:80;", "listen 127.0.0.1:443 ssl", "ssl_certificate     /tmp/c.pem;", "ssl_certificate_key /tmp/c.key;", "proxy_next_upstream error timeout;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, others := range []string{"server 10.", "sho.rt", "/etc/"} {
		for line := range strings.Lines(got) {
			if strings.Contains(line, others) && !strings.HasPrefix(line, "#") {
				t.Errorf("%q is left in %q", others, line)
			}
		}
	}
	if _, err := adaptProxy(strings.ReplaceAll(text, "listen 443", "listen 444"), proxyPlaces{nodes: []string{"127.0.0.1:1"}}); err == nil {
		t.Error("a file without its port is taken")
	}
	if _, err := adaptProxy("http {\n}\n", proxyPlaces{}); err == nil {
		t.Error("a file without nodes is taken")
	}
}

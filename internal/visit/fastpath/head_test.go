package fastpath

import (
	"strings"
	"testing"
)

// TestServer_ReusesOneHeadBuffer: what one request said is forgotten when the next one is read.
func TestServer_ReusesOneHeadBuffer(t *testing.T) {
	t.Parallel()
	var h head
	if !h.read("GET /a HTTP/1.1\r\n"+host+strings.Repeat("A: b\r\n", maxFields-1)+"\r\n") || !h.read(plainRequest) {
		t.Fatal("plain requests were not read")
	}
	for i, value := range h.values[:cap(h.values)] {
		if i > 0 && value != "" {
			t.Fatalf("value %d is still %q", i, value)
		}
	}
	if len(h.header) != 0 {
		t.Errorf("fields are still %q", h.header)
	}
}

package web

import (
	"net/http/httptest"
	"testing"
)

func TestIsUTF8_ReadsEachPart(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]bool{
		"/?a=%C3%A4": true, "/?a=%E4": false, "/?%E4": false, "/?x=1;y=%E4": false, "/?x=%E4;y=1": false, "/%E4": false,
		"/?a=%zz": true, "/?a=b&c=%E4%zz": true,
	} {
		if got := IsUTF8(httptest.NewRequestWithContext(t.Context(), "GET", target, nil)); got != want {
			t.Errorf("%s: %t", target, got)
		}
	}
}

package web

import (
	"testing"
)

func TestAcceptsGzip_ReadsHeader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fields []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"gzip"}, true},
		{[]string{"GZIP"}, true},
		{[]string{"x-gzip"}, true},
		{[]string{"br, gzip;q=0.5"}, true},
		{[]string{"deflate", "gzip"}, true},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip ; q=0.000"}, false},
		{[]string{"gzip;q=zwei"}, false},
		{[]string{"gzip;q=NaN"}, false},
		{[]string{"*"}, true},
		{[]string{"*;q=0"}, false},
		{[]string{"gzip;q=0, *"}, false},
		{[]string{"identity"}, false},
		{[]string{"identity, gzip;q=0.5"}, false},
		{[]string{"identity;q=0.5, gzip"}, true},
		{[]string{"br"}, false},
	}
	for _, tt := range tests {
		if got := AcceptsGzip(tt.fields); got != tt.want {
			t.Errorf("AcceptsGzip(%q) = %t, want %t", tt.fields, got, tt.want)
		}
	}
}

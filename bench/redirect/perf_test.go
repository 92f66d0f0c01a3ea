package main

import "testing"

func TestParseCount(t *testing.T) {
	t.Parallel()
	n, err := parseCount("\n123456,,instructions:u,1000,100.00,,\n")
	if err != nil || n != 123456 {
		t.Errorf("got %d and error %v", n, err)
	}
	for _, bad := range []string{"", "<not supported>,,instructions:u,0,100.00,,", "12,,cycles:u,1,100.00,,"} {
		if n, err := parseCount(bad); err == nil {
			t.Errorf("%q was read as %d", bad, n)
		}
	}
}

package main

import "testing"

// TestBanner_HidesSecrets: neither a user nor a password is announced, however the URL was
// written.
func TestBanner_HidesSecrets(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]string{
		"redis://:" + marker + "@127.0.0.1:6379/0":                                           "127.0.0.1:6379/0",
		"redis+cluster://me:" + marker + "@a:7000,b:7001":                                    "a:7000,b:7001",
		"redis+sentinel://me:" + marker + "@a:1,b/main?db=0&sentinel_password=" + marker:     "a:1,b/main",
		"postgres://me:" + marker + "@a:5432,b:5432/name?target_session_attrs=read-write":    "a:5432,b:5432/name",
		"postgres://me:" + marker + "@" + marker + "@a/name":                                 "a/name",
		"postgres://me:" + marker + "/" + marker + "@a/name":                                 "(configured)",
		"postgres://" + marker + ":1?" + marker + "@a/name":                                  "(configured)",
		"postgres://me@a/name?password=" + marker + "&passfile=/" + marker + "/x&sslmode=no": "a/name",
	} {
		same(t, u, whereabouts(u), want)
	}
}

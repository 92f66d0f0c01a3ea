package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveLoad drives a handler through the command of the other process.
func serveLoad(t *testing.T, l load, h http.HandlerFunc) outcome {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	l.Address = strings.TrimPrefix(server.URL, "http://")
	parsed, err := parseLoad(l.arguments()[1:])
	if err != nil {
		t.Fatal(err)
	}
	if parsed != l {
		t.Fatalf("the command line says %+v, want %+v", parsed, l)
	}
	o, err := parsed.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(o); err != nil {
		t.Fatal(err)
	}
	var read outcome
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestSweepVisitsEveryLinkOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	o := serveLoad(t, load{Links: 101, Connections: 7}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
		redirect(w, "/")
	})
	for number := range 101 {
		c := codeOf(number)
		if n := seen["/"+string(c[:])]; n != 1 {
			t.Errorf("link %d was visited %d times", number, n)
		}
	}
	if o.Redirects != 101 || len(o.Others) > 0 || len(o.Broken) > 0 {
		t.Errorf("the outcome is %+v", o)
	}
}

func TestBurstCountsEveryAnswer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	answered := map[int]int64{}
	o := serveLoad(t, load{Links: 50, Connections: 4, Burst: 50 * time.Millisecond, Seed: 3}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if (answered[http.StatusFound]+answered[http.StatusNotFound])%5 == 0 {
			answered[http.StatusNotFound]++
			http.NotFound(w, r)
			return
		}
		answered[http.StatusFound]++
		redirect(w, "/")
	})
	if o.Redirects != answered[http.StatusFound] || o.Others[http.StatusNotFound] != answered[http.StatusNotFound] || len(o.Broken) > 0 {
		t.Errorf("the outcome is %+v, want %v", o, answered)
	}
	if o.P50 <= 0 || o.P99 < o.P50 || o.Max < o.P99 || o.Took < 50*time.Millisecond {
		t.Errorf("the times are %+v", o)
	}
}

func TestABrokenConnectionIsTold(t *testing.T) {
	t.Parallel()
	o := serveLoad(t, load{Links: 50, Connections: 3, Burst: time.Minute}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if o.Redirects != 0 || len(o.Broken) != 3 {
		t.Errorf("the outcome is %+v", o)
	}
}

func TestVisitorsShareWhatIsDrawn(t *testing.T) {
	t.Parallel()
	visitors := []*visitor{{}, {}, {}}
	l := load{Links: 50, Connections: 3, Burst: time.Second, Seed: 9}
	l.plan(visitors)
	if all := slices.Concat(visitors[0].plan, visitors[1].plan, visitors[2].plan); !slices.Equal(all, draw(50, drawn, 9)) {
		t.Errorf("%d visits are planned, or others than were drawn", len(all))
	}
}

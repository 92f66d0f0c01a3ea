package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

var shapes = []shape{{1, 1000, 2}, {2, 1003, 10}, {3, 20_000, 100}, {4, 10_007, 2000}}

// TestEveryLinkHasOneHome: what tells a link's workspace, a workspace's links and how many these are must agree.
func TestEveryLinkHasOneHome(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		seen := make([]bool, s.Links)
		for workspace := range s.Tenants {
			for index := range s.size(workspace) {
				link := s.linkOf(workspace, index)
				if link >= s.Links || seen[link] || s.home(link) != workspace {
					t.Fatalf("%+v: link %d of workspace %d is %d, at home in %d", s, index, workspace, link, s.home(link))
				}
				seen[link] = true
			}
		}
		for link, ok := range seen {
			if !ok {
				t.Fatalf("%+v: link %d is nobody's", s, link)
			}
		}
	}
}

func TestColdLinksAreFollowedOnceAndHotOnesAreOthers(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		seen := map[int]bool{}
		for turn := range s.colds() {
			seen[s.cold(turn)] = true
		}
		for _, link := range s.draw(5000, 1) {
			if seen[link] || link >= s.Links {
				t.Fatalf("%+v: link %d is hot and cold, or there is none", s, link)
			}
		}
		if len(seen) != s.Links-s.hot() {
			t.Errorf("%+v: %d links are cold", s, len(seen))
		}
	}
}

func TestWhatLinksAreMadeOf(t *testing.T) {
	t.Parallel()
	s, rares := shape{7, 20_000, 100}, 0
	codes, urls := map[string]bool{}, map[string]bool{}
	looks := regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{10}$`)
	for link := range s.Links {
		code, to := codeOf(link), urlOf(link)
		if codes[code] || urls[to] || !looks.MatchString(code) {
			t.Fatalf("link %d: %s, %s", link, code, to)
		}
		codes[code], urls[to] = true, true
		if strings.Contains(s.titleOf(link), rareWord) {
			rares++
			if s.home(link) != 0 {
				t.Errorf("link %d has the rare word", link)
			}
		}
	}
	if rares != rare {
		t.Errorf("%d links have the rare word", rares)
	}
	if u, err := urlnorm.Canonical(urlOf(12)); err != nil || u.String() != urlOf(12) {
		t.Errorf("the canonical form is %s: %v", u.String(), err)
	}
	if !id.Valid(id.Link, s.linkID(12)) || !id.Valid(id.Workspace, s.workspaceID(12)) || !id.Valid(id.Account, s.ownerID(12)) {
		t.Error("ids are not valid")
	}
	if s.linkID(s.Links) >= id.New(id.Link) {
		t.Error("a new link does not come after those that are there")
	}
}

// TestOnceIsEnough: all bursts that ask for each link once, and what comes before them, find links that are not known yet.
func TestOnceIsEnough(t *testing.T) {
	t.Parallel()
	for _, s := range append(shapes, shape{5, 100_000, 10}) {
		for rounds := 1; rounds < 6; rounds++ {
			b := &bench{options: options{rounds: rounds}}
			each := b.onceTurns(s)
			if n := 2 * rounds * (each + max(1, each/warmPart)); n > s.colds() {
				t.Errorf("%+v, %d rounds: %d of %d", s, rounds, n, s.colds())
			}
		}
	}
}

// drive has the load generator's command ask a handler.
func drive(t *testing.T, l load, h http.HandlerFunc) outcome {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	l.Addresses, l.Token = []string{strings.TrimPrefix(server.URL, "http://")}, "token"
	in, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runLoad(t.Context(), bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTurnsAreTakenOnce: not in parallel, as the load generator changes the process that it is.
func TestTurnsAreTakenOnce(t *testing.T) {
	s := shapes[2]
	var mu sync.Mutex
	seen := map[string]int{}
	o := drive(t, load{Operation: "look", Shape: s, Connections: 3, First: 40, Turns: 100}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method+r.URL.Path]++
		redirect(w, r)
	})
	for turn := 40; turn < 140; turn++ {
		if n := seen["HEAD/"+codeOf(s.cold(turn))]; n != 1 {
			t.Errorf("turn %d was taken %d times", turn, n)
		}
	}
	if o.Right != 100 || o.Wrong != 0 || len(o.Broken) > 0 || o.P99 <= 0 {
		t.Errorf("the outcome is %+v", o)
	}
}

func TestAnswersAreRightOrWrong(t *testing.T) {
	s := shapes[2]
	for answer, right := range map[string]bool{
		`{"data":{"createLink":{"created":true,"errors":[]}}}`:                true,
		`{"data":{"createLink":{"created":false,"errors":[]}}}`:               false,
		`{"data":{"x":{"created":true}},"errors":[{"message":"half of it"}]}`: false,
	} {
		o := drive(t, load{Operation: "create", Shape: s, Connections: 2, Burst: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !json.Valid(body) || r.Header.Get("Authorization") != "Bearer token" {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(w, answer)
		})
		if o.Right+o.Wrong == 0 || (o.Right > 0) != right || (o.Wrong > 0) == right {
			t.Errorf("%s: %+v", answer, o)
		}
	}
}

// TestVariables looks at what is asked of an estate.
func TestVariables(t *testing.T) {
	t.Parallel()
	s := shapes[2]
	for turn := range 1000 {
		input := knownLink(s, turn)["input"].(map[string]any)
		known := false
		for index := range s.size(turn % s.asked()) {
			known = known || urlOf(s.linkOf(turn%s.asked(), index)) == input["url"]
		}
		if !known || input["workspaceId"] != s.workspaceID(turn%s.asked()) {
			t.Fatalf("turn %d: %v is not known", turn, input)
		}
		if pageOfSmall(s, turn)["workspace"] == s.workspaceID(0) {
			t.Fatal("the largest workspace is no small one")
		}
	}
	if a, b := newLink(s, 1), newLink(s, 2); fmt.Sprint(a) == fmt.Sprint(b) {
		t.Error("new links are the same")
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	servers := func(string) string { return "x" }
	for _, args := range [][]string{
		{"-parts", "links,cows"}, {"-links", "10000,9999"}, {"-links", "many"}, {"-tenants", "1"}, {"-links", "1000", "-tenants", "1000"},
		{"-rounds", "0"}, {"-nodes", "0"}, {"-links", "100000000"},
	} {
		if _, err := parse(args, servers); err == nil {
			t.Errorf("%v were taken", args)
		}
	}
	if _, err := parse(nil, func(string) string { return "" }); err == nil {
		t.Error("no servers were taken")
	}
	o, err := parse([]string{"-links", "100000,1000000"}, servers)
	if got := fmt.Sprint(o.shapes()); err != nil || got != "[{1 100000 1000} {2 1000000 1000} {3 1000000 10} {4 1000000 100000}]" {
		t.Errorf("%s: %v", got, err)
	}
}

func TestReportTellsGrowth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	small := &column{title: "few", seen: map[string][]figures{"hot": {{own: 10, beside: 10, p50: 1}, {own: 100, beside: 100, p50: 1}}}}
	large := &column{title: "many", seen: map[string][]figures{"hot": {{own: 30, beside: 10, p50: 1}, {own: 200, beside: 200, p50: 2}}}}
	tables{&out, []string{"hot"}, []*column{small, large}, nil}.all()
	for _, want := range []string{"| redirect, from memory | 55 + 55 | 115 + 105 | 2.00 (2.00–2.00) |", "| 1.00 / 0.0 | 1.50 / 0.0 | 1.50 (1.00–2.00) |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in\n%s", want, out.String())
		}
	}
	for n, want := range map[int]string{5: "5", 1000: "1,000", 12_345_678: "12,345,678"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}

func TestReadNumber(t *testing.T) {
	t.Parallel()
	if n, err := readNumber([]byte("heap profile: 1\n# Alloc = 5\n# HeapAlloc = 4711\n# HeapSys = 9\n"), "# HeapAlloc = "); err != nil || n != 4711 {
		t.Error(n, err)
	}
	if _, err := readNumber([]byte("nothing"), "# HeapAlloc = "); err == nil {
		t.Error("nothing was read")
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// drive sends a load to a handler as the process of the load generator does.
func drive(t *testing.T, l load, h http.HandlerFunc) (o outcome) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	l.Address = strings.TrimPrefix(server.URL, "http://")
	in, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var read load
	if err := json.Unmarshal(in, &read); err != nil {
		t.Fatal(err)
	}
	came, err := read.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(came)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEveryRequestIsAnother(t *testing.T) {
	t.Parallel()
	create := operations()[2]
	var mu sync.Mutex
	seen := map[string]string{} // by URL, the workspace
	o := drive(t, load{
		Bodies: create.bodies([]string{"ws_one", "ws_two"}), Good: create.good, Token: "of-mine", First: 999_998, Connections: 3, Burst: 50 * time.Millisecond,
	}, func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Query     string
			Variables struct {
				Input struct{ WorkspaceID, URL string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("Authorization") != "Bearer of-mine" {
			t.Errorf("error %v, headers %v", err, r.Header)
		}
		in := asked.Variables.Input
		mu.Lock()
		defer mu.Unlock()
		if before, ok := seen[in.URL]; ok || asked.Query != createDocument {
			t.Errorf("%s was asked for already in %s, or by another document", in.URL, before)
		}
		seen[in.URL] = in.WorkspaceID
		_, _ = io.WriteString(w, `{"data":{"createLink":{"created":true,"errors":[]}}}`)
	})
	if int(o.Right) != len(seen) || o.Next != 999_998+len(seen) || len(o.Wrong)+len(o.Broken) > 0 {
		t.Errorf("%d requests came, the outcome is %+v", len(seen), o)
	}
	if w := seen[strings.Replace(newURL(), numberPlace, "000000999999", 1)]; w != "ws_two" {
		t.Errorf("the second link is for %q", w)
	}
	if o.P50 <= 0 || o.P99 < o.P50 || o.Max < o.P99 || o.Took < 50*time.Millisecond || o.Bytes != 52*o.Right {
		t.Errorf("the outcome is %+v", o)
	}
}

func TestWrongAnswersAreToldFromRightOnes(t *testing.T) {
	t.Parallel()
	me := operations()[0]
	for name, c := range map[string]struct {
		status int
		answer string
		right  bool
	}{
		"right":          {200, `{"data":{"me":{"id":"usr_1","email":"a@example.com"}}}`, true},
		"nobody":         {200, `{"data":{"me":null}}`, false},
		"with an error":  {200, `{"errors":[{"message":"no"}],"data":{"me":{"id":"usr_1"}}}`, false},
		"another status": {503, `{"data":{"me":{"id":"usr_1"}}}`, false},
		"in chunks":      {200, `{"data":{"me":{"id":"usr_1","email":"` + strings.Repeat("a", 9000) + `"}}}`, true},
	} {
		o := drive(t, load{Bodies: me.bodies(nil), Good: me.good, Connections: 2, Burst: time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		if (o.Right > 0) != c.right || (o.Wrong[c.status] > 0) == c.right || len(o.Broken) > 0 {
			t.Errorf("%s: the outcome is %+v", name, o)
		}
		if !c.right && o.Sample != c.answer {
			t.Errorf("%s: the sample is %q", name, o.Sample)
		}
	}
}

func TestABrokenConnectionIsTold(t *testing.T) {
	t.Parallel()
	o := drive(t, load{Bodies: []string{"{}"}, Connections: 3, Burst: time.Minute}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if o.Right != 0 || len(o.Broken) != 3 {
		t.Errorf("the outcome is %+v", o)
	}
}

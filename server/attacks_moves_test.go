package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

// movesBound is how long the victim's imports of one row and uploads may take during an attack.
const movesBound = 2 * time.Second

// moves makes imports of one row, and uploads by themselves, a part of the victim's work.
func (s *scene) moves() {
	var imported atomic.Int64
	v := s.victim
	upload := func() (taskID string, err error) {
		taskID, url, a, err := v.beginImport("CSV", "dryRun", false)
		if err == nil && url != "" {
			row := fmt.Sprintf("url\nhttps://example.com/imported/%d\n", imported.Add(1))
			a, err = v.request(http.MethodPut, strings.TrimPrefix(url, v.public), row)
		}
		if err == nil && a.status != http.StatusCreated {
			err = fmt.Errorf("status %d: %.200s", a.status, a.body)
		}
		return taskID, err
	}
	s.more = map[string]work{
		"upload": {2 * time.Second, func() error { _, err := upload(); return err }},
		"import": {time.Second, func() error {
			taskID, err := upload()
			if err != nil {
				return err
			}
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * pollEvery) {
				var got struct{ Node struct{ Status string } }
				if err := v.try(&got, `query ($id: ID!) { node(id: $id) { ... on Task { status } } }`,
					map[string]any{"id": taskID}); err != nil {
					return err
				}
				switch got.Node.Status {
				case "SUCCEEDED":
					return nil
				case "QUEUED", "RUNNING", "WAITING_FOR_UPLOAD":
				default:
					return fmt.Errorf("the import is %s", got.Node.Status)
				}
			}
			return fmt.Errorf("the import has not ended after %s", patience)
		}},
	}
}

// attackers returns six workspaces of the attacker.
func (s *scene) attackers(t *testing.T) (all []tenant) {
	t.Helper()
	all = []tenant{s.attacker}
	for i := range 5 {
		other := s.attacker
		other.workspaceID = s.attacker.newWorkspace(t, fmt.Sprint("attacker-", i))
		all = append(all, other)
	}
	return all
}

// slowImports imports from an API that answers after 25 seconds, or 429 with a Retry-After of a minute,
// into six workspaces.
func slowImports(t *testing.T, s *scene) attack {
	s.moves()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if rand.IntN(2) == 0 {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_ = poll.Wait(r.Context(), 25*time.Second)
		_, _ = io.WriteString(w, `{"total": 0, "data": []}`)
	}))
	t.Cleanup(func() {
		api.CloseClientConnections()
		api.Close()
	})
	all := s.attackers(t)
	var n atomic.Int64
	return attack{workers: 64, strike: func(context.Context, int) (answer, error) {
		i := n.Add(1)
		_, _, a, err := all[int(i)%len(all)].beginImport("KUTT", "label", fmt.Sprint(i),
			"api", map[string]any{"baseUrl": api.URL, "token": "x"})
		return a, err
	}}
}

// silentUploads begins uploads with sixteen keys of six workspaces, sends nine bytes, and waits.
func silentUploads(t *testing.T, s *scene) attack {
	s.moves()
	all := s.attackers(t)
	keys := make([]tenant, 0, 16)
	for i := range 16 {
		who := all[i%len(all)]
		key, _ := who.key(t, "LINKS_READ", "LINKS_WRITE")
		who.client = key
		keys = append(keys, who)
	}
	return attack{workers: 64, strike: func(ctx context.Context, worker int) (answer, error) {
		who := keys[worker%len(keys)]
		_, url, a, err := who.beginImport("CSV")
		if url == "" {
			return a, err
		}
		return s.sendNineBytes(ctx, url)
	}}
}

// beginImport creates an import with further fields of its input, alternating names and values. It returns the task and
// the URL for its file, which are empty if the import is refused.
func (w tenant) beginImport(source string, more ...any) (taskID, url string, a answer, err error) {
	in := map[string]any{"workspaceId": w.workspaceID, "source": source}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	var created struct {
		CreateImport struct {
			Task      struct{ ID string }
			UploadURL string
		}
	}
	a, err = w.run(`mutation ($in: CreateImportInput!) { createImport(input: $in) { task { id } uploadUrl
		errors { code message } } }`, map[string]any{"in": in})
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &struct{ Data any }{&created})
	}
	return created.CreateImport.Task.ID, created.CreateImport.UploadURL, a, err
}

// sendNineBytes begins an upload, and waits for its answer.
func (s *scene) sendNineBytes(ctx context.Context, uploadURL string) (answer, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.node())
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_, err = fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 1048576\r\n\r\nurl,code\n",
		strings.TrimPrefix(uploadURL, s.public), strings.TrimPrefix(s.public, "http://"))
	if err != nil {
		return answer{}, err
	}
	text, _ := io.ReadAll(c) // until the server ends the connection
	_, status, _ := bytes.Cut(text, []byte(" "))
	a := answer{header: http.Header{}, body: string(text)}
	_, _ = fmt.Sscan(string(status), &a.status)
	if bytes.Contains(text, []byte("Retry-After")) {
		a.header.Set("Retry-After", "1")
	}
	return a, nil
}

// manyRegistrations registers from networks of one IPv6 /48.
func manyRegistrations(_ *testing.T, s *scene) attack {
	s.moves()
	var n atomic.Int64
	strangers := client{server: s.fromEach(func() string {
		return fmt.Sprintf("2001:db8:2:%x::%x", rand.IntN(1<<16), rand.IntN(1<<16))
	})}
	return attack{workers: 64, refusal: "RATE_LIMITED", strike: func(context.Context, int) (answer, error) {
		return strangers.run(`mutation ($in: RegisterInput!) { register(input: $in) { errors { code message } } }`,
			map[string]any{"in": map[string]any{"email": fmt.Sprintf("n%d@example.org", n.Add(1)),
				"password": "a long password", "name": "N"}})
	}}
}

// emptyRows uploads dry runs of 3 MB of rows without a property, with keys of six workspaces.
func emptyRows(t *testing.T, s *scene) attack {
	s.moves()
	all, file := s.attackers(t), strings.Repeat("{}\n", 1<<20)
	return attack{workers: 64, strike: func(_ context.Context, worker int) (answer, error) {
		who := all[worker%len(all)]
		_, url, a, err := who.beginImport("JSON_LINES")
		if url == "" {
			return a, err
		}
		return who.request(http.MethodPut, strings.TrimPrefix(url, s.public), file)
	}}
}

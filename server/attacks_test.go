package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

func randomIPv4() string {
	return netip.AddrFrom4([4]byte{203, byte(rand.IntN(256)), byte(rand.IntN(256)), byte(rand.IntN(256))}).String()
}

// longText returns a text of the length that differs by its start.
func longText(start string, length int) string {
	const words = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := []byte(start)
	for len(text) < length {
		text = append(text, words[rand.IntN(len(words))])
	}
	return string(text)
}

// longLinks are links with texts of maximum length.
func longLinks(n int, start string) []map[string]any {
	links := make([]map[string]any, n)
	for i := range links {
		url := fmt.Sprintf("https://example.com/%s/%d/", start, i)
		links[i] = map[string]any{"url": longText(url, 7500), "title": longText("t", 200), "note": longText("n", 1900)}
	}
	return links
}

const createMany = `mutation ($in: CreateLinksInput!) {
	createLinks(input: $in) { results { created errors { code } } }
}`

// failingBatches sends batches of links with long texts. The first of each worker succeeds, the others
// fail as a whole because of their last link.
func failingBatches(t *testing.T, s *scene) attack {
	const workers = 8
	s.victim.shorten(t, "https://example.com/taken", "strategy", "CUSTOM", "customCode", "taken-by-the-victim")
	var first, bodies [workers][]byte
	for i := range workers {
		in := map[string]any{"workspaceId": s.attacker.workspaceID, "onError": "ALL_OR_NOTHING"}
		in["links"] = longLinks(899, fmt.Sprint("first/", i))
		first[i] = encoded(t, createMany, map[string]any{"in": in})
		in["links"] = append(longLinks(899, fmt.Sprint("batch/", i)), map[string]any{"url": "https://example.com/other",
			"strategy": "CUSTOM", "customCode": "taken-by-the-victim"})
		bodies[i] = encoded(t, createMany, map[string]any{"in": in})
	}
	var began [workers]bool
	return attack{workers: workers, refusal: "RATE_LIMITED",
		strike: func(_ context.Context, worker int) (answer, error) {
			body := bodies[worker]
			if !began[worker] {
				began[worker], body = true, first[worker]
			}
			a, err := s.attacker.post(body)
			if a.status == http.StatusOK {
				a.body = strings.NewReplacer(`"code":"CONFLICT"`, "", `"code":"CODE_TAKEN"`, "").Replace(a.body)
			}
			return a, err
		}}
}

func encoded(t *testing.T, query string, variables map[string]any) []byte {
	t.Helper()
	body := must.Value(json.Marshal(map[string]any{"query": query, "variables": variables}))(t)
	return body
}

// manySearches searches 2,400 links with long texts, 50 times in an operation: more would exceed the
// tokens of a document.
func manySearches(t *testing.T, s *scene) attack {
	for part := range 3 {
		s.attacker.must(t, new(any), createMany, map[string]any{"in": map[string]any{
			"workspaceId": s.attacker.workspaceID, "links": longLinks(800, fmt.Sprint("long/", part)),
		}})
	}
	fields := ""
	for i := range 50 {
		fields += fmt.Sprintf(` a%d: links(first: 1, filter: {search: "%c%d"}) { totalCount }`, i, 'a'+i%26, i%10)
	}
	body := encoded(t, `query ($w: ID!) { workspace(by: {id: $w}) {`+fields+` } }`,
		map[string]any{"w": s.attacker.workspaceID})
	return attack{workers: 4, strike: func(context.Context, int) (answer, error) { return s.attacker.post(body) }}
}

// correctPasswords logs in to eight accounts from one address.
func correctPasswords(t *testing.T, s *scene) attack {
	var accounts []tenant
	for i := range 8 {
		accounts = append(accounts, s.attacker.server.tenant(t, fmt.Sprint("attacker", i)))
	}
	bodies := make([][]byte, len(accounts))
	for i, who := range accounts {
		bodies[i] = encoded(t, logIn,
			map[string]any{"in": map[string]any{"email": who.email, "password": who.password}})
	}
	anonymous := client{server: s.attacker.server}
	return attack{workers: 40, refusal: "RATE_LIMITED", strike: func(_ context.Context, worker int) (answer, error) {
		return anonymous.post(bodies[worker%len(bodies)])
	}}
}

// keys creates API keys of the attacker's workspace.
func (s *scene) keys(t *testing.T, n int) (keys []client) {
	t.Helper()
	for range n {
		key, _ := s.attacker.key(t, "LINKS_READ", "LINKS_WRITE", "STATS_READ")
		keys = append(keys, key)
	}
	return keys
}

// manyKeys lists links with 100 API keys of one workspace.
func manyKeys(t *testing.T, s *scene) attack {
	s.attacker.shortenMany(t, 500, "https://example.com/mine/")
	keys := s.keys(t, 100)
	body := encoded(t,
		`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 100) { edges { node { id code } } } } }`,
		map[string]any{"w": s.attacker.workspaceID})
	return attack{workers: 32, refusal: "RATE_LIMITED", strike: func(context.Context, int) (answer, error) {
		return keys[rand.IntN(len(keys))].post(body)
	}}
}

// manyInvitations invites strangers to fifteen workspaces, from an account with a verified address.
func manyInvitations(t *testing.T, s *scene) attack {
	workspaces := []string{s.attacker.workspaceID}
	for i := range 14 {
		workspaces = append(workspaces, s.attacker.newWorkspace(t, fmt.Sprint("attacker-", i)))
	}
	sent := s.mail.count()
	var stranger atomic.Int64
	return attack{
		workers: 16, refusal: "RATE_LIMITED",
		strike: func(context.Context, int) (answer, error) {
			n := stranger.Add(1)
			return s.attacker.run(
				`mutation ($in: InviteMemberInput!) { inviteMember(input: $in) { errors { code message } } }`,
				map[string]any{"in": map[string]any{"workspaceId": workspaces[int(n)%len(workspaces)],
					"email": fmt.Sprintf("stranger%d@example.org", n), "role": "VIEWER"}})
		},
		check: func(t *testing.T) {
			// Mail of another account is delivered meanwhile.
			began := time.Now()
			if err := (client{server: s.victim.server}).try(new(any), `mutation ($in: RequestPasswordResetInput!) {
				requestPasswordReset(input: $in) { errors { code } } }`,
				map[string]any{"in": map[string]any{"email": s.victim.email}}); err != nil {
				t.Error(err)
			}
			polltest.Until(t, "the victim's mail arrives",
				func() bool { return s.mail.has(s.victim.email, "/password#") })
			t.Logf("mails of the attacker: %d; the victim's reset arrived after %s", s.mail.to("stranger"),
				time.Since(began).Round(time.Millisecond))
			if n := s.mail.to("stranger"); n > 50 || s.mail.count() < sent {
				t.Errorf("%d invitations were sent", n)
			}
		},
	}
}

// manySockets opens WebSockets from one address without a token.
func manySockets(_ *testing.T, s *scene) attack {
	return attack{workers: 64, refusal: "RATE_LIMITED", strike: func(ctx context.Context, _ int) (answer, error) {
		return s.openSocket(ctx)
	}}
}

// openSocket opens a WebSocket that stays open until the context ends. It returns the refusal.
func (s *scene) openSocket(ctx context.Context) (answer, error) {
	conn, response, err := websocket.Dial(ctx, "ws://"+s.address+"/graphql", &websocket.DialOptions{
		Host: strings.TrimPrefix(s.public, "http://"), Subprotocols: []string{"graphql-transport-ws"},
		HTTPHeader: http.Header{"X-Forwarded-For": {"198.51.100.1"}},
	})
	if err == nil {
		go func() {
			<-ctx.Done()
			_ = conn.CloseNow()
		}()
		return answer{status: http.StatusSwitchingProtocols, header: http.Header{}}, nil
	}
	if response == nil {
		return answer{}, err
	}
	body, _ := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, nil
}

// manySubscriptions subscribes with 20 API keys of one workspace.
func manySubscriptions(t *testing.T, s *scene) attack {
	keys := s.keys(t, 20)
	body := encoded(t, linkClicked, watching(s.attacker.workspaceID, "", ""))
	return attack{workers: 32, refusal: "RATE_LIMITED", strike: func(ctx context.Context, _ int) (answer, error) {
		return s.subscribe(ctx, keys[rand.IntN(len(keys))], body)
	}}
}

// subscribe opens an event stream that stays open until the context ends. It returns the refusal.
func (s *scene) subscribe(ctx context.Context, c client, body []byte) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/graphql", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Host = strings.TrimPrefix(s.public, "http://")
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"},
		"Authorization": {"Bearer " + c.token}}
	response, err := c.http.Transport.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	if response.StatusCode == http.StatusOK {
		first, err := bufio.NewReader(response.Body).ReadString('\n')
		if strings.HasPrefix(first, "event: next") { // an error: a subscription begins with a comment
			rest, _ := io.ReadAll(response.Body)
			return answer{response.StatusCode, response.Header, string(rest)}, err
		}
		return answer{status: http.StatusOK, header: response.Header}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

const (
	// bodySize is that of the largest body.
	bodySize = 10 << 20
	// bodyDuration is how long a body takes, and bodyPause the time after it: 600 senders together send
	// up to 5 Gbit/s.
	bodyDuration = 10 * time.Second
	bodyPause    = 5 * time.Second
)

// slowBody is the content of a request that arrives in bodyDuration.
type slowBody struct {
	ctx  context.Context
	left *bytes.Reader
}

func (b slowBody) Read(p []byte) (int, error) {
	const parts = 200
	if err := poll.Wait(b.ctx, bodyDuration/parts); err != nil {
		return 0, err
	}
	return b.left.Read(p[:min(len(p), bodySize/parts)])
}

// bodiesAtOnce sends 600 bodies of 10 MiB at once.
func bodiesAtOnce(t *testing.T, s *scene) attack {
	body := encoded(t, `query ($x: String) { __typename @skip(if: false) }`,
		map[string]any{"x": strings.Repeat("x", bodySize-200)})
	process := s.process.Process.Pid
	return attack{
		workers: 600, refusal: "RATE_LIMITED",
		strike: func(ctx context.Context, _ int) (answer, error) {
			_ = poll.Wait(ctx, rand.N(bodyPause))
			a, err := s.attacker.postSlowly(ctx, body)
			_ = poll.Wait(ctx, rand.N(bodyPause))
			return a, err
		},
		check: func(t *testing.T) {
			peak := peakMemory(t, process)
			t.Logf("largest memory of the node: %d MiB", peak>>20)
			if peak > 1500<<20 {
				t.Errorf("the node used %d MiB", peak>>20)
			}
		},
	}
}

// postSlowly sends a body to the endpoint in bodyDuration.
func (c client) postSlowly(ctx context.Context, body []byte) (answer, error) {
	content := slowBody{ctx, bytes.NewReader(body)}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/graphql", content)
	if err != nil {
		return answer{}, err
	}
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/graphql-response+json")
	r.Header.Set("Authorization", "Bearer "+c.token)
	return c.send(r)
}

// peakMemory returns the largest resident size of a process so far.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc on this machine: %v", err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	must.NoError(t, err)
	return n << 10
}

// wrongPasswords guesses the victim's password from one address.
func wrongPasswords(t *testing.T, s *scene) attack {
	body := encoded(t, logIn,
		map[string]any{"in": map[string]any{"email": s.victim.email, "password": "a wrong guess"}})
	anonymous := client{server: s.attacker.server}
	return attack{
		workers: 8, refusal: "RATE_LIMITED",
		strike: func(context.Context, int) (answer, error) {
			a, err := anonymous.post(body)
			a.body = strings.ReplaceAll(a.body, `"code":"BAD_CREDENTIALS"`, "")
			return a, err
		},
		check: func(t *testing.T) {
			if err := s.victim.try(new(any), `mutation ($in: ExportMyDataInput!) {
				exportMyData(input: $in) { errors { code } }
			}`, map[string]any{"in": map[string]any{"password": s.victim.password}}); err != nil {
				t.Errorf("the owner's own password check: %v", err)
			}
		},
	}
}

// manyGates guesses the passwords of links of the victim and of the attacker, from networks of IPv4
// and IPv6 that change with each guess.
func manyGates(t *testing.T, s *scene) attack {
	own := s.attacker.gateMany(t, "https://example.com/mine/")
	guesser := s.fromEach(func() string {
		if rand.IntN(2) == 0 {
			return randomIPv4()
		}
		return fmt.Sprintf("2001:db8:%x:%x::1", rand.IntN(1<<16), rand.IntN(1<<16))
	})
	return attack{workers: 40, strike: func(_ context.Context, worker int) (answer, error) {
		l := own[rand.IntN(len(own))]
		if worker%2 == 0 {
			l = s.gated[0]
		}
		return guesser.get(l.path(s.server), "X-Link-Password", "a wrong guess")
	}}
}

// manyNewPasswords sets the passwords of 20 links with each of 40 API keys.
func manyNewPasswords(t *testing.T, s *scene) attack {
	own, keys := s.attacker.gateMany(t, "https://example.com/mine/"), s.keys(t, 40)
	var n atomic.Int64
	return attack{workers: 40, refusal: "RATE_LIMITED", strike: func(_ context.Context, worker int) (answer, error) {
		links, password := make([]any, len(own)), fmt.Sprint("password ", n.Add(1))
		for i, l := range own {
			links[i] = map[string]any{"id": l.ID, "routing": gatedBy(password)}
		}
		return keys[worker].run(`mutation ($in: UpdateLinksInput!) { updateLinks(input: $in) {
			errors { code message } results { errors { code message } } } }`, map[string]any{"in": map[string]any{
			"workspaceId": s.attacker.workspaceID, "links": links}})
	}}
}

// manyVisits follows one link of the victim from one address.
func manyVisits(_ *testing.T, s *scene) attack {
	return attack{workers: 16, refusal: "429", strike: func(context.Context, int) (answer, error) {
		return s.attacker.get(s.popular)
	}}
}

// manySlugs renames a workspace.
func manySlugs(t *testing.T, s *scene) attack {
	var n atomic.Int64
	return attack{
		workers: 8, refusal: "QUOTA_EXCEEDED",
		strike: func(context.Context, int) (answer, error) {
			return s.attacker.run(
				`mutation ($in: UpdateWorkspaceInput!) { updateWorkspace(input: $in) { errors { code } } }`,
				map[string]any{"in": map[string]any{"id": s.attacker.workspaceID,
					"slug": fmt.Sprint("squat-", n.Add(1))}})
		},
		check: func(t *testing.T) {
			d, err := s.backend.open()
			must.NoError(t, err)
			defer d.Close()
			slugs, err := d.NewSelect().Table("slugs").Where("slug LIKE 'squat-%'").Count(db.AsSystem(t.Context()))
			if err != nil || slugs == 0 || slugs > 10 {
				t.Errorf("%d slugs are taken, want up to 10: %v", slugs, err)
			}
		},
	}
}

// manyGuesses requests unknown codes from networks of one IPv6 /48.
func manyGuesses(_ *testing.T, s *scene) attack {
	guesser := s.fromEach(func() string {
		return fmt.Sprintf("2001:db8:1:%x::%x", rand.IntN(1<<16), rand.IntN(1<<16))
	})
	return attack{workers: 16, refusal: "429", strike: func(context.Context, int) (answer, error) {
		return guesser.get("/" + strconv.FormatInt(rand.Int64N(1<<40), 36))
	}}
}

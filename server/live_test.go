package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/proctest"
	"github.com/linkforge/linkforge/internal/suitetest"
)

// clickEvent is an event of a subscription.
type clickEvent struct {
	Data *struct {
		LinkClicked *struct {
			ID   string
			Link *struct{ ID string }
			Bot  bool
		}
		EventCommitted *loggedEvent
	}
	Errors []struct {
		Message    string
		Path       []any
		Extensions struct{ Code, After string }
	}
	// complete reports whether it is the last event.
	complete bool
}

func (e clickEvent) code() string {
	if len(e.Errors) == 0 {
		return ""
	}
	return e.Errors[0].Extensions.Code
}

// id returns the id of the click or event.
func (e clickEvent) id() string {
	if e.Data.EventCommitted != nil {
		return e.Data.EventCommitted.ID
	}
	return e.Data.LinkClicked.ID
}

// listener is a subscriber. next returns io.EOF when the connection has ended.
type listener struct {
	next  func() (clickEvent, error)
	close func()
}

const linkClicked = `subscription ($w: ID!, $l: ID, $a: ID) { linkClicked(workspaceId: $w, linkId: $l, after: $a) {
	id bot link { id } } }`

// ways are the transports.
var ways = map[string]func(ctx context.Context, c client, query string, variables map[string]any) (*listener, error){
	"events": listenToEvents, "socket": listenAtSocket,
}

// listen subscribes to clicks of the tenant's workspace; the link and the cursor may be empty.
func (w tenant) listen(t *testing.T, way, linkID, after string) *listener {
	t.Helper()
	return w.client.listen(t, way, linkClicked, watching(w.workspaceID, linkID, after))
}

func watching(workspaceID, linkID, after string) map[string]any {
	variables := map[string]any{"w": workspaceID}
	for name, value := range map[string]string{"l": linkID, "a": after} {
		if value != "" {
			variables[name] = value
		}
	}
	return variables
}

func (c client) listen(t *testing.T, way, query string, variables map[string]any) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l, err := ways[way](ctx, c, query, variables)
	if err != nil {
		cancel()
		t.Fatalf("subscribing by %s: %v", way, err)
	}
	t.Cleanup(cancel)
	return l
}

// listenToEvents subscribes by server-sent events. It returns once the subscription stands.
func listenToEvents(ctx context.Context, c client, query string, variables map[string]any) (*listener, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/graphql", bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	r.Host = strings.TrimPrefix(c.public, "http://")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := (&http.Client{Transport: c.http.Transport}).Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK ||
		kind != "text/event-stream; charset=utf-8" {
		cancel()
		return nil, fmt.Errorf("status %d, %s", response.StatusCode, kind)
	}
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	l := &listener{close: func() {
		cancel()
		response.Body.Close()
	}}
	l.next = func() (e clickEvent, err error) {
		for name := ""; ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return e, io.EOF
			}
			line = strings.TrimSuffix(line, "\n")
			switch data, isData := strings.CutPrefix(line, "data:"); {
			case strings.HasPrefix(line, "event: "):
				name = line[len("event: "):]
			case isData && name == "complete":
				return clickEvent{complete: true}, nil
			case isData:
				return e, json.Unmarshal([]byte(data), &e)
			}
		}
	}
	return l, nil
}

// listenAtSocket subscribes over a WebSocket, with a token in the connection parameters. It returns
// after the acknowledgement.
func listenAtSocket(ctx context.Context, c client, query string, variables map[string]any) (*listener, error) {
	conn, err := c.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	introduction := map[string]any{}
	if c.token != "" {
		introduction["authorization"] = "Bearer " + c.token
	}
	err = say(ctx, conn, map[string]any{"type": "connection_init", "payload": introduction})
	if err != nil {
		return nil, err
	}
	if _, answer, err := conn.Read(ctx); err != nil || !strings.Contains(string(answer), `"connection_ack"`) {
		return nil, fmt.Errorf("not let in: %s %w", answer, err)
	}
	err = say(ctx, conn, map[string]any{"type": "subscribe", "id": "one", "payload": map[string]any{"query": query,
		"variables": variables}})
	if err != nil {
		return nil, err
	}
	l := &listener{close: func() { _ = conn.Close(websocket.StatusNormalClosure, "") }}
	l.next = func() (e clickEvent, err error) {
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return e, errors.Join(io.EOF, err)
			}
			var m struct {
				ID, Type string
				Payload  json.RawMessage
			}
			if err := json.Unmarshal(data, &m); err != nil {
				return e, err
			}
			switch m.Type {
			case "pong":
			case "next":
				return e, json.Unmarshal(m.Payload, &e)
			case "error":
				return e, json.Unmarshal(m.Payload, &e.Errors)
			case "complete":
				return clickEvent{complete: true}, nil
			default:
				return e, fmt.Errorf("what is %s?", data)
			}
		}
	}
	return l, nil
}

// dial opens a WebSocket.
func (c client) dial(ctx context.Context, header http.Header) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+c.address+"/graphql", &websocket.DialOptions{
		Host: strings.TrimPrefix(c.public, "http://"), HTTPHeader: header, Subprotocols: []string{"graphql-transport-ws"},
	})
	if err == nil {
		conn.SetReadLimit(1 << 20)
	}
	return conn, err
}

func say(ctx context.Context, conn *websocket.Conn, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, data)
}

// receive reads n clicks, and returns their IDs.
func (l *listener) receive(t *testing.T, n int) (ids []string) {
	t.Helper()
	for len(ids) < n {
		e, err := l.next()
		if err != nil || e.complete || len(e.Errors) > 0 {
			t.Errorf("after %d clicks of %d: %+v: %v", len(ids), n, e, err)
			return ids
		}
		ids = append(ids, e.id())
	}
	return ids
}

// receiveEnd reads until the subscription ends with an error, and checks its code.
func (l *listener) receiveEnd(t *testing.T, code string) (ids []string, end clickEvent) {
	t.Helper()
	for {
		e, err := l.next()
		if err != nil || e.complete {
			t.Fatalf("the subscription ended without an error after %d clicks: %v", len(ids), err)
		}
		if len(e.Errors) > 0 {
			if e.code() != code {
				t.Errorf("the subscription ended with %+v, want %s", e.Errors, code)
			}
			return ids, e
		}
		ids = append(ids, e.id())
	}
}

// latest returns the ID of the workspace's newest click, after a number of clicks has arrived.
func (w tenant) latest(t *testing.T, clicks int) string {
	t.Helper()
	var got struct {
		Workspace struct {
			Clicks struct {
				Edges []struct{ Node struct{ ID string } }
			}
		}
	}
	polltest.Until(t, "the clicks are written", func() bool {
		w.must(t, &got, `query ($w: ID!, $n: Int!) { workspace(by: {id: $w}) { clicks(first: $n) { edges { node { id } }
			} } }`,
			map[string]any{"w": w.workspaceID, "n": clicks})
		return len(got.Workspace.Clicks.Edges) == clicks
	})
	return got.Workspace.Clicks.Edges[0].Node.ID
}

// follow requests a short URL.
func (s *server) follow(t *testing.T, path string) {
	t.Helper()
	if a, err := s.visitPath(path); err != nil || a.status != http.StatusFound {
		t.Errorf("%s: status %d: %v", path, a.status, err)
	}
}

// TestLinkClicked_DeliversClicks: subscribers at all nodes, over both transports, receive each click of their
// workspace once, in the same order, and no others. This holds for subscribers that reconnect
// repeatedly at other nodes, and while an earlier transaction delays later ones.
func TestLinkClicked_DeliversClicks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		subscribers, clicks := suitetest.Size(5, 10), suitetest.Size(180, 600)
		nodes := startAll(t, b, b.nodes, "LINKFORGE_HIT_QUOTA=1000000000")
		who, other := nodes[0].tenant(t, "listened"), nodes[0].tenant(t, "unheard")
		links := []linkView{who.shorten(t, "https://example.com/a").Link, who.shorten(t, "https://example.com/b").Link}
		foreign := other.shorten(t, "https://example.com/a").Link
		nodes[0].follow(t, links[0].path(nodes[0]))
		began := who.latest(t, 1)

		var listening sync.WaitGroup
		var mu sync.Mutex
		received := map[string][]string{}
		keep := func(name string, ids []string) {
			mu.Lock()
			defer mu.Unlock()
			received[name] = ids
		}
		names := []string{"events", "socket"}
		for i := range subscribers {
			linkID, want := "", 2*clicks/3
			if i%3 == 2 {
				linkID, want = links[0].ID, clicks/3
			}
			l := who.onServer(nodes[i/2%len(nodes)]).listen(t, names[i%2], linkID, began)
			listening.Go(func() { keep(fmt.Sprintf("%d %s", i, linkID), l.receive(t, want)) })
		}
		listening.Go(func() { // a subscriber whose connection is cut
			var ids []string
			for last, i := began, 0; len(ids) < 2*clicks/3 && !t.Failed(); i++ {
				l := who.onServer(nodes[i%len(nodes)]).listen(t, names[i/2%2], "", last)
				ids = append(ids, l.receive(t, min(1+clicks/10, 2*clicks/3-len(ids)))...)
				l.close()
				last = ids[len(ids)-1]
			}
			keep("again and again ", ids)
		})
		theirs := other.listen(t, "events", "", "")
		holdTransactions(t, b)
		var visiting sync.WaitGroup
		for i := range 6 {
			path, node := []linkView{links[0], links[1], foreign}[i%3].path(nodes[0]), nodes[i/3%len(nodes)]
			visiting.Go(func() {
				for range clicks / 6 {
					node.follow(t, path)
				}
			})
		}
		visiting.Wait()
		keep("foreign", theirs.receive(t, clicks/3))
		listening.Wait()

		whole := received["0 "]
		if distinct := slices.Compact(slices.Sorted(slices.Values(whole))); len(distinct) != 2*clicks/3 {
			t.Errorf("received %d distinct clicks, want %d", len(distinct), 2*clicks/3)
		}
		one := received["2 "+links[0].ID]
		for name, ids := range received {
			switch {
			case name == "foreign":
				if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(whole, id) }) {
					t.Error("a click was delivered to two workspaces")
				}
			case strings.HasSuffix(name, links[0].ID):
				if !slices.Equal(ids, one) {
					t.Errorf("%s: other clicks, or in another order", name)
				}
			case !slices.Equal(ids, whole):
				t.Errorf("%s: other clicks, or in another order", name)
			}
		}
		for _, id := range whole {
			if len(one) > 0 && one[0] == id {
				one = one[1:]
			}
		}
		if len(one) > 0 {
			t.Errorf("%d clicks of the link come in another order among all", len(one))
		}
	})
}

// holdTransactions holds transactions open at random times, if the database allows several at once.
func holdTransactions(t *testing.T, b backend) {
	t.Helper()
	d := must.Value(b.open())(t)
	ctx, cancel := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		holding.Wait()
		d.Close()
	})
	if d.Kind != db.Postgres {
		return
	}
	holding.Go(func() {
		for range 3 {
			_ = d.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT pg_current_xact_id(), pg_sleep(0.3)")
				return err
			})
		}
	})
}

// TestSubscription_EndsSlowReaders with a cursor to resume at. Other subscribers are not affected.
func TestSubscription_EndsSlowReaders(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		admin := proctest.FreeAddress()
		node := start(t, b, "LINKFORGE_HIT_QUOTA=1000000000", "LINKFORGE_ADMIN_LISTEN="+admin)
		who := node.tenant(t, "deaf")
		l := who.shorten(t, "https://example.com/loud").Link
		node.follow(t, l.path(node))
		began := who.latest(t, 1)
		var fat strings.Builder // an event that no buffer takes many of
		for i := range 90 {
			fmt.Fprintf(&fat, "%s%d: id ", strings.Repeat("x", 400), i)
		}
		query := strings.Replace(linkClicked, "{ id ", "{ id "+fat.String(), 1)
		deaf := map[string]*listener{}
		for way := range ways {
			deaf[way] = who.client.listen(t, way, query, watching(who.workspaceID, "", began))
		}
		awake := who.listen(t, "events", "", began)
		const clicks = 400
		var visiting sync.WaitGroup
		for range 4 {
			visiting.Go(func() {
				for range clicks / 4 {
					node.follow(t, l.path(node))
				}
			})
		}
		all := awake.receive(t, clicks)
		visiting.Wait()
		polltest.Until(t, "only who listens is still subscribed", func() bool { return subscribed(t, admin) == 1 })
		for way, l := range deaf {
			ids, end := l.receiveEnd(t, "TOO_SLOW")
			after := end.Errors[0].Extensions.After
			if len(ids) == 0 || after != ids[len(ids)-1] || !strings.Contains(end.Errors[0].Message, after) {
				t.Fatalf("%s: after %d clicks it is to go on after %q: %s", way, len(ids), after, end.Errors[0].Message)
			}
			t.Logf("%s: %d clicks were written before", way, len(ids))
			ids = append(ids, who.listen(t, way, "", after).receive(t, clicks-len(ids))...)
			if diff := cmp.Diff(all, ids); diff != "" {
				t.Errorf("%s: received clicks (-want +got):\n%s", way, diff)
			}
		}
	})
}

var subscriptions = regexp.MustCompile(`(?m)^linkforge_click_subscriptions (\d+)$`)

// subscribed is how many subscriptions a node has, by its own metrics.
func subscribed(t *testing.T, admin string) int {
	t.Helper()
	response := must.Value(http.Get("http://" + admin + "/metrics"))(t)
	defer response.Body.Close()
	text := must.Value(io.ReadAll(response.Body))(t)
	found := subscriptions.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%.1000s", text)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n
}

// TestSubscription_EndsWithItsAccess: it ends within seconds, with an error.
func TestSubscription_EndsWithItsAccess(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		here, there := nodes[0], nodes[len(nodes)-1]
		host, guest, gone, spare := here.tenant(t, "host"), here.tenant(t, "guest"), here.tenant(t, "gone"),
			here.tenant(t, "spare")
		l := host.shorten(t, "https://example.com/shared").Link
		var invited struct{ InviteMember struct{ Token string } }
		host.must(t, &invited, `mutation ($w: ID!, $e: EmailAddress!) { inviteMember(input: {workspaceId: $w, email: $e,
			role: VIEWER}) { token } }`,
			map[string]any{"w": host.workspaceID, "e": guest.email})
		guest.must(t, &struct{}{}, `mutation ($t: String!) { acceptInvitation(input: {token: $t}) { errors { code } }
			}`,
			map[string]any{"t": invited.InviteMember.Token})
		key, keyID := host.key(t, "STATS_READ", "LINKS_READ")
		key.server = there

		member := guest.client
		member.server = there
		byMember := member.listen(t, "socket", linkClicked, watching(host.workspaceID, l.ID, ""))
		byKey := key.listen(t, "events", linkClicked, watching(host.workspaceID, "", ""))
		byMore := key.listen(t, "socket", linkClicked, watching(host.workspaceID, "", ""))
		bySession := gone.onServer(there).listen(t, "events", "", "")
		byOwner := spare.onServer(there).listen(t, "socket", "", "")
		stays := host.onServer(there).listen(t, "events", "", "")
		began := time.Now()
		host.must(t, &struct{}{}, `mutation ($w: ID!, $u: ID!) { removeMember(input: {workspaceId: $w, userId: $u}) {
			errors { code } } }`,
			map[string]any{"w": host.workspaceID, "u": guest.id})
		host.must(t, &struct{}{}, `mutation ($id: ID!) { revokeApiKey(input: {id: $id}) { errors { code } } }`,
			map[string]any{"id": keyID})
		gone.must(t, &struct{}{}, `mutation { logout(input: {}) { errors { code } } }`, nil)
		spare.must(t, &struct{}{}, `mutation ($w: ID!) { deleteWorkspace(input: {id: $w}) { errors { code } } }`,
			map[string]any{"w": spare.workspaceID})
		byMember.receiveEnd(t, "NOT_FOUND")
		byKey.receiveEnd(t, "UNAUTHENTICATED")
		byMore.receiveEnd(t, "UNAUTHENTICATED")
		bySession.receiveEnd(t, "UNAUTHENTICATED")
		byOwner.receiveEnd(t, "NOT_FOUND")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		here.follow(t, l.path(here))
		stays.receive(t, 1)
	})
}

// TestSubscription_RefusesBadArguments, in the same words by either transport, and anything else is answered
// by both.
func TestSubscription_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		node := start(t, b)
		who, other := node.tenant(t, "own"), node.tenant(t, "foreign")
		own, foreign := who.shorten(t, "https://example.com/").Link, other.shorten(t, "https://example.com/").Link
		stranger, noStats := client{server: node}, client{}
		noStats, _ = who.key(t, "LINKS_READ")
		for name, c := range map[string]struct {
			client
			query     string
			variables map[string]any
			code      string
		}{
			"anonymous":     {stranger, linkClicked, watching(who.workspaceID, "", ""), "UNAUTHENTICATED"},
			"no scope":      {noStats, linkClicked, watching(who.workspaceID, own.ID, ""), "FORBIDDEN"},
			"foreign space": {who.client, linkClicked, watching(other.workspaceID, "", ""), "NOT_FOUND"},
			"unknown space": {who.client, linkClicked, watching("ws_01h455vb4pex5vsknk084sn02q", "", ""), "NOT_FOUND"},
			"foreign link":  {who.client, linkClicked, watching(who.workspaceID, foreign.ID, ""), "NOT_FOUND"},
			"unknown link": {who.client, linkClicked, watching(who.workspaceID, "lnk_01h455vb4pex5vsknk084sn02q", ""),
				"NOT_FOUND"},
			"no cursor": {who.client, linkClicked, watching(who.workspaceID, "", "soon"), "INVALID_INPUT"},
			"unknown cursor": {who.client, linkClicked, watching(who.workspaceID, "", "clk_01h455vb4pex5vsknk084sn02q"),
				"EXPIRED"},
			"no document": {who.client, "subscription {", nil, "BAD_REQUEST"},
			"the schema":  {who.client, "subscription { __typename }", nil, "BAD_REQUEST"},
			"nothing": {who.client, `subscription ($w: ID!) { linkClicked(workspaceId: $w) @skip(if: true) { id } }`,
				watching(who.workspaceID, "", ""), "BAD_REQUEST"},
			"too dear": {who.client, `subscription ($w: ID!) { linkClicked(workspaceId: $w) { link { clicks(first: 50) {
				edges { node { id at } } } } } }`,
				watching(who.workspaceID, "", ""), "COMPLEXITY_LIMIT_EXCEEDED"},
		} {
			for way := range ways {
				t.Run(name+" "+way, func(t *testing.T) {
					if _, end := c.listen(t, way, c.query, c.variables).receiveEnd(t, c.code); end.Data != nil ||
						end.Errors[0].Message == "" {
						t.Errorf("%+v", end)
					}
				})
			}
		}
		for way := range ways {
			l := who.client.listen(t, way, "{ __typename }", nil)
			if e, err := l.next(); err != nil || e.Data == nil || len(e.Errors) > 0 {
				t.Errorf("a query by %s: %+v: %v", way, e, err)
			}
			if e, err := l.next(); err != nil || !e.complete {
				t.Errorf("a query by %s does not end: %+v: %v", way, e, err)
			}
		}
		body, _ := json.Marshal(map[string]any{"query": linkClicked, "variables": watching(who.workspaceID, "", "")})
		for _, accept := range []string{"application/json", "application/graphql-response+json"} {
			if a, err := who.post(body, "Accept", accept); err != nil || a.status != http.StatusBadRequest ||
				a.code() != "BAD_REQUEST" || !strings.Contains(a.body, "text/event-stream") {
				t.Errorf("a subscription by POST: status %d, %s: %v", a.status, a.body, err)
			}
		}
		if a, err := who.get("/graphql?query=subscription{linkClicked(workspaceId:%22x%22){id}}"); err != nil ||
			a.status != http.StatusMethodNotAllowed || !strings.Contains(a.body, "WebSocket") {
			t.Errorf("a subscription by GET: status %d, %s: %v", a.status, a.body, err)
		}
		if a, err := who.post([]byte(`{"query": "{ __typename }"}`), "Accept",
			"text/event-stream, application/json"); err != nil ||
			a.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("a query that may be answered by JSON: %+v: %v", a, err)
		}
		testSocketManners(t, who)
	})
}

// testSocketManners violates the protocol.
func testSocketManners(t *testing.T, who tenant) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hello := `{"type": "connection_init"}`
	for name, c := range map[string]struct {
		said []string
		code websocket.StatusCode
	}{
		"no introduction": {[]string{`{"type": "subscribe", "id": "a", "payload": {"query": "{ __typename }"}}`}, 4401},
		"a bad token": {[]string{`{"type": "connection_init", "payload": {"authorization":
			"Bearer nonsense"}}`}, 4403},
		"a bad token, capitalized": {
			[]string{`{"type": "connection_init", "payload": {"Authorization": "Bearer nonsense"}}`}, 4403,
		},
		"a token that is a number": {[]string{`{"type": "connection_init", "payload": {"authorization": 5}}`}, 4400},
		"both names of the token": {[]string{`{"type": "connection_init", "payload": {
			"authorization": "Bearer nonsense", "Authorization": "Bearer ` + who.token + `"}}`}, 4403},
		"type in capitals":    {[]string{`{"TYPE": "connection_init"}`}, 4400},
		"payload in capitals": {[]string{hello, strings.Replace(standing(who, "a"), "payload", "PAYLOAD", 1)}, 4400},
		"id in capitals":      {[]string{hello, strings.Replace(standing(who, "a"), `"id"`, `"ID"`, 1)}, 4400},
		"twice":               {[]string{hello, hello}, 4429},
		"no JSON":             {[]string{`hello`}, 4400},
		"no type":             {[]string{hello, `{"type": "shout"}`}, 4400},
		"no payload":          {[]string{hello, `{"type": "subscribe", "id": "a"}`}, 4400},
		"one id":              {[]string{hello, standing(who, "a"), standing(who, "a")}, 4409},
		"too long":            {[]string{strings.Repeat(" ", 300<<10) + hello}, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := who.dial(ctx, http.Header{"Authorization": {"Bearer " + who.token}})
			must.NoError(t, err)
			for _, text := range c.said {
				_ = conn.Write(ctx, websocket.MessageText, []byte(text)) // it may have been closed
			}
			for err == nil {
				_, _, err = conn.Read(ctx)
			}
			if code := websocket.CloseStatus(err); code != c.code {
				t.Errorf("closed with %d, want %d: %v", code, c.code, err)
			}
		})
	}
	for origin, allowed := range map[string]bool{who.public: true, "https://evil.example": false, "null": false,
		"https://localhost": true} {
		conn, err := who.dial(ctx, http.Header{"Origin": {origin}})
		if (err == nil) != allowed {
			t.Errorf("a page of %s: %v", origin, err)
		}
		if err == nil {
			conn.CloseNow()
		}
	}
}

// standing is a subscription that stays.
func standing(who tenant, id string) string {
	text, _ := json.Marshal(map[string]any{"type": "subscribe", "id": id, "payload": map[string]any{
		"query": linkClicked, "variables": watching(who.workspaceID, "", "")}})
	return string(text)
}

// TestSubscription_EndsOnShutdown at once, and without a completion.
func TestSubscription_EndsOnShutdown(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		node := start(t, b)
		who := node.tenant(t, "stopping")
		// many, because a wrong completion would be sent only sometimes
		byEvents, bySocket := who.listen(t, "events", "", ""), make([]*listener, 20)
		for i := range bySocket {
			bySocket[i] = who.listen(t, "socket", "", "")
		}
		l := who.shorten(t, "https://example.com/").Link
		node.follow(t, l.path(node))
		byEvents.receive(t, 1)
		began := time.Now()
		node.terminate()
		node.awaitExit()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s to stop", took)
		}
		for _, l := range bySocket {
			e, err := l.next()
			for ; err == nil; e, err = l.next() {
				if e.complete || len(e.Errors) > 0 {
					t.Errorf("a socket received %+v", e)
				}
			}
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("a socket ended with %v", err)
			}
		}
		if e, err := byEvents.next(); !errors.Is(err, io.EOF) {
			t.Errorf("the events ended with %+v: %v", e, err)
		}
	})
}

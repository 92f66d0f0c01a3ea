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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
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
		// CreateLink and CreateAPIKey are payloads of mutations.
		CreateLink   *struct{ Link *struct{ Code string } }
		CreateAPIKey *struct{ Secret string }
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
	r, err := c.operation(ctx, bytes.NewReader(body), mediaEvents)
	if err != nil {
		cancel()
		return nil, err
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

// dial opens a WebSocket with a protocol, that of subscriptions by default.
func (c client) dial(ctx context.Context, header http.Header, protocols ...string) (*websocket.Conn, error) {
	if len(protocols) == 0 {
		protocols = []string{"graphql-transport-ws"}
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+c.address+"/graphql", &websocket.DialOptions{
		Host: strings.TrimPrefix(c.public, "http://"), HTTPHeader: header, Subprotocols: protocols,
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

// follow requests a short URL.
func (s *server) follow(t *testing.T, path string) {
	t.Helper()
	if a, err := s.visitPath(path); err != nil || a.status != http.StatusFound {
		t.Errorf("%s: status %d: %v", path, a.status, err)
	}
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
		awake := who.listen(t, "events", "", "")
		node.follow(t, l.path(node))
		began := awake.receive(t, 1)[0]
		var long, many strings.Builder // an event that no buffer takes many of
		for i := range 12 {
			fmt.Fprintf(&long, "%s%d: id ", strings.Repeat("x", 3000), i)
		}
		for i := range 7 {
			fmt.Fprintf(&many, "link%d: link { ...Long } ", i)
		}
		query := strings.Replace(linkClicked, "bot ", "bot "+many.String(), 1) +
			" fragment Long on Link { " + long.String() + "}"
		deaf := map[string]*listener{}
		for way := range ways {
			deaf[way] = who.client.listen(t, way, query, watching(who.workspaceID, "", began))
		}
		const clicks = 40 // soon, because who does not read answers no pings
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
		polltest.Until(t, "only who listens is still subscribed", func() bool {
			return metric(t, admin, "linkforge_click_subscriptions") == "1"
		})
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

// TestMutations_KeepWhatSucceeded: beside a mutation that is forbidden, by each transport.
func TestMutations_KeepWhatSucceeded(t *testing.T) {
	t.Parallel()
	const both = `mutation ($w: ID!) {
		createLink(input: {workspaceId: $w, url: "https://example.com/", strategy: RANDOM}) { link { code } }
		createApiKey(input: {workspaceId: $w, name: "k", scopes: [LINKS_READ]}) { secret } }`
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, 1)[0]
		host, guest := s.tenant(t, "host"), s.tenant(t, "guest")
		host.admit(t, guest, "EDITOR")
		variables := map[string]any{"w": host.workspaceID}
		for _, way := range []string{"request", "events", "socket"} {
			var got clickEvent
			if way == "request" {
				a := must.Value(guest.run(both, variables))(t)
				must.NoError(t, json.Unmarshal([]byte(a.body), &got))
			} else {
				got = must.Value(guest.client.listen(t, way, both, variables).next())(t)
			}
			d := got.Data
			if d == nil || d.CreateLink == nil || d.CreateLink.Link.Code == "" || d.CreateAPIKey != nil ||
				got.code() != "FORBIDDEN" || fmt.Sprint(got.Errors[0].Path) != "[createApiKey]" {
				t.Errorf("%s: %+v", way, got)
			}
		}
	})
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
		host.admit(t, guest, "VIEWER")
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
		host.do(t, "removeMember", map[string]any{"workspaceId": host.workspaceID, "userId": guest.id})
		host.do(t, "revokeApiKey", map[string]any{"id": keyID})
		gone.must(t, &struct{}{}, `mutation { logout(input: {}) { errors { code } } }`, nil)
		spare.do(t, "deleteWorkspace", map[string]any{"id": spare.workspaceID})
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

// TestWebSocket_ClosesOnViolations of the protocol, and of tokens, with the codes of the protocol.
func TestWebSocket_ClosesOnViolations(t *testing.T) {
	t.Parallel()
	who := start(t, embedded(t)).tenant(t, "mannered")
	const hello, protocol = `{"type": "connection_init"}`, "graphql-transport-ws"
	withToken := func(member string) string { return `{"type": "connection_init", "payload": {` + member + `}}` }
	for name, c := range map[string]struct {
		protocol string
		said     []string
		code     websocket.StatusCode
	}{
		"another protocol": {"graphql-ws", []string{hello}, 4406},
		"nothing is said":  {protocol, nil, 4408},
		"only a ping":      {protocol, []string{`{"type": "ping"}`}, 4408},
		"no introduction": {protocol,
			[]string{`{"type": "subscribe", "id": "a", "payload": {"query": "{ __typename }"}}`}, 4401},
		"a bad token":              {protocol, []string{withToken(`"authorization": "Bearer nonsense"`)}, 4403},
		"a bad token, capitalized": {protocol, []string{withToken(`"Authorization": "Bearer nonsense"`)}, 4403},
		"a token that is a number": {protocol, []string{withToken(`"authorization": 5`)}, 4400},
		"both names of the token": {protocol, []string{withToken(`"authorization": "Bearer nonsense",
			"Authorization": "Bearer ` + who.token + `"`)}, 4403},
		"twice":      {protocol, []string{hello, hello}, 4429},
		"no JSON":    {protocol, []string{`hello`}, 4400},
		"no type":    {protocol, []string{hello, `{"type": "shout"}`}, 4400},
		"no payload": {protocol, []string{hello, `{"type": "subscribe", "id": "a"}`}, 4400},
		"one id":     {protocol, []string{hello, standing(who, "a"), standing(who, "a")}, 4409},
		"too long":   {protocol, []string{strings.Repeat(" ", 300<<10) + hello}, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conn, err := who.dial(ctx, http.Header{"Authorization": {"Bearer " + who.token}}, c.protocol)
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

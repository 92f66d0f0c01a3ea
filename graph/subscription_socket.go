package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/errs"
)

const (
	// protocol is the only one that is spoken (https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md).
	protocol = "graphql-transport-ws"
	// initWithin is how long a client may take to introduce itself, pongWithin how long to say that it is there.
	initWithin = 10 * time.Second
	pongWithin = 10 * time.Second
	// closeWithin is how long a client may take to agree to the end.
	closeWithin = time.Second
	// maxOperations bounds what the client may ask for at once.
	maxOperations = 100
	// maxSockets bounds the connections of a node.
	maxSockets = 5000
)

// The codes with which the protocol ends a connection.
const (
	closeBadMessage   websocket.StatusCode = 4400
	closeUnauthorized websocket.StatusCode = 4401
	closeForbidden    websocket.StatusCode = 4403
	closeBadProtocol  websocket.StatusCode = 4406
	closeInitTimeout  websocket.StatusCode = 4408
	closeDuplicate    websocket.StatusCode = 4409
	closeInitAgain    websocket.StatusCode = 4429
)

// message is what both sides send.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// unmarshal reads what a client has sent.
func (m *message) unmarshal(body []byte) error {
	return unmarshalObject(body, map[string]any{"id": &m.ID, "type": &m.Type, "payload": &m.Payload})
}

// socket is a client's connection.
type socket struct {
	*Endpoint
	conn *websocket.Conn
	// requestID is that of the request which has opened it.
	requestID string
	// authorization is what the client has introduced itself with; ready says that it has.
	authorization string
	ready         bool

	running    sync.WaitGroup
	mu         sync.Mutex
	operations map[string]*context.CancelFunc // by id
}

func wantsSocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool { return strings.EqualFold(v, "websocket") })
}

// serveSocket answers operations over a WebSocket until one of both sides ends it.
func (e *Endpoint) serveSocket(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Get("Authorization")
	ctx, cancelled := context.WithTimeout(r.Context(), e.Bounds.Deadline)
	defer cancelled()
	ctx, wrong := e.Accounts.Authenticate(ctx, authorization)
	if err := e.charge(ctx, w.Header()); err != nil {
		e.refuse(r.Context(), w, mediaJSON, http.StatusTooManyRequests, err)
		return
	}
	if wrong != nil {
		e.refuse(r.Context(), w, mediaJSON, errs.From(wrong).Kind.Status(), wrong)
		return
	}
	if !e.Origins.Allow(r) { // https://www.rfc-editor.org/rfc/rfc6455#section-10.2
		e.refuse(r.Context(), w, mediaJSON, http.StatusForbidden, errs.New(errs.Forbidden,
			"Pages of this origin may not connect: it must be of one of this server's hosts, or in LINKFORGE_ORIGINS."))
		return
	}
	leave, err := e.sockets.take("")
	if err != nil {
		e.refuse(r.Context(), w, mediaJSON, errs.From(err).Kind.Status(), err)
		return
	}
	defer leave()
	// The origin has been checked. Deadlines of the server end here.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		return // which Accept has told the client
	}
	conn.SetReadLimit(int64(e.Bounds.AnonymousBody))
	s := &socket{
		Endpoint: e, conn: conn, requestID: r.Header.Get("X-Request-Id"), authorization: authorization, operations: map[string]*context.CancelFunc{},
	}
	s.serve(context.WithoutCancel(r.Context()))
}

// serve reads messages until the connection ends, and then ends what goes on.
func (s *socket) serve(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer s.running.Wait()
	defer end()
	defer s.conn.CloseNow()
	if s.conn.Subprotocol() != protocol {
		s.close(closeBadProtocol, "Subprotocol not acceptable")
		return
	}
	late := time.AfterFunc(initWithin, func() { s.close(closeInitTimeout, "Connection initialisation timeout") })
	defer late.Stop()
	stop := context.AfterFunc(s.ending, func() { s.close(websocket.StatusGoingAway, "The server is stopping") })
	defer stop()
	s.running.Go(func() { s.ping(ctx) })
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		var m message
		if kind != websocket.MessageText || m.unmarshal(data) != nil {
			s.close(closeBadMessage, "Invalid message received")
			return
		}
		if code, reason := s.receive(ctx, m); code != 0 {
			s.close(code, reason)
			return
		}
		if s.ready {
			late.Stop()
		}
	}
}

// close says why the connection ends, and does not wait for long until the client has heard it.
func (s *socket) close(code websocket.StatusCode, reason string) {
	stop := time.AfterFunc(closeWithin, func() { _ = s.conn.CloseNow() })
	defer stop.Stop()
	_ = s.conn.Close(code, reason)
}

// ping finds out whether the client is there still. Browsers answer by themselves.
func (s *socket) ping(ctx context.Context) {
	ticker := time.NewTicker(heardEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			waiting, cancel := context.WithTimeout(ctx, pongWithin)
			err := s.conn.Ping(waiting)
			cancel()
			if err != nil {
				_ = s.conn.CloseNow()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// receive does what a message says. A code ends the connection.
func (s *socket) receive(ctx context.Context, m message) (code websocket.StatusCode, reason string) {
	switch m.Type {
	case "connection_init":
		return s.init(ctx, m.Payload)
	case "ping":
		s.send(message{Type: "pong"})
	case "pong":
	case "subscribe":
		return s.subscribe(ctx, m)
	case "complete":
		if m.ID == "" {
			return closeBadMessage, "Invalid message received"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.operations[m.ID]; cancel != nil {
			(*cancel)()
			delete(s.operations, m.ID)
		}
	default:
		return closeBadMessage, "Invalid message received"
	}
	return 0, ""
}

// init takes the client's introduction, which may be an authorization: browsers can send no header.
func (s *socket) init(ctx context.Context, payload json.RawMessage) (code websocket.StatusCode, reason string) {
	if s.ready {
		return closeInitAgain, "Too many initialisation requests"
	}
	var lower, upper string
	names := map[string]any{"authorization": &lower, "Authorization": &upper}
	if len(payload) > 0 && unmarshalObject(payload, names) != nil {
		return closeBadMessage, "Invalid message received"
	}
	s.authorization = cmp.Or(lower, upper, s.authorization)
	ctx, cancel := context.WithTimeout(ctx, proofDeadline)
	defer cancel()
	if _, err := s.Accounts.Authenticate(ctx, s.authorization); err != nil {
		return closeForbidden, "Forbidden"
	}
	s.ready = true
	s.send(message{Type: "connection_ack"})
	return 0, ""
}

// subscribe begins an operation.
func (s *socket) subscribe(ctx context.Context, m message) (code websocket.StatusCode, reason string) {
	if !s.ready {
		return closeUnauthorized, "Unauthorized"
	}
	var p params
	if m.ID == "" || len(m.Payload) == 0 || checkValues(m.Payload, s.Bounds.Values) != nil || p.unmarshal(m.Payload) != nil {
		return closeBadMessage, "Invalid message received"
	}
	ctx, cancel := s.whileServing(ctx)
	known, room := s.remember(m.ID, &cancel)
	if known || !room {
		cancel()
	}
	if known {
		return closeDuplicate, fmt.Sprintf("Subscriber for %.80s already exists", m.ID)
	}
	if !room {
		err := errs.New(errs.RateLimited, "These are too many operations at once: a connection may have %d.", maxOperations)
		s.fail(m.ID, gqlerror.List{s.present(ctx, err)})
		return 0, ""
	}
	s.running.Go(func() {
		defer cancel()
		operation, ended := s.operate(ctx, &p, func(answer result) error { return s.sendJSON(m.ID, "next", answer) })
		switch {
		case !s.forget(m.ID, &cancel): // the client has ended it
		case s.cutShort(operation, ended): // as the connection's end says
		case len(ended) > 0:
			s.fail(m.ID, ended)
		default:
			s.send(message{ID: m.ID, Type: "complete"})
		}
	})
	return 0, ""
}

// remember keeps how an operation is ended. It does not when there is one with the id, or no room for another.
func (s *socket) remember(operationID string, cancel *context.CancelFunc) (known, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations[operationID] != nil {
		return true, false
	}
	if len(s.operations) >= maxOperations {
		return false, false
	}
	s.operations[operationID] = cancel
	return false, true
}

// forget makes room for another operation with the id, and reports whether this one had it still.
func (s *socket) forget(operationID string, own *context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations[operationID] != own {
		return false
	}
	delete(s.operations, operationID)
	return true
}

// operate does for an operation what ServeHTTP does for a request. The operation is nil when there is none to execute.
func (s *socket) operate(ctx context.Context, p *params, send func(result) error) (operation *graphql.OperationContext, ended gqlerror.List) {
	ctx, end := s.observe(ctx, s.requestID)
	defer end()
	defer func() { observedIn(ctx).answered(ended, nil) }()
	defer func() {
		if value := recover(); value != nil {
			ended = gqlerror.List{s.present(context.Background(), panicked{value})}
		}
	}()
	proving, cancel := context.WithTimeout(ctx, s.Bounds.Deadline)
	defer cancel()
	proved, err := s.Accounts.Authenticate(proving, s.authorization)
	if err == nil {
		err = s.charge(proved, http.Header{})
	}
	if err != nil {
		return nil, gqlerror.List{s.present(ctx, err)}
	}
	operation, problems, err := s.prepare(proved, p)
	if err != nil {
		return nil, gqlerror.List{s.present(ctx, err)}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return operation, s.answerAll(lasting(ctx, proved), s.authorization, operation, func() {}, send)
}

func (s *socket) fail(operationID string, ended gqlerror.List) {
	_ = s.sendJSON(operationID, "error", ended)
}

func (s *socket) sendJSON(operationID, kind string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(err) // the executor's own JSON does not parse
	}
	return s.trySend(message{ID: operationID, Type: kind, Payload: data})
}

func (s *socket) send(m message) { _ = s.trySend(m) } // a client that has gone cannot be told

// trySend sends a message. A client that does not take it in time loses the connection.
func (s *socket) trySend(m message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writtenWithin)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, data)
}

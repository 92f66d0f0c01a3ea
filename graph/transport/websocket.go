package transport

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
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	// protocol is the only supported one
	// (https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md).
	protocol = "graphql-transport-ws"
	// initTimeout bounds the wait for connection_init, pongTimeout that for a pong, closeTimeout
	// that for a close frame.
	initTimeout  = 10 * time.Second
	pongTimeout  = 10 * time.Second
	closeTimeout = time.Second
	// authTimeout bounds the authentication of connection_init.
	authTimeout = 5 * time.Second
	// idleTimeout bounds the time of a connection without an operation.
	idleTimeout = time.Minute
	// maxOperations bounds the concurrent operations of a connection, maxSockets the connections of
	// a node, maxSocketsOfCaller and maxSocketsOfGroup those of one caller and one group at a node.
	maxOperations      = 100
	maxSockets         = 5000
	maxSocketsOfCaller = 200
	maxSocketsOfGroup  = 500
)

// invalidMessage is the reason of closeBadMessage.
const invalidMessage = "Invalid message received"

// invalidEncoding is the reason of closeBadMessage, and of the code of RFC 6455 for text that is
// not UTF-8.
const invalidEncoding = "Invalid message received: it must be UTF-8, without one surrogate alone"

// The close codes of the protocol.
const (
	closeBadMessage   websocket.StatusCode = 4400
	closeUnauthorized websocket.StatusCode = 4401
	closeForbidden    websocket.StatusCode = 4403
	closeBadProtocol  websocket.StatusCode = 4406
	closeInitTimeout  websocket.StatusCode = 4408
	closeDuplicate    websocket.StatusCode = 4409
	closeInitAgain    websocket.StatusCode = 4429
)

// message is a message of either side.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (m *message) unmarshal(body []byte) error {
	return unmarshalObject(body, map[string]any{"id": &m.ID, "type": &m.Type, "payload": &m.Payload})
}

// socket is a client's connection.
type socket struct {
	*Handler
	conn *websocket.Conn
	// requestID is that of the HTTP request.
	requestID string
	// authorization is that of connection_init or the HTTP request; ready is true after
	// connection_init.
	authorization string
	ready         bool

	running    sync.WaitGroup
	mu         sync.Mutex
	operations map[string]*context.CancelFunc // by ID
	idle       *time.Timer                    // closes the connection while there are none
}

func isWebSocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool {
		return strings.EqualFold(v, "websocket")
	})
}

// serveSocket serves operations over a WebSocket until either side ends it.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	if err := checkParts(r); err != nil {
		h.refuse(r.Context(), w, mediaJSON, http.StatusBadRequest, err)
		return
	}
	authorization := r.Header.Get("Authorization")
	ctx, cancel := context.WithTimeout(r.Context(), h.config.Bounds.Deadline)
	defer cancel()
	caller, status, err := h.authenticate(ctx, w.Header(), authorization)
	if err != nil {
		h.refuse(r.Context(), w, mediaJSON, status, err)
		return
	}
	if !h.config.Origins.Allow(r) { // https://www.rfc-editor.org/rfc/rfc6455#section-10.2
		h.refuse(r.Context(), w, mediaJSON, http.StatusForbidden, errs.New(errs.Forbidden,
			"Pages of this origin may not connect: it must be of one of this server's hosts, or in LINKFORGE_ORIGINS."))
		return
	}
	release, err := h.sockets.acquire(caller)
	if err != nil {
		h.refuse(r.Context(), w, mediaJSON, errs.From(err).Kind.Status(), err)
		return
	}
	defer release()
	// Accept hijacks the connection, without the server's deadlines. The origin has been checked.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{protocol}, InsecureSkipVerify: true,
	})
	if err != nil {
		return // Accept has responded
	}
	conn.SetReadLimit(MaxAnonymousBody)
	s := &socket{
		Handler: h, conn: conn, requestID: r.Header.Get("X-Request-Id"), authorization: authorization,
		operations: map[string]*context.CancelFunc{},
	}
	s.serve(context.WithoutCancel(r.Context()))
}

// serve reads messages until the connection ends, and then ends its operations.
func (s *socket) serve(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer s.running.Wait()
	defer end()
	defer s.conn.CloseNow()
	if s.conn.Subprotocol() != protocol {
		s.close(closeBadProtocol, "Subprotocol not acceptable")
		return
	}
	late := time.AfterFunc(initTimeout, func() { s.close(closeInitTimeout, "Connection initialisation timeout") })
	defer late.Stop()
	s.idle = time.AfterFunc(idleTimeout, func() { s.close(websocket.StatusNormalClosure, "No operation for a minute") })
	defer s.idle.Stop()
	stop := context.AfterFunc(s.stopping, func() { s.close(websocket.StatusGoingAway, "The server is stopping") })
	defer stop()
	s.running.Go(func() { s.ping(ctx) })
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageText && !utf8.Valid(data) {
			s.close(websocket.StatusInvalidFramePayloadData, invalidEncoding)
			return
		}
		if data = validate.WithoutMark(data); !validate.IsJSONText(data) {
			s.close(closeBadMessage, invalidEncoding)
			return
		}
		var m message
		if kind != websocket.MessageText || m.unmarshal(data) != nil {
			s.close(closeBadMessage, invalidMessage)
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

// close closes the connection with a code, and waits briefly for the client's close frame.
func (s *socket) close(code websocket.StatusCode, reason string) {
	stop := time.AfterFunc(closeTimeout, func() { _ = s.conn.CloseNow() })
	defer stop.Stop()
	_ = s.conn.Close(code, reason)
}

// ping closes the connection when the client stops responding. Browsers respond to pings by
// themselves.
func (s *socket) ping(ctx context.Context) {
	err := heartbeat(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, pongTimeout)
		defer cancel()
		return s.conn.Ping(ctx)
	})
	if err != nil {
		_ = s.conn.CloseNow()
	}
}

// receive processes a message. A code ends the connection.
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
			return closeBadMessage, invalidMessage
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.operations[m.ID]; cancel != nil {
			(*cancel)()
			s.delete(m.ID)
		}
	default:
		return closeBadMessage, invalidMessage
	}
	return 0, ""
}

// init processes connection_init, whose payload may have an authorization: browsers cannot send it
// as a header.
func (s *socket) init(ctx context.Context, payload json.RawMessage) (code websocket.StatusCode, reason string) {
	if s.ready {
		return closeInitAgain, "Too many initialisation requests"
	}
	var lower, upper string
	names := map[string]any{"authorization": &lower, "Authorization": &upper}
	if len(payload) > 0 && unmarshalObject(payload, names) != nil {
		return closeBadMessage, invalidMessage
	}
	s.authorization = cmp.Or(lower, upper, s.authorization)
	ctx, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	if _, err := s.config.Authenticate(ctx, s.authorization); err != nil {
		return closeForbidden, "Forbidden"
	}
	s.ready = true
	s.send(message{Type: "connection_ack"})
	return 0, ""
}

// subscribe starts an operation.
func (s *socket) subscribe(ctx context.Context, m message) (code websocket.StatusCode, reason string) {
	if !s.ready {
		return closeUnauthorized, "Unauthorized"
	}
	var p params
	if m.ID == "" || len(m.Payload) == 0 || limit.CheckValues(m.Payload, s.config.Maxima.Values) != nil ||
		p.unmarshal(m.Payload) != nil {
		return closeBadMessage, invalidMessage
	}
	if checkDocument(p.Query) != nil {
		return closeBadMessage, invalidEncoding
	}
	ctx, cancel := s.whileServing(ctx)
	duplicate, added := s.add(m.ID, &cancel)
	if !added {
		cancel()
	}
	if duplicate {
		return closeDuplicate, fmt.Sprintf("Subscriber for %.80s already exists", m.ID)
	}
	if !added {
		err := errs.New(errs.RateLimited,
			"Too many concurrent operations on this connection. The maximum is %d.", maxOperations)
		s.fail(m.ID, gqlerror.List{s.present(ctx, err)})
		return 0, ""
	}
	s.running.Go(func() {
		defer cancel()
		operation, ended := s.operate(ctx, &p, func(answer result) error { return s.sendJSON(m.ID, "next", answer) })
		switch {
		case !s.remove(m.ID, &cancel): // the client has completed it
		case s.interrupted(operation, ended): // the connection's close frame informs the client
		case len(ended) > 0:
			s.fail(m.ID, ended)
		default:
			s.send(message{ID: m.ID, Type: "complete"})
		}
	})
	return 0, ""
}

// add registers an operation, unless its ID is in use or there are too many.
func (s *socket) add(operationID string, cancel *context.CancelFunc) (duplicate, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations[operationID] != nil {
		return true, false
	}
	if len(s.operations) >= maxOperations {
		return false, false
	}
	s.operations[operationID] = cancel
	s.idle.Stop()
	return false, true
}

// remove reports whether an operation was still registered.
func (s *socket) remove(operationID string, own *context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations[operationID] != own {
		return false
	}
	s.delete(operationID)
	return true
}

// delete removes an operation. Without any, the connection is idle.
func (s *socket) delete(operationID string) {
	delete(s.operations, operationID)
	if len(s.operations) == 0 {
		s.idle.Reset(idleTimeout)
	}
}

// operate does for an operation what ServeHTTP does for a request. The operation is nil if it was
// not executed.
func (s *socket) operate(
	ctx context.Context, p *params, send func(result) error,
) (operation *graphql.OperationContext, ended gqlerror.List) {
	ctx, end := s.observe(ctx, s.requestID)
	defer end()
	defer func() { observedIn(ctx).finished(ended, nil) }()
	defer s.recoverWith(&ended)
	preparing, cancel := context.WithTimeout(ctx, s.config.Bounds.Deadline)
	defer cancel()
	caller, _, err := s.authenticate(preparing, http.Header{}, s.authorization)
	if err != nil {
		return nil, gqlerror.List{s.present(ctx, err)}
	}
	operation, problems, err := s.prepare(caller.attach(preparing), p)
	if err != nil {
		return nil, gqlerror.List{s.present(ctx, err)}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return operation, s.respond(caller.attach(ctx), s.authorization, operation, func() {}, send)
}

func (s *socket) fail(operationID string, ended gqlerror.List) {
	_ = s.sendJSON(operationID, "error", ended)
}

func (s *socket) sendJSON(operationID, kind string, payload any) error {
	return s.trySend(message{ID: operationID, Type: kind, Payload: mustMarshal(payload)})
}

func (s *socket) send(m message) { _ = s.trySend(m) } // the client may be gone

// trySend sends a message. A client that does not read it within the deadline loses the connection.
func (s *socket) trySend(m message) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeDeadline)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, mustMarshal(m))
}

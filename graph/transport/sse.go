package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// serveEvents responds with server-sent events, in distinct connections mode
// (https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md): an event next for each
// result, and complete at the end. A response without complete was cut off.
func (h *Handler) serveEvents(
	ctx context.Context, w http.ResponseWriter, r *http.Request,
	operation *graphql.OperationContext, problems gqlerror.List,
) {
	ctx, cancel := h.whileServing(ctx)
	defer cancel()
	out := &events{w: w, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // which would end the request
	if len(problems) > 0 {
		_ = out.send(result{Errors: problems})
		_ = out.write(completeEvent)
		return
	}
	var beating sync.WaitGroup
	beating.Go(func() {
		defer cancel()
		_ = heartbeat(ctx, func() error { return out.write(emptyEvent) })
	})
	ended := h.respond(ctx, r.Header.Get("Authorization"), operation, func() { _ = out.write(emptyEvent) }, out.send)
	interrupted := h.interrupted(operation, ended)
	cancel()
	beating.Wait()
	if interrupted {
		if !out.begun {
			h.refuse(r.Context(), w, mediaJSON, http.StatusServiceUnavailable, errStopping())
		}
		return
	}
	if len(ended) > 0 {
		_ = out.send(result{Errors: ended})
	}
	_ = out.write(completeEvent)
}

const (
	completeEvent = "event: complete\ndata:\n\n"
	emptyEvent    = ":\n\n"
)

// events writes server-sent events.
type events struct {
	control *http.ResponseController

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
}

func (o *events) send(answer result) error {
	return o.write(fmt.Sprintf("event: next\ndata: %s\n\n", mustMarshal(answer)))
}

// write sends text without delay, and extends the server's write deadline.
func (o *events) write(text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		h := o.w.Header()
		h.Set("Content-Type", mediaEvents+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no") // proxies must not collect events
		h.Add("Vary", "Accept, Authorization")
		o.begun = true
	}
	if err := o.control.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
		return err
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		return err
	}
	return o.control.Flush()
}

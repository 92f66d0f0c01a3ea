package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// mediaEvents is that of server-sent events.
const mediaEvents = "text/event-stream"

// serveEvents answers an operation by server-sent events, in distinct connections mode
// (https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md): an event next for each result, and complete at the end.
// An answer that ends without complete was cut off.
func (e *Endpoint) serveEvents(ctx context.Context, w http.ResponseWriter, r *http.Request, operation *graphql.OperationContext, problems gqlerror.List) {
	ctx, cancel := e.whileServing(ctx)
	defer cancel()
	out := &events{w: w, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // else the request counts as gone when it passes
	if len(problems) > 0 {
		_ = out.send(result{Errors: problems})
		_ = out.write("event: complete\ndata:\n\n")
		return
	}
	var beating sync.WaitGroup
	beating.Go(func() {
		defer cancel()
		out.beat(ctx)
	})
	ended := e.answerAll(ctx, r.Header.Get("Authorization"), operation, func() { _ = out.write(":\n\n") }, out.send)
	cutShort := e.cutShort(operation, ended)
	cancel()
	beating.Wait()
	if cutShort {
		if !out.begun {
			e.refuse(r.Context(), w, mediaJSON, http.StatusServiceUnavailable, errStopping())
		}
		return
	}
	if len(ended) > 0 {
		_ = out.send(result{Errors: ended})
	}
	_ = out.write("event: complete\ndata:\n\n")
}

// events writes server-sent events.
type events struct {
	control *http.ResponseController

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
}

func (o *events) send(answer result) error {
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err) // the executor's own JSON does not parse
	}
	return o.write(fmt.Sprintf("event: next\ndata: %s\n\n", data))
}

// write writes at once. The server's deadline for an answer is put off each time.
func (o *events) write(text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		h := o.w.Header()
		h.Set("Content-Type", mediaEvents+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no") // for proxies that would collect events
		h.Add("Vary", "Accept, Authorization")
		o.begun = true
	}
	if err := o.control.SetWriteDeadline(time.Now().Add(writtenWithin)); err != nil {
		return err
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		return err
	}
	return o.control.Flush()
}

// beat lets the client hear something now and then, until the context ends or nobody listens any more.
func (o *events) beat(ctx context.Context) {
	ticker := time.NewTicker(heardEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if o.write(":\n\n") != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

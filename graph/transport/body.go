package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/config"
)

// MaxAnonymousBody is the size of the largest body of an anonymous caller, and of a WebSocket
// message, in bytes. That of other callers is a setting.
const MaxAnonymousBody = 262144

const (
	// maxBodies is the total size of the larger request bodies that a node processes at once, in
	// bytes.
	maxBodies = 134217728
	// smallBody is the maximum size of bodies that are admitted without a turn: the request rate
	// bounds them.
	smallBody = 64 << 10
	// bodyShares is the number of owners whose largest bodies fit into the memory at once.
	bodyShares = 8
	// maxBodyWait bounds the wait for a turn, and maxBodyTime the time in which a body arrives.
	maxBodyWait = 5 * time.Second
	maxBodyTime = time.Minute
)

// newBodies returns the queue of large request bodies. Its units are bytes.
func newBodies(b config.Bounds) *admission.Queue {
	share := max(maxBodies/bodyShares, int64(b.Body))
	return admission.New(admission.Config{
		Name: "large requests", Capacity: max(maxBodies, share), Share: share,
		Waiting: 32, AllWaiting: 512, MaxWait: maxBodyWait,
	})
}

// admitBody waits until there is memory for the body of a request, until release is called after
// the operation: its decoded form takes several times as much. A body of unknown size counts as the
// largest one.
func (h *Handler) admitBody(ctx context.Context, r *http.Request) (release func(), err error) {
	size := r.ContentLength
	if largest := int64(h.maxBody(ctx)); size < 0 || size > largest {
		size = largest
	}
	if r.Method != http.MethodPost || size <= smallBody {
		return func() {}, nil
	}
	turn, err := h.bodies.Enter(ctx, size, callerOf(ctx).Owner)
	return turn.Leave, err
}

// maxBody is the size of the largest body that the caller may send.
func (h *Handler) maxBody(ctx context.Context) int {
	if callerOf(ctx).Anonymous {
		return min(MaxAnonymousBody, h.config.Bounds.Body)
	}
	return h.config.Bounds.Body
}

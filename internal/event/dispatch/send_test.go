package dispatch_test

import (
	"context"
	"slices"
	"testing"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestDispatcher_FreesConnections sends to a webhook whose URL changed after it was found due, and
// fails a claim.
func TestDispatcher_FreesConnections(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		want := []string{b.write(t, audit.LinkUpdated, newLinkID())}
		b.readEvents(t, w)
		must.NoError(t, b.dispatcher.SendNext(t.Context(), w.ID, "former.example"))
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		if got := b.dispatcher.InFlight(); got > 0 {
			t.Errorf("%d requests after the end", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.dispatcher.SendNext(ended, w.ID, "former.example"); err == nil {
			t.Error("the claim did not fail")
		}
		if got := b.dispatcher.InFlight(); got > 0 {
			t.Errorf("%d requests after a failed claim", got)
		}
	})
}

// TestDispatcher_StartsNoAttemptAfterItsEnd delivers after the last interrupt: the delivery waits
// for other nodes.
func TestDispatcher_StartsNoAttemptAfterItsEnd(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		want := []string{b.write(t, audit.LinkUpdated, newLinkID())}
		b.readEvents(t, w)
		must.NoError(t, b.dispatcher.DeliverLate(t.Context(), w.ID))
		if got := r.ids(); len(got) > 0 {
			t.Errorf("sent %v", got)
		}
		must.NoError(t, b.newDispatcher(b.dispatcher.Log).SendNext(t.Context(), w.ID, "127.0.0.1"))
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("another node sent %v, want %v", got, want)
		}
	})
}

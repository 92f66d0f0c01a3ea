package dispatch

import (
	"fmt"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/admission"
)

// TestTarget_SlowWebhooksShareAHalf has webhooks of many accounts send: first slow ones only.
func TestTarget_SlowWebhooksShareAHalf(t *testing.T) {
	t.Parallel()
	for name, capacity := range map[string]int64{"one host": maxPerHost, "many hosts": maxSending} {
		var sending admission.Shares
		for _, concurrency := range []int64{1, 2} {
			taken := int64(0)
			for i := range 100 {
				one := target{Account: fmt.Sprint(i), WorkspaceID: fmt.Sprint(i), Host: "host",
					Concurrency: concurrency}
				if name == "many hosts" {
					one.Host = fmt.Sprint(i)
				}
				taken += sending.Take(maxSending, one.bounds()...)
			}
			if taken != capacity/2 {
				t.Errorf("%s, concurrency %d: %d requests, want %d", name, concurrency, taken, capacity/2)
			}
		}
	}
}

package main

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestReceiver_RemembersProcessedEventsOnly fails once: the repeated request is processed, a further one is not.
func TestReceiver_RemembersProcessedEventsOnly(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook("whsec_" +
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	r := &receiver{verifier: verifier, processed: map[string]bool{}, process: func(string, event) error {
		if calls++; calls == 1 {
			return errors.New("the database is down")
		}
		return nil
	}}
	body := `{"type":"link.updated","data":{}}`
	for i, want := range []int{http.StatusInternalServerError, http.StatusNoContent, http.StatusNoContent} {
		now := time.Now()
		signature, err := verifier.Sign("evt_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		q := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		q.Header.Set("webhook-id", "evt_1")
		q.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		q.Header.Set("webhook-signature", signature)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		if w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if calls != 2 {
		t.Errorf("processed %d times, want twice", calls)
	}
}

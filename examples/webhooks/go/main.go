// Command go receives webhooks of Linkforge and verifies them with the official library of Standard Webhooks.
//
//	WEBHOOK_SECRET=whsec_… go run . # listens on ADDRESS, localhost:9090 by default
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxBody is larger than every body that Linkforge sends.
const maxBody = 256 << 10

func main() {
	verifier, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal("WEBHOOK_SECRET: ", err)
	}
	address := os.Getenv("ADDRESS")
	if address == "" {
		address = "localhost:9090"
	}
	log.Fatal(http.ListenAndServe(address, &receiver{verifier: verifier, seen: map[string]bool{}}))
}

// receiver handles each event once. A real one stores the ids in its database, in the transaction of the
// change that the event causes.
type receiver struct {
	verifier *standardwebhooks.Webhook

	mu   sync.Mutex
	seen map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	if err := r.verifier.Verify(body, q.Header); err != nil { // also refuses old timestamps
		http.Error(w, "not signed by Linkforge", http.StatusUnauthorized)
		return
	}
	var event struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	messageID := q.Header.Get("webhook-id")
	r.mu.Lock()
	repeated := r.seen[messageID]
	r.seen[messageID] = true
	r.mu.Unlock()
	if !repeated {
		log.Printf("%s %s %s", messageID, event.Type, event.Data)
	}
	w.WriteHeader(http.StatusNoContent)
}

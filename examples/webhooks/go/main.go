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
	r := &receiver{verifier: verifier, process: logEvent, processed: map[string]bool{}}
	log.Fatal(http.ListenAndServe(address, r))
}

// receiver processes each event once. A real one stores the ids in its database, in the transaction of the change
// that the event causes.
type receiver struct {
	verifier *standardwebhooks.Webhook
	process  func(messageID string, e event) error

	mu        sync.Mutex
	processed map[string]bool
}

type event struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
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
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	if err := r.processOnce(q.Header.Get("webhook-id"), e); err != nil {
		http.Error(w, "not processed", http.StatusInternalServerError) // Linkforge sends it again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// processOnce remembers the id after the event is processed: before, a failure would lose the event.
func (r *receiver) processOnce(messageID string, e event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.processed[messageID] {
		return nil
	}
	if err := r.process(messageID, e); err != nil {
		return err
	}
	r.processed[messageID] = true
	return nil
}

func logEvent(messageID string, e event) error {
	log.Printf("%s %s %s", messageID, e.Type, e.Data)
	return nil
}

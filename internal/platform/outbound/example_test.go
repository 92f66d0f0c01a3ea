package outbound_test

import (
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/outbound"
)

// A URL of a user cannot reach the server's own network.
func ExampleNewClient() {
	client := outbound.NewClient(outbound.Config{UserAgent: "example"})
	response, err := client.Get("http://127.0.0.1:1/")
	if err == nil {
		_ = response.Body.Close()
	}
	fmt.Println(errors.Is(err, outbound.ErrRefused))
	// Output:
	// true
}

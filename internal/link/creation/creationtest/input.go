// Package creationtest has inputs for tests of the packages that create links.
package creationtest

import (
	"fmt"

	"github.com/linkforge/linkforge/internal/link/creation"
)

// Custom is the input for a link with the code.
func Custom(url, code string) creation.Input { return creation.Input{URL: url, CustomCode: &code} }

// URLs are the inputs for links to numbered URLs.
func URLs(from, to int) []*creation.Input {
	var in []*creation.Input
	for i := from; i < to; i++ {
		in = append(in, &creation.Input{URL: fmt.Sprintf("https://example.com/%d", i)})
	}
	return in
}

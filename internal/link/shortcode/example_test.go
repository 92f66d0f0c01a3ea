package shortcode_test

import (
	"fmt"

	"github.com/linkforge/linkforge/internal/link/shortcode"
)

// The code of a URL depends on the workspace. The next salt is tried when another URL has the code.
func ExampleDeterministic() {
	fmt.Println(shortcode.Deterministic("https://example.com/", "ws_a", 0))
	fmt.Println(shortcode.Deterministic("https://example.com/", "ws_a", 1))
	fmt.Println(shortcode.Deterministic("https://example.com/", "ws_b", 0))
	// Output:
	// AJ89YVrChe
	// H1TjqRvvFc
	// XKC4kAfaMx
}

// Custom codes have a restricted alphabet, and no route of the server can be one.
func ExampleValidateCustom() {
	fmt.Println(shortcode.ValidateCustom("summer-sale"))
	fmt.Println(shortcode.ValidateCustom("a b"))
	fmt.Println(shortcode.Reserved("graphql"))
	// Output:
	// <nil>
	// A custom code may only contain the letters A to Z and a to z, digits, hyphens and underscores.
	// true
}

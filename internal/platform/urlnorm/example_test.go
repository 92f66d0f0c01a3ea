package urlnorm_test

import (
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Two spellings of one URL have the same canonical form, and so the same short link.
func ExampleCanonical() {
	for _, raw := range []string{"HTTPS://Example.com:443/a/../b?utm=1", "https://example.com/b?utm=1"} {
		u, err := urlnorm.Canonical(raw)
		fmt.Println(u.String(), err)
	}
	_, err := urlnorm.Canonical("ftp://example.com/")
	fmt.Println(err)
	// Output:
	// https://example.com/b?utm=1 <nil>
	// https://example.com/b?utm=1 <nil>
	// The URL must start with http:// or https://.
}

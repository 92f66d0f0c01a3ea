package page_test

import (
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// A store selects one row more than the page holds. Cut removes it, and reports a next page.
func ExampleCut() {
	first := 2
	r, err := page.Parse(id.Link, &first, nil, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := page.Cut(r, []string{"c", "b", "a"})
	fmt.Println(p.Items, p.HasNext, p.HasPrevious)
	// Output:
	// [c b] true false
}

package routing_test

import (
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// The handler first decides without quotas, and again when a grant or a hit was refused.
func ExampleDecide() {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	evening := noon.Add(6 * time.Hour)
	p := routing.NewProgram("lnk_1", &routing.Settings{RedirectStatus: 302, ExpiresAt: &evening},
		"https://example.com/")
	fmt.Println(routing.Decide(&p, &routing.Request{Now: noon}).Location)
	fmt.Println(routing.Decide(&p, &routing.Request{Now: noon, OverQuota: true}).Status)
	fmt.Println(routing.Decide(&p, &routing.Request{Now: evening}).Status)
	// Output:
	// https://example.com/
	// 429
	// 410
}

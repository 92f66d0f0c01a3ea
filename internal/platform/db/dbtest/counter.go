package dbtest

import (
	"context"
	"sync/atomic"

	"github.com/uptrace/bun"
)

// Counter is a query hook that counts statements.
type Counter struct{ atomic.Int64 }

// BeforeQuery implements bun.QueryHook.
func (c *Counter) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery implements bun.QueryHook.
func (c *Counter) AfterQuery(context.Context, *bun.QueryEvent) { c.Add(1) }

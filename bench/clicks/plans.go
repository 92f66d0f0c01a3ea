package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// capture keeps the statements that run, while it is told to.
type capture struct {
	mu   sync.Mutex
	on   bool
	said []string
}

// BeforeQuery implements bun.QueryHook.
func (c *capture) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery implements bun.QueryHook.
func (c *capture) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.said = append(c.said, event.Query)
	}
}

// during returns the statements that run while something is done.
func (c *capture) during(do func() error) ([]string, error) {
	c.mu.Lock()
	c.on, c.said = true, nil
	c.mu.Unlock()
	err := do()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	return c.said, err
}

// explain asks a question once more, and prints how PostgreSQL answers each of its statements to
// the tenant.
func (b *bench) explain(ctx context.Context, q question, random *rand.Rand) error {
	if b.kind != db.Postgres {
		return nil
	}
	of := q.of(random)
	statements, err := b.captured.during(func() error { return q.ask(ctx, random, of) })
	if err != nil {
		return err
	}
	ctx, err = of.member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\n### %s\n", q.name)
	for _, statement := range statements {
		plan, err := b.planOf(ctx, statement)
		if err != nil {
			return fmt.Errorf("explaining %s: %w", statement, err)
		}
		fmt.Fprintf(b.out, "\n```\n%s\n\n%s\n```\n", shorten(statement), plan)
	}
	return nil
}

func (b *bench) planOf(ctx context.Context, statement string) (string, error) {
	// past bun, for which it is text by now
	rows, err := b.db.DB.DB.QueryContext(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", err
		}
		lines = append(lines, shorten(line))
	}
	return strings.Join(lines, "\n"), rows.Err()
}

// shorten leaves out the middle of what is very long: conditions on a hundred days.
func shorten(text string) string {
	const most = 1200
	if len(text) <= most {
		return text
	}
	return text[:most/2] + " … " + text[len(text)-most/2:]
}

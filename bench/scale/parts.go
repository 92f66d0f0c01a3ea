package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// compareLinks has one node each on estates of different sizes.
func (b *bench) compareLinks(ctx context.Context, out io.Writer) error {
	var columns []*column
	for _, links := range b.links {
		c, err := b.newColumn(ctx, thousands(links)+" links", b.find(links, b.tenants), 1)
		if err != nil {
			return err
		}
		columns = append(columns, c)
	}
	names := b.wanted(operationNames()...)
	constant, err := b.takeTurns(ctx, names, columns)
	if err != nil {
		return err
	}
	t := tables{out, names, columns, constant}
	t.heading(fmt.Sprintf("With the links, in %s workspaces, one node", thousands(b.tenants)))
	t.all()
	t.disk()
	if b.plans {
		for _, c := range columns {
			if err := c.reportPlans(ctx, os.Stderr); err != nil {
				return err
			}
		}
	}
	return b.stop()
}

// wanted are those of the operations that are to be measured.
func (b *bench) wanted(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(b.operations, name) })
}

// compareNodes has one node after the other join those on one estate.
func (b *bench) compareNodes(ctx context.Context, out io.Writer) error {
	names := b.wanted("hot", "create")
	var columns []*column
	var constant []figures
	var quiets []rig.Usage
	for _, nodes := range b.nodes {
		c, err := b.newColumn(ctx, plural(nodes, "node"), b.find(b.at, b.tenants), nodes)
		if err != nil {
			return err
		}
		q, err := b.watch(ctx, c.stand)
		if err != nil {
			return err
		}
		base, err := b.takeTurns(ctx, names, []*column{c})
		if err != nil {
			return err
		}
		columns, constant, quiets = append(columns, c), append(constant, base...), append(quiets, q)
		if err := b.stop(); err != nil {
			return err
		}
	}
	t := tables{out, names, columns, constant}
	t.heading(fmt.Sprintf("With the nodes, %s links in %s workspaces", thousands(b.at), thousands(b.tenants)))
	t.all()
	t.idle(b.nodes, quiets)
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// compareTenants has one node each on estates that are divided among more and more workspaces.
func (b *bench) compareTenants(ctx context.Context, out io.Writer) error {
	var columns []*column
	for _, tenants := range b.manyTenants {
		c, err := b.newColumn(ctx, thousands(tenants)+" workspaces", b.find(b.at, tenants), 1)
		if err != nil {
			return err
		}
		columns = append(columns, c)
	}
	names := b.wanted("hot", "look", "create", "known", "small")
	constant, err := b.takeTurns(ctx, names, columns)
	if err != nil {
		return err
	}
	t := tables{out, names, columns, constant}
	t.heading(fmt.Sprintf("With the workspaces, %s links, one node", thousands(b.at)))
	t.all()
	return b.stop()
}

func (b *bench) newColumn(ctx context.Context, title string, e *estate, nodes int) (*column, error) {
	s, err := b.start(ctx, e, nodes)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", title, err)
	}
	b.Say("%s: started", title)
	return &column{title: title, stand: s, measured: map[string][]figures{}}, nil
}

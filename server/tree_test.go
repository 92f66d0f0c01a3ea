package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// tree is the data of a GraphQL answer.
type tree map[string]any

// ask runs an operation that must succeed, and returns its data.
func (c client) ask(t *testing.T, query string, variables map[string]any) (data tree) {
	t.Helper()
	c.must(t, &data, query, variables)
	return data
}

// at is the value at a path of names and positions, such as workspace.links.nodes.0; nil if there is none.
func (d tree) at(path string) any {
	value := any(map[string]any(d))
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// text is the value at a path as text, which is empty if there is none.
func (d tree) text(path string) string {
	if value := d.at(path); value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// same compares a value with the one that is wanted.
func same[T any](t testing.TB, what string, got, want T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// hasTexts expects texts in a larger one.
func hasTexts(t testing.TB, what, all string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%s: no %q in %s", what, text, all)
		}
	}
}

// refuses expects one user error, with a code, at a field if it is given.
func refuses(t testing.TB, what string, errs []userError, code string, field ...string) {
	t.Helper()
	if len(errs) != 1 || errs[0].Code != code ||
		len(field) > 0 && strings.Join(errs[0].Field, ".") != strings.Join(field, ".") {
		t.Errorf("%s: %+v, want %s at %s", what, errs, code, field)
	}
}

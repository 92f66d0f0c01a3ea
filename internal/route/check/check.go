// Package check validates changes of routings. Apply turns the input of members, for a link or for
// the defaults of a workspace, into a stored routing: checked, in normal form (routing.go,
// condition.go, sample.go) and with the ids of rules and targets (identity.go). Warnings lists
// valid input that has no effect. Differences lists where an existing link differs from a creation.
//
// Packages link and workspace call it for each change, and package config for fallback URLs.
package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// MaxStored is the size of the largest routing as JSON, in bytes.
const MaxStored = 64 << 10

// The other limits of a routing. Lengths are in characters unless bytes are named.
const (
	maxRules       = 50
	maxConditions  = 20
	maxTargets     = 10
	maxValues      = 100
	maxShare       = 1000
	maxName        = 100
	maxQueryValue  = 500
	maxUTMValue    = 100
	maxSources     = 50
	maxTests       = 50
	maxCompiled    = 16 << 10
	maxSampleAgent = 512 // bytes, also of Accept-Language
	maxReferrer    = 1024
	maxQuery       = 4096
	minPassword    = 8
	maxPassword    = 128
	maxNotice      = 2000
)

// Apply returns the routing after a change, checked and with ids; nil for a plain link. The
// arguments stay as they are. A nil change makes the link plain. It returns InvalidInput or
// InvalidURL with the position of the value. Whether URLs may be redirected to is for the caller to
// check, see Routing.URLs.
func Apply(c *routing.Change, from *routing.Routing) (*routing.Routing, error) {
	if c == nil {
		return nil, nil
	}
	var password error
	if p := c.NewPassword(); p != nil && !IsPassword(p.Text) {
		password = errs.New(errs.InvalidInput, "The password must have from %d to %d characters.", minPassword,
			maxPassword).
			At("gate", "password")
	}
	after, err := checked(from.With(c))
	if err = errs.All(err, password); err != nil {
		return nil, err
	}
	if err := identify(after, from); err != nil {
		return nil, err
	}
	if err := size(after); err != nil {
		return nil, err
	}
	if after.IsPlain() {
		return nil, nil
	}
	return after, nil
}

// Routing validates a routing that Change.Merge has returned. It returns InvalidInput or InvalidURL
// with the position of the value.
func Routing(r *routing.Routing) error {
	if r == nil {
		return nil
	}
	after, err := checked(r)
	if err != nil {
		return err
	}
	return size(after)
}

// checked returns a deep copy of a routing in normal form.
func checked(r *routing.Routing) (*routing.Routing, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("copying a routing: %w", err)
	}
	after := &routing.Routing{}
	if err := json.Unmarshal(text, after); err != nil {
		return nil, fmt.Errorf("copying a routing: %w", err)
	}
	return after, run(func(c *checker) { c.routing(after) })
}

// size bounds the stored and the compiled routing, which include the ids.
func size(r *routing.Routing) error { return run(func(c *checker) { c.size(r) }) }

// IsPassword reports whether a text may be the password of a gate.
func IsPassword(text string) bool {
	n := utf8.RuneCountInString(text)
	return n >= minPassword && n <= maxPassword
}

// UTM validates campaign parameters, and replaces them by their normal forms.
func UTM(u *routing.UTM) error { return run(func(c *checker) { c.utm(u) }) }

// Sample validates a visit. It returns InvalidInput.
func Sample(s *routing.Sample) error { return run(func(c *checker) { c.sample(s) }) }

// Fallback validates a URL that receives visitors without a destination, with its placeholders. It
// returns InvalidURL.
func Fallback(url string) error { return run(func(c *checker) { c.fallback(url) }) }

// run returns the errors that a check finds.
func run(check func(*checker)) error {
	c := &checker{}
	check(c)
	return c.err
}

// checker collects errors, and has the path of the value that it checks.
type checker struct {
	path   []string
	err    error
	failed int
}

// in checks the value at a name or an index below the present one.
func (c *checker) in(name string, check func()) {
	if c.failed >= errs.Most {
		return
	}
	c.path = append(c.path, name)
	check()
	c.path = c.path[:len(c.path)-1]
}

// each checks the elements of a list, and that their number is from least to most.
func each[T any](c *checker, name string, list []T, least, most int, check func(i int)) {
	c.in(name, func() {
		if len(list) < least || len(list) > most {
			c.refuse("%s must have from %d to %d elements; it has %d.", name, least, most, len(list))
			return
		}
		for i := range list {
			c.in(strconv.Itoa(i), func() { check(i) })
		}
	})
}

func (c *checker) refuse(format string, args ...any) {
	c.fail(errs.New(errs.InvalidInput, format, args...))
}

func (c *checker) fail(err *errs.Error) {
	c.failed++
	c.err = errs.All(c.err, err.At(slices.Clone(c.path)...))
}

// text validates a line of text.
func (c *checker) text(name string, value *string, most int) {
	if value == nil {
		return
	}
	c.in(name, func() {
		line, err := validate.Line(name, *value, 1, most)
		if err != nil {
			c.fail(errs.From(err))
			return
		}
		*value = line
	})
}

// bytes bounds a text that is compared as it is.
func (c *checker) bytes(name string, value *string, most int) {
	switch {
	case value == nil:
	case len(*value) > most:
		c.in(name, func() { c.refuse("%s must have at most %d bytes; it has %d.", name, most, len(*value)) })
	case strings.ContainsAny(*value, "\x00\r\n"):
		c.in(name, func() { c.refuse("%s must have neither line breaks nor the character U+0000.", name) })
	}
}

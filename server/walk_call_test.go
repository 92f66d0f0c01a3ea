package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

// target is an operation, or a field that takes arguments.
type target struct {
	calls
	// way leads to it from the query or the mutation.
	way    []step
	places []place
	writes bool
}

func (t target) name() string { return t.way[len(t.way)-1].key() }

// attempt is a target in one of its variants, with the document to send.
type attempt struct {
	target
	variant
	document *document
	// brief marks the variant for callers that try only one of each target: the first that names
	// something, if any does.
	brief bool
}

// attempts are the queries and the fields with arguments, and the mutations.
func (w *walker) attempts() (reads, writes []attempt) {
	for _, f := range w.schema.fields() {
		one := target{calls: operations[f.key()], way: []step{f}, places: w.schema.places(f),
			writes: f.parent.Name == w.schema.mutation}
		switch {
		case one.writes:
			writes = append(writes, w.attemptsOf(one)...)
		case f.parent.Name == w.schema.query, f.parent.Name == w.schema.subscription:
			reads = append(reads, w.attemptsOf(one)...)
		case len(f.field.Arguments) > 0:
			one.way = append(w.schema.wayTo(f.parent.Name), f)
			one.variants = slices.Concat([]variant{{only: []string{}}}, oneByOne(one.places), together[f.key()])
			reads = append(reads, w.attemptsOf(one)...)
		}
	}
	return reads, writes
}

func (w *walker) attemptsOf(one target) (all []attempt) {
	for _, v := range one.alternatives() {
		a := attempt{target: one, variant: v}
		a.document = w.document(a)
		all = append(all, a)
	}
	first := slices.IndexFunc(all, func(a attempt) bool { return len(a.namesSomething()) > 0 })
	all[max(first, 0)].brief = true
	return all
}

// oneByOne are variants with one argument each, and with the other required fields of its input.
func oneByOne(places []place) (all []variant) {
	for _, p := range places {
		only := []string{p.key}
		for _, beside := range places {
			if beside.must && beside.input == p.input {
				only = append(only, beside.key)
			}
		}
		f, _ := fillerOf(p.key)
		v := variant{only: only, rare: f.kind == nil}
		if f.instead != "" {
			v.without = []string{f.instead}
		}
		all = append(all, v)
		for _, value := range f.others {
			v.set = map[string]any{p.key: value}
			all = append(all, v)
		}
	}
	return all
}

// alternatives are the target's variants, once for each field of an input that takes only one.
func (t target) alternatives() []variant {
	all := t.variants
	if len(all) == 0 {
		all = []variant{{}}
	}
	groups := map[string]map[string][]string{} // the places by input and field
	for _, p := range t.places {
		if p.oneOf == "" {
			continue
		}
		if groups[p.oneOf] == nil {
			groups[p.oneOf] = map[string][]string{}
		}
		groups[p.oneOf][p.oneField] = append(groups[p.oneOf][p.oneField], p.key)
	}
	for _, fields := range groups {
		var more []variant
		for _, v := range all {
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				var others []string
				for _, other := range slices.Sorted(maps.Keys(fields)) {
					if other != field {
						others = append(others, fields[other]...)
					}
				}
				more = append(more,
					variant{only: v.only, without: slices.Concat(v.without, others), set: v.set, rare: v.rare})
			}
		}
		all = more
	}
	return all
}

func (a attempt) includes(p place) bool {
	if slices.Contains(a.without, p.key) {
		return false
	}
	f, _ := fillerOf(p.key)
	return a.only == nil || slices.Contains(a.only, p.key) || p.required || f.always
}

// namesSomething are the places that take a tenant's objects.
func (a attempt) namesSomething() (keys []string) {
	for _, p := range a.places {
		if a.includes(p) && a.kind(p.key) != nil {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// isNew reports whether a variant needs a call with own objects only, because it sets unusual
// values.
func (a attempt) isNew() bool {
	named := a.namesSomething()
	return len(named) == 0 || slices.ContainsFunc(named, func(key string) bool { return !a.kind(key).theirs })
}

// document is the operation of an attempt: each of its arguments is a variable.
func (w *walker) document(a attempt) *document {
	return w.schema.document(a.way, func(of *ast.ArgumentDefinition) bool {
		return slices.ContainsFunc(a.places, func(p place) bool { return p.argument == of.Name && a.includes(p) })
	}, w.usual)
}

// kind is the kind of value in a place; nil if it is not a tenant's.
func (v variant) kind(key string) *kind {
	if k, ok := v.set[key].(*kind); ok {
		return k
	}
	f, _ := fillerOf(key)
	return f.kind
}

// value returns the caller's own value for a place, if there is one.
func (w *walker) value(v variant, key string) (any, bool) {
	if k := v.kind(key); k != nil {
		return k.ownValue(w.own)
	}
	if value, ok := v.set[key]; ok {
		return value, true
	}
	f, _ := fillerOf(key)
	return f.value(w), true
}

// usual returns the required values of the fields on the path to a target and below it.
func (w *walker) usual(key string) (any, bool) {
	if !w.needed[key] {
		return nil, false
	}
	return w.value(variant{}, key)
}

// call is a request that has been answered.
type call struct {
	answer
	*document
	// about describes the call: its caller and its target.
	about string
	// sent are the values that named something, with a placeholder.
	sent map[string]string
	// text is the response with these placeholders.
	text string
}

func newCall(a answer, sent map[string]string) call {
	return call{answer: a, sent: sent, text: shown(a, sent)}
}

func (c call) String() string { return c.about }

// send calls a target with the given values, and with the caller's own values in all other places.
func (c *caller) send(a attempt, given map[string]string) call {
	c.t.Helper()
	body, sent := c.request(a, given)
	response, err := answer{}, error(nil)
	switch {
	case a.document.root.parent.Name != c.schema.subscription:
		response, err = c.post(body)
	case given == nil:
		response, err = c.firstEvent(c.t.Context(), body, nil)
	default:
		own, _ := c.request(a, nil)
		response, err = c.firstEvent(c.t.Context(), body, own)
	}
	about := a.name() + " as " + c.name
	for _, key := range slices.Sorted(maps.Keys(given)) {
		about += fmt.Sprintf(", %s %q", key, given[key])
	}
	if err != nil {
		c.t.Fatalf("%s: %v", about, err)
	}
	got := newCall(response, sent)
	got.about, got.document = about, a.document
	c.requests++
	c.recordAnswered(got)
	return got
}

// request returns the body of a call, and the values in it that name something, with a placeholder.
func (c *caller) request(a attempt, given map[string]string) (body []byte, sent map[string]string) {
	c.t.Helper()
	sent = map[string]string{}
	variables := maps.Clone(a.document.constants)
	pick, own := c.picker(a, sent, given), c.picker(a, sent, nil)
	for name, of := range a.document.arguments {
		if value, ok := c.schema.fill(a.name()+"."+of.Name, of, pick, own); ok {
			variables[name] = value
		}
	}
	body, err := json.Marshal(map[string]any{"query": a.document.text, "variables": variables})
	if err != nil {
		c.t.Fatal(err)
	}
	return body, sent
}

// quiet is the time without an event after which a subscription is suspected to receive none.
const quiet = 20 * time.Millisecond

// laterSubscriptions is how many must have received their first event: on a busy machine one may overtake another.
const laterSubscriptions = 3

// overtaken is how often a subscription without an event is repeated, if the one that it is
// compared with has one: later ones may have overtaken it.
const overtaken = 3

// noEvent is the body of the response of a subscription that has received no event.
const noEvent = "{}"

// isSilent reports whether the call was a subscription that received no event.
func (c call) isSilent() bool { return c.body == noEvent }

// errNoEvent ends a subscription that receives no event.
var errNoEvent = errors.New("later subscriptions have received their first events")

// firstEvent returns the first event of a subscription, or its end, as a response. If there is none, it returns an
// empty response once later subscriptions have received theirs. Without a later one, it waits.
func (c client) firstEvent(ctx context.Context, body, later []byte) (answer, error) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := c.operation(ctx, bytes.NewReader(body), mediaEvents)
	if err != nil {
		return answer{}, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	if later != nil {
		waiting.Go(func() {
			if poll.Wait(ctx, quiet) != nil {
				return
			}
			var err error
			for n := 0; n < laterSubscriptions && err == nil; n++ {
				_, err = c.firstEvent(ctx, later, nil)
			}
			cancel(cmp.Or(err, errNoEvent))
		})
	}
	a := answer{status: response.StatusCode, header: response.Header, body: noEvent}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			a.body = data
			return a, nil
		}
	}
	if errors.Is(context.Cause(ctx), errNoEvent) {
		return a, nil
	}
	return a, cmp.Or(context.Cause(ctx), lines.Err(), io.ErrUnexpectedEOF)
}

// picker returns the values of places. It records values that identify objects in sent.
func (c *caller) picker(a attempt, sent, given map[string]string) picker {
	return func(key string) (any, bool) {
		p := a.places[slices.IndexFunc(a.places, func(p place) bool { return p.key == key })]
		if !a.includes(p) {
			return nil, false
		}
		c.sent[key] = true
		value, ok := c.value(a.variant, key)
		if a.kind(key) == nil {
			return value, ok
		}
		var all []string
		if ok {
			sent[value.(string)] = "‹own " + key + "›"
			all = append(all, value.(string))
		}
		if theirs, isGiven := given[key]; isGiven {
			sent[theirs] = "‹" + key + "›"
			all = append(all, theirs)
		}
		if len(all) == 0 {
			return nil, false
		}
		if p.list { // a foreign value among own ones
			return all, true
		}
		return all[len(all)-1], true
	}
}

// recordAnswered records which fields have been in a response.
func (c *caller) recordAnswered(got call) {
	if !slices.ContainsFunc(got.fields, func(key string) bool { return !c.answered[key] }) {
		return
	}
	data, _ := decode(c.t, got.body)["data"].(map[string]any)
	if value, ok := data[got.root.field.Name]; ok {
		got.root.visit(value, func(n *selection) { c.answered[n.key()] = true },
			func(_ *selection, value any) any { return value })
	}
}

// volatileHeaders are headers that differ between responses.
var volatileHeaders = []string{"Date", "Content-Length", "X-Request-Id", "Ratelimit", "Ratelimit-Policy"}

// signedPath are signed URLs of archives, which differ between responses.
var signedPath = regexp.MustCompile(`(/export/workspace/)[\w.-]+`)

// shown is a response, with placeholders for sent values.
func shown(a answer, sent map[string]string) string {
	var text strings.Builder
	fmt.Fprintln(&text, a.status)
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		if !slices.Contains(volatileHeaders, name) {
			fmt.Fprintln(&text, name, a.header[name])
		}
	}
	text.WriteString(signedPath.ReplaceAllString(a.body, "$1"))
	return replaceAll(text.String(), sent)
}

// replaceAll puts placeholders into the places of texts, the longest first: one may be within
// another.
func replaceAll(text string, placeholders map[string]string) string {
	all := slices.SortedFunc(maps.Keys(placeholders), func(a, b string) int { return len(b) - len(a) })
	for _, one := range all {
		text = strings.ReplaceAll(text, one, placeholders[one])
	}
	return text
}

// codes are the codes of all errors in a response: in extensions, and in user errors. Links also
// have a code.
func (c call) codes() (all []string) {
	parts := strings.Split(c.body, `"code":"`)
	for i, part := range parts[1:] {
		object := parts[i][strings.LastIndexByte(parts[i], '{')+1:]
		code, rest, _ := strings.Cut(part, `"`)
		isWarning := object == "" && strings.HasPrefix(rest, `,"message":`) // of a routing
		if !isWarning && (object == "" || strings.HasPrefix(object, `"message":`)) {
			all = append(all, code)
		}
	}
	return all
}

// comparable is a response with placeholders for sent values, for values that are computed from
// them and, in mutations, for generated values.
func (c *caller) comparable(of call) string {
	got := decode(c.t, of.body)
	body := map[string]any{"errors": inOrder(got["errors"])}
	writes := of.root.parent.Name == c.schema.mutation
	if data, ok := got["data"].(map[string]any); ok {
		body["data"] = of.root.visit(data[of.root.field.Name], func(*selection) {}, func(n *selection, value any) any {
			if slices.Contains(onlyFirst, n.key()) ||
				value != nil && (slices.Contains(computed, n.key()) || writes && c.differs(n, value)) {
				return "‹generated›"
			}
			return value
		})
	}
	text, err := json.MarshalIndent(body, "", " ")
	if err != nil {
		c.t.Fatal(err)
	}
	of.body = string(text)
	return shown(of.answer, of.sent)
}

// differs reports whether a mutation returns a different value on each call.
func (w *walker) differs(n *selection, value any) bool {
	switch kind := n.field.Type.Name(); {
	case kind == "ID":
		return !strings.Contains(w.known, value.(string))
	case kind == "Time":
		return true
	}
	return slices.Contains(generated, n.key())
}

// inOrder sorts errors, because fields are resolved in any order.
func inOrder(errors any) any {
	all, _ := errors.([]any)
	return slices.SortedFunc(slices.Values(all),
		func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
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

// targets are the queries and the fields with arguments, and the mutations.
func (w *walker) targets() (reads, writes []target) {
	for _, f := range w.schema.fields() {
		one := target{calls: operations[f.key()], way: []step{f}, places: w.schema.places(f),
			writes: f.parent.Name == w.schema.mutation}
		switch {
		case one.writes:
			writes = append(writes, one)
		case f.parent.Name == w.schema.query, f.parent.Name == w.schema.subscription:
			reads = append(reads, one)
		case len(f.field.Args) > 0:
			one.way = append(w.schema.wayTo(f.parent.Name), f)
			one.variants = slices.Concat([]variant{{only: []string{}}}, oneByOne(one.places), together[f.key()])
			reads = append(reads, one)
		}
	}
	return reads, writes
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
		v := variant{only: only, rare: fillers[p.key].kind == nil}
		if fillers[p.key].instead != "" {
			v.without = []string{fillers[p.key].instead}
		}
		all = append(all, v)
		for _, value := range fillers[p.key].others {
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
				more = append(more, variant{only: v.only, without: slices.Concat(v.without, others), set: v.set, rare: v.rare})
			}
		}
		all = more
	}
	return all
}

func (t target) includes(v variant, p place) bool {
	if slices.Contains(v.without, p.key) {
		return false
	}
	return v.only == nil || slices.Contains(v.only, p.key) || p.required || fillers[p.key].always
}

// namesSomething are the places that take a tenant's objects.
func (t target) namesSomething(v variant) (keys []string) {
	for _, p := range t.places {
		if t.includes(v, p) && kindIn(v, p.key) != nil {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// isNew reports whether a variant needs a call with own objects only, because it sets unusual
// values.
func (t target) isNew(v variant) bool {
	named := t.namesSomething(v)
	return len(named) == 0 || slices.ContainsFunc(named, func(key string) bool { return !kindIn(v, key).theirs })
}

// document is the operation of a variant: each of its arguments is a variable.
func (w *walker) document(one target, v variant) *document {
	return w.schema.document(one.way, func(a argument) bool {
		return slices.ContainsFunc(one.places, func(p place) bool { return p.argument == a.Name && one.includes(v, p) })
	}, w.usual)
}

// kindIn is the kind of value in a place; nil if it is not a tenant's.
func kindIn(v variant, key string) *kind {
	if k, ok := v.set[key].(*kind); ok {
		return k
	}
	return fillers[key].kind
}

// value returns the caller's own value for a place, if there is one.
func (w *walker) value(v variant, key string) (any, bool) {
	if k := kindIn(v, key); k != nil {
		return k.ownValue(w.own)
	}
	if value, ok := v.set[key]; ok {
		return value, true
	}
	return fillers[key].value(w), true
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
}

func (c call) String() string { return c.about }

// send calls a target with the given values, and with the caller's own values in all other places.
func (w *walker) send(one target, v variant, d *document, given map[string]string) call {
	w.t.Helper()
	c := call{document: d, about: one.name() + " as " + w.caller.name, sent: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		c.about += fmt.Sprintf(", %s %q", key, given[key])
	}
	variables := maps.Clone(d.constants)
	for name, a := range d.arguments {
		if value, ok := w.schema.fill(one.name()+"."+a.Name, a, w.picker(one, v, c.sent, given),
			w.picker(one, v, c.sent, nil)); ok {
			variables[name] = value
		}
	}
	body, err := json.Marshal(map[string]any{"query": d.text, "variables": variables})
	if err != nil {
		w.t.Fatal(err)
	}
	if d.root.parent.Name == w.schema.subscription {
		c.answer, err = w.caller.firstEvent(body)
	} else {
		c.answer, err = w.caller.post(body)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.requests++
	w.recordAnswered(c)
	return c
}

// firstEvent returns the first event of a subscription, or its end, as a response. It returns an
// empty response after a short timeout.
func (c client) firstEvent(body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/graphql", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Host = strings.TrimPrefix(c.public, "http://")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header, body: "{}"}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			a.body = data
			break
		}
	}
	return a, nil
}

// picker chooses the values of places, and records those that name objects in sent.
func (w *walker) picker(one target, v variant, sent, given map[string]string) picker {
	return func(key string) (any, bool) {
		p := one.places[slices.IndexFunc(one.places, func(p place) bool { return p.key == key })]
		if !one.includes(v, p) {
			return nil, false
		}
		w.sent[key] = true
		value, ok := w.value(v, key)
		if kindIn(v, key) == nil {
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
func (w *walker) recordAnswered(c call) {
	if !slices.ContainsFunc(c.fields, func(key string) bool { return !w.answered[key] }) {
		return
	}
	data, _ := decode(w.t, c.body)["data"].(map[string]any)
	if value, ok := data[c.root.field.Name]; ok {
		c.root.visit(value, func(n *selection) { w.answered[n.key()] = true },
			func(_ *selection, value any) any { return value })
	}
}

// volatileHeaders are headers that differ between responses.
var volatileHeaders = []string{"Date", "Content-Length", "X-Request-Id", "Ratelimit", "Ratelimit-Policy"}

// shown is the response, with placeholders for sent values.
func (c call) shown() string {
	var text strings.Builder
	fmt.Fprintln(&text, c.status)
	for _, name := range slices.Sorted(maps.Keys(c.header)) {
		if !slices.Contains(volatileHeaders, name) {
			fmt.Fprintln(&text, name, c.header[name])
		}
	}
	text.WriteString(c.body)
	return replaceAll(text.String(), c.sent)
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
func (w *walker) comparable(c call) string {
	got := decode(w.t, c.body)
	body := map[string]any{"errors": inOrder(got["errors"])}
	writes := c.root.parent.Name == w.schema.mutation
	if data, ok := got["data"].(map[string]any); ok {
		body["data"] = c.root.visit(data[c.root.field.Name], func(*selection) {}, func(n *selection, value any) any {
			if slices.Contains(onlyFirst, n.key()) || value != nil && (slices.Contains(computed, n.key()) || writes && w.differs(n, value)) {
				return "‹generated›"
			}
			return value
		})
	}
	text, err := json.MarshalIndent(body, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	c.body = string(text)
	return c.shown()
}

// differs reports whether a mutation returns a different value on each call.
func (w *walker) differs(n *selection, value any) bool {
	switch kind := n.field.Type.named(); {
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

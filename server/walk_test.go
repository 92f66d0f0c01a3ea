package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWalk_DisclosesNothingOfOtherWorkspaces calls every operation of the schema, with every argument, with what
// belongs to another tenant: in every role, with an API key and anonymously. No text of the other
// tenant is ever in an answer, nothing of it changes, and the answer is the same as for what does
// not exist.
//
// The calls are generated from the introspected schema and the values in walk_table_test.go. An
// operation or an argument that is missing from the table fails the test.
//
// The test runs before the parallel tests: it sends thousands of requests, and they have deadlines.
func TestWalk_DisclosesNothingOfOtherWorkspaces(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { walk(t, embedded(t), allCallers, func() {}) })
	t.Run("postgres", func(t *testing.T) { walk(t, production(t), someCallers, func() {}) })
}

// TestWalk_NeedsNoRowLevelSecurity is the same on PostgreSQL with its policies switched off: the
// application alone keeps tenants apart.
func TestWalk_NeedsNoRowLevelSecurity(t *testing.T) {
	b := production(t)
	walk(t, b, someCallers, func() { switchPoliciesOff(t, b) })
}

// The callers of a walk: all, or the owner and an anonymous client. All are tried on SQLite, which has no policies.
// Those of PostgreSQL are the same for all roles.
func allCallers(caller) bool    { return true }
func someCallers(c caller) bool { return c.name == "OWNER" || c.token == "" }

// walk runs the test; prepare is called after the tenants are created, before the first call.
func walk(t *testing.T, b backend, calls func(caller) bool, prepare func()) {
	nextMonth(t)
	// Destination checks would change links meanwhile. A document about each type that implements
	// Node needs many aliases.
	s := start(t, b, "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_MAX_ALIASES=300", "LINKFORGE_MAX_TOKENS=2000")
	w := &walker{
		t: t, server: s, schema: schemaOf(t, s), began: time.Now().UTC().Truncate(time.Second),
		needed: map[string]bool{}, sentNames: map[string]string{}, answered: map[string]bool{}, sent: map[string]bool{},
	}
	w.compareWithTable()
	w.createTenants(b)
	w.callers = slices.DeleteFunc(w.callers, func(c caller) bool { return !calls(c) })
	for _, job := range []string{"transitions", "click days", "click details"} { // not meanwhile
		must(t, s.env, "jobs", "run", job)
	}
	prepare()
	d, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	own, foreign, view := w.own.rows(d), w.foreign.rows(d), w.foreignView()
	w.foreign.addSecrets(foreign, own)
	w.known = fmt.Sprint(own)

	w.walkAll()

	if diff := cmp.Diff(foreign, w.foreign.rows(d)); diff != "" {
		t.Errorf("the other tenant's rows have changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(view, w.foreignView()); diff != "" {
		t.Errorf("what the other tenant's owner sees has changed (-before +after):\n%s", diff)
	}
	w.isCovered()
}

// walker goes through the schema.
type walker struct {
	t      *testing.T
	server *server
	schema *schema
	began  time.Time
	// own is the callers' tenant, foreign the one that they must not see.
	own, foreign *estate
	callers      []caller
	// caller is the current caller.
	caller caller
	// needed are the places that are filled in every call.
	needed map[string]bool
	// sentNames maps values of the other tenant that mutations have received to a placeholder.
	sentNames map[string]string
	// known is all that the callers' tenant had at the beginning.
	known string
	// answered are the fields that have been in an answer, sent the places that have been filled.
	answered, sent map[string]bool
	failures       int
	requests       int
}

// caller is a user, an API key or an anonymous caller.
type caller struct {
	user
	name string
	// thorough callers try objects in every state, and all values of other arguments. The others only
	// differ in their permissions.
	thorough bool
	// account callers also try operations on accounts. Roles have no effect there, and each try hashes
	// a password.
	account bool
}

// poolSize is how many links of the other tenant can be tried to be made again.
const poolSize = 120

// createTenants creates both tenants, the foreign one last: its objects are the newest, so a leak
// would list them first.
func (w *walker) createTenants(b backend) {
	w.t.Helper()
	bridge := (&estate{t: w.t, s: w.server}).newUser("bridge", word("bridge")+"@example.com", "bridge")
	w.own = newEstate(w.t, w.server, b, "m", bridge, 1, "ADMIN", "EDITOR", "VIEWER")
	w.foreign = newEstate(w.t, w.server, b, "z", bridge, poolSize, "VIEWER")
	_, all := w.own.key(w.schema.enum("ApiKeyScope")...)
	_, one := w.own.key("LINKS_READ")
	program := func(token string) user { return user{client: client{server: w.server, token: token}} }
	w.callers = []caller{
		{w.own.members["OWNER"], "OWNER", true, true}, {w.own.members["ADMIN"], "ADMIN", false, false},
		{w.own.members["EDITOR"], "EDITOR", false, false}, {w.own.members["VIEWER"], "VIEWER", false, false},
		{program(all), "an API key", false, true}, {program(one), "an API key with one scope", false, false},
		{program(""), "an anonymous client", false, true},
	}
}

// walkAll has all callers read first, before anything changes, and then write.
func (w *walker) walkAll() {
	reads, writes := w.targets()
	for _, targets := range [][]target{reads, writes} {
		for _, w.caller = range w.callers {
			for _, one := range targets {
				if !one.hashes || w.caller.account {
					w.try(one)
				}
			}
		}
	}
	for _, w.caller = range w.callers {
		w.export()
	}
	w.t.Logf("%d requests, %d of the pool", w.requests, w.foreign.next)
}

// try calls a target in all its variants: with mixtures of the caller's own and another tenant's
// things, and with things of that tenant's in other states.
func (w *walker) try(one target) {
	for _, v := range one.alternatives() {
		if v.rare && !w.caller.thorough {
			continue
		}
		d, foreign := w.document(one, v), one.namesSomething(v)
		if len(foreign) == 0 || one.alone || !one.writes && one.isNew(v) {
			w.examine(one, w.send(one, v, d, nil))
		}
		for _, mixture := range w.mixtures(foreign) {
			given := map[string]string{}
			for _, key := range mixture {
				given[key] = kindIn(v, key).all(w.foreign)[0]
			}
			w.compare(one, v, d, given)
		}
		if !w.caller.thorough {
			continue
		}
		for _, key := range foreign {
			for _, other := range kindIn(v, key).all(w.foreign)[1:] {
				w.compare(one, v, d, map[string]string{key: other})
			}
		}
	}
}

// mixtures returns sets of places that receive objects of another tenant, while the other places
// receive the caller's own: each place alone, and all together; for thorough callers every subset.
func (w *walker) mixtures(keys []string) (all [][]string) {
	for set := uint(1); set < 1<<len(keys); set++ {
		var mixture []string
		for i, key := range keys {
			if set&(1<<i) != 0 {
				mixture = append(mixture, key)
			}
		}
		if len(mixture) == 1 || len(mixture) == len(keys) || w.caller.thorough {
			all = append(all, mixture)
		}
	}
	return all
}

// compare calls a target with objects of the other tenant, and with unknown objects.
func (w *walker) compare(one target, v variant, d *document, given map[string]string) {
	w.t.Helper()
	theirs, missing := map[string]string{}, map[string]string{}
	for key, value := range given {
		k := kindIn(v, key)
		theirs[key], missing[key] = k.wrapped(value), k.wrapped(w.foreign.unknownLike(value))
	}
	a := w.send(one, v, d, theirs)
	if one.writes {
		w.remember(v, theirs)
	}
	b := w.send(one, v, d, missing)
	w.examine(one, a)
	w.examine(one, b)
	if one.writes && fromPool(v, given) && len(a.codes()) == 0 {
		w.foreign.next++
	}
	if one.public != "" || one.taken != "" && slices.Equal(a.codes(), []string{one.taken}) || a.shown() == b.shown() {
		return
	}
	if diff := cmp.Diff(w.comparable(b), w.comparable(a)); diff != "" {
		w.fail("%s: the answer about what is another tenant's differs from that about what does not exist (-unknown "+
			"+another's):\n%s", a, diff)
	}
}

// fromPool reports whether a value belongs to a link of the pool.
func fromPool(v variant, given map[string]string) bool {
	for key := range given {
		if kindIn(v, key).pool != nil {
			return true
		}
	}
	return false
}

// unexpectedCodes are codes of calls that fail before any object is looked up.
var unexpectedCodes = []string{"BAD_REQUEST", "INVALID_INPUT", "INVALID_URL", "COMPLEXITY_LIMIT_EXCEEDED",
	"RATE_LIMITED", "INTERNAL", "UNAVAILABLE"}

// examine checks that a response has no unexpected code and no data of the other tenant.
func (w *walker) examine(one target, c call) {
	w.t.Helper()
	for _, code := range c.codes() {
		if slices.Contains(unexpectedCodes, code) && code != one.refuses {
			w.fail("%s: %s: the walk does not call it correctly: %.1000s\n%s", c, code, c.body, c.document.text)
		}
	}
	if found := w.exposed(c); found != "" {
		w.fail("%s: something of another tenant is in the answer: %q: %.1000s", c, found, c.body)
	}
}

// exposed returns a text of the other tenant that a response contains and no caller has sent, or
// nothing.
func (w *walker) exposed(c call) string {
	found := w.foreign.exposed(c.shown())
	if found != "" {
		found = w.foreign.exposed(replaceAll(c.shown(), w.sentNames))
	}
	return found
}

// remember records names of the other tenant that the callers' tenant may also have now, because a
// caller has sent them: a URL, a host, an address to invite. IDs are never shared.
func (w *walker) remember(v variant, given map[string]string) {
	for key, value := range given {
		if kindIn(v, key).fresh != nil {
			w.sentNames[value] = "‹sent before›"
		}
	}
}

// fail fails the test, and ends it after 20 failures.
func (w *walker) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf(format, args...)
	if w.failures++; w.failures >= 20 {
		w.t.Fatal("too many failures")
	}
}

// export requests the audit export, the only tenant data outside of GraphQL.
func (w *walker) export() {
	export := func(workspaceID string) call {
		var headers []string
		if w.caller.token != "" {
			headers = []string{"Authorization", "Bearer " + w.caller.token}
		}
		a, err := w.caller.get("/export/audit/"+workspaceID, headers...)
		if err != nil {
			w.t.Fatal(err)
		}
		return call{answer: a, sent: map[string]string{workspaceID: "‹id›"}}
	}
	if found := w.exposed(export(w.own.ids[workspaceIDs][0])); found != "" {
		w.fail("the export as %s: something of another tenant: %q", w.caller.name, found)
	}
	for _, workspaceID := range w.foreign.ids[workspaceIDs] {
		theirs, missing := export(workspaceID), export(w.foreign.unknownLike(workspaceID))
		if diff := cmp.Diff(missing.shown(), theirs.shown()); diff != "" || w.exposed(theirs) != "" {
			w.fail("the export of another tenant's audit log as %s (-unknown +another's):\n%s", w.caller.name, diff)
		}
	}
}

// foreignView is the view of the other tenant's owner by the same documents. It contains each of
// their texts, which proves that the walk would find them.
func (w *walker) foreignView() map[string]string {
	w.t.Helper()
	owner := *w // its responses prove only that the texts are visible to the owner
	owner.own, owner.caller = w.foreign, caller{user: w.foreign.members["OWNER"], name: "the other tenant's OWNER"}
	defer func(next int) { w.foreign.next = next }(w.foreign.next)
	w.foreign.next = 0 // the same of the pool each time
	view, all := map[string]string{}, strings.Builder{}
	record := func(one target, v variant, d *document, given map[string]string) {
		c := owner.send(one, v, d, given)
		all.WriteString(c.body)
		view[fmt.Sprint(c, v)] = owner.comparable(c)
	}
	reads, _ := w.targets()
	for _, one := range reads {
		if one.way[0].parent.Name == w.schema.subscription {
			continue // queries cover its result
		}
		for _, v := range one.alternatives() {
			if v.rare || one.public != "" {
				continue
			}
			d := owner.document(one, v)
			record(one, v, d, nil)
			for _, key := range one.namesSomething(v) {
				for _, value := range kindIn(v, key).all(w.foreign) {
					record(one, v, d, map[string]string{key: kindIn(v, key).wrapped(value)})
				}
			}
		}
	}
	for _, text := range w.foreign.texts {
		if !strings.Contains(all.String(), text) {
			w.fail("the other tenant's owner does not see %q: the walk would not see it either", text)
		}
	}
	return view
}

// compareWithTable fails the test if the schema and the table differ.
func (w *walker) compareWithTable() {
	w.t.Helper()
	var wrong []string
	known := map[string]bool{}
	for _, f := range w.schema.fields() {
		known[f.key()] = true
		if _, ok := operations[f.key()]; !ok && w.schema.isRoot(f.parent.Name) {
			wrong = append(wrong, f.key()+" is new: add its calls to operations (walk_table_test.go).")
		}
		for _, p := range w.schema.places(f) {
			known[p.key] = true
			w.needed[p.key] = w.needed[p.key] || p.required || p.firstOfOne || fillers[p.key].always
			if _, ok := fillers[p.key]; !ok {
				wrong = append(wrong, p.key+" is new: add its value to fillers (walk_table_test.go). If it identifies a "+
					"tenant's object, use names(kind), and create such an object in every estate.")
			}
		}
	}
	for _, key := range named() {
		if !known[key] {
			wrong = append(wrong, key+" is no longer in the schema: remove it from walk_table_test.go.")
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		w.t.Fatalf("the walk does not know the schema:\n%s", strings.Join(slices.Compact(wrong), "\n"))
	}
}

// isCovered fails the test if a field was in no response, or a place never received a value.
func (w *walker) isCovered() {
	w.t.Helper()
	for _, f := range w.schema.fields() {
		if !w.answered[f.key()] {
			w.t.Errorf("no response contains %s: a leak in it would not be detected", f.key())
		}
	}
	for key := range fillers {
		if !w.sent[key] {
			w.t.Errorf("%s never received a value", key)
		}
	}
}

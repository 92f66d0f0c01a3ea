package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// TestWalk_DisclosesNothingOfOtherWorkspaces calls every operation of the schema, with every argument, with what
// belongs to another tenant: in every role, with an API key and anonymously. No text of the other
// tenant is ever in an answer, nothing of it changes, and the answer is the same as for what does
// not exist.
//
// The calls are generated from the schema and the values in walk_table_test.go. An
// operation or an argument that is missing from the table fails the test.
func TestWalk_DisclosesNothingOfOtherWorkspaces(t *testing.T) {
	t.Parallel()
	others := suitetest.Size(brief, usual)
	t.Run("sqlite", func(t *testing.T) { // which has no row-level security: the application alone keeps tenants apart
		t.Parallel()
		walk(t, embedded(t), plan{owner: suitetest.Size(thorough, exhaustive), anonymous: others, others: others})
	})
	t.Run("postgres", func(t *testing.T) { // where operations are the same for all roles
		t.Parallel()
		walk(t, production(t), plan{owner: suitetest.Size(thorough, exhaustive), anonymous: others})
	})
}

// effort is how much a caller tries.
type effort int

const (
	none effort = iota // leaves a caller out
	// brief is one variant of each target, with objects of the other tenant in all places at once.
	brief
	// usual is all variants that are not rare, also with one such object at a time.
	usual
	// thorough is all variants.
	thorough
	// exhaustive is also every subset of places, and objects in every state.
	exhaustive
)

// plan is the effort of the workspace's owner, of anonymous clients, and of the other callers, who only differ
// in their permissions.
type plan struct{ owner, anonymous, others effort }

// newWalker starts a server, and compares its schema with the table.
func newWalker(t *testing.T, b backend) *walker {
	t.Helper()
	nextMonth(t)
	// which would change links meanwhile
	s := start(t, b, "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_MAX_COST=20000")
	w := &walker{
		t: t, server: s, schema: schemaOf(t), began: time.Now().UTC().Truncate(time.Second),
		needed: map[string]bool{}, sentNames: map[string]string{},
	}
	w.compareWithTable()
	return w
}

// runJobs runs the jobs that must not run meanwhile.
func (w *walker) runJobs() {
	for _, job := range []string{"transitions", "click days"} {
		succeed(w.t, w.server.env, "jobs", "run", job)
	}
}

func walk(t *testing.T, b backend, callers plan) {
	w := newWalker(t, b)
	w.createTenants(b, callers)
	w.runJobs()
	d := must.Value(b.open())(t)
	defer d.Close()
	awaitMarked(t, d)
	own, foreign := w.own.rows(d), w.foreign.rows(d)
	w.foreign.addSecrets(foreign, own)
	w.known = fmt.Sprint(own)
	owner, documents := w.foreignOwner()
	view := owner.view(documents)

	w.walkAll()

	if diff := cmp.Diff(foreign, w.foreign.rows(d)); diff != "" {
		t.Errorf("the other tenant's rows have changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(view, owner.view(documents)); diff != "" {
		t.Errorf("what the other tenant's owner sees has changed (-before +after):\n%s", diff)
	}
	w.isCovered()
}

// walker is what all callers share.
type walker struct {
	t      *testing.T
	server *server
	schema *schema
	began  time.Time
	// isFenced means that the callers are API keys with folders, and the foreign estate is outside of these.
	isFenced bool
	// own is the callers' tenant, foreign the one that they must not see.
	own, foreign *estate
	callers      []*caller
	// needed are the places that are filled in every call.
	needed map[string]bool
	// sentNames maps values of the other tenant that mutations have received to a placeholder.
	sentNames map[string]string
	// known is all that the callers' tenant had at the beginning.
	known string
}

// caller is a user, an API key or an anonymous caller, who goes through the schema.
type caller struct {
	*walker
	user
	t      *testing.T
	name   string
	effort effort
	// account callers also try operations on accounts. Roles have no effect there, and each try hashes
	// a password.
	account bool
	// answered are the fields that have been in an answer, sent the places that have been filled.
	answered, sent map[string]bool
	failures       int
	requests       int
}

func (w *walker) newCaller(name string, who user, tries effort, account bool) *caller {
	return &caller{walker: w, user: who, t: w.t, name: name, effort: tries, account: account,
		answered: map[string]bool{}, sent: map[string]bool{}}
}

// createTenants creates both tenants, the foreign one last: its objects are the newest, so a leak
// would list them first.
func (w *walker) createTenants(b backend, efforts plan) {
	w.t.Helper()
	bridge := (&estate{t: w.t, s: w.server}).newUser("bridge", word("bridge")+"@example.com", "bridge")
	w.own = newEstate(w.t, w.server, b, "m", bridge, 1, "ADMIN", "EDITOR", "VIEWER")
	w.foreign = newEstate(w.t, w.server, b, "z", bridge, poolSize, "VIEWER")
	_, all := w.own.key(keyScopes()...)
	_, one := w.own.key("LINKS_READ")
	program := func(token string) user { return user{client: client{server: w.server, token: token}} }
	w.callers = slices.DeleteFunc([]*caller{
		w.newCaller("OWNER", w.own.members["OWNER"], efforts.owner, true),
		w.newCaller("ADMIN", w.own.members["ADMIN"], efforts.others, false),
		w.newCaller("EDITOR", w.own.members["EDITOR"], efforts.others, false),
		w.newCaller("VIEWER", w.own.members["VIEWER"], efforts.others, false),
		w.newCaller("an API key", program(all), efforts.others, true),
		w.newCaller("an API key with one scope", program(one), efforts.others, false),
		w.newCaller("an anonymous client", program(""), efforts.anonymous, true),
	}, func(c *caller) bool { return c.effort == none })
}

// walkAll has all callers read at once, before anything changes. Then they write, one after another: what one
// changes in their tenant would change the responses to another.
func (w *walker) walkAll() {
	reads, writes := w.attempts()
	w.t.Run("reads", func(t *testing.T) {
		for _, c := range w.callers {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.tryAll(t, reads)
			})
		}
	})
	for _, c := range w.callers {
		w.t.Run("writes as "+c.name, func(t *testing.T) { c.tryAll(t, writes) })
	}
	requests := 0
	for _, c := range w.callers {
		c.t = w.t
		c.export()
		requests += c.requests
	}
	w.t.Logf("%d requests, %d of the pool", requests, w.foreign.next)
}

func (c *caller) tryAll(t *testing.T, attempts []attempt) {
	c.t = t
	for _, a := range attempts {
		if c.tries(a) {
			c.try(a)
		}
	}
}

// tries reports whether the attempt is part of the caller's effort.
func (c *caller) tries(a attempt) bool {
	switch {
	case a.hashes && !c.account:
		return false
	case c.effort == brief:
		return a.brief
	}
	return !a.rare || c.effort >= thorough
}

// try calls a target with mixtures of the caller's own and another tenant's things, and with things
// of that tenant's in other states.
func (c *caller) try(a attempt) {
	foreign := c.foreignKeys(a)
	if c.isFenced && len(foreign) == 0 && len(a.namesSomething()) > 0 { // all own: the other walk tries that
		return
	}
	if len(foreign) == 0 || a.alone || !a.writes && a.isNew() {
		c.examine(a, c.send(a, nil))
	}
	for _, mixture := range c.mixtures(foreign) {
		given := map[string]string{}
		for _, key := range mixture {
			given[key] = a.kind(key).all(c.foreign)[0]
		}
		c.compare(a, given)
	}
	if c.effort < exhaustive {
		return
	}
	for _, key := range foreign {
		for _, other := range a.kind(key).all(c.foreign)[1:] {
			c.compare(a, map[string]string{key: other})
		}
	}
}

// mixtures returns sets of places that receive objects of another tenant, while the other places
// receive the caller's own: all together and, with more effort, each place alone, or every subset.
func (c *caller) mixtures(keys []string) (all [][]string) {
	for set := uint(1); set < 1<<len(keys); set++ {
		var mixture []string
		for i, key := range keys {
			if set&(1<<i) != 0 {
				mixture = append(mixture, key)
			}
		}
		if len(mixture) == len(keys) || len(mixture) == 1 && c.effort >= usual || c.effort == exhaustive {
			all = append(all, mixture)
		}
	}
	return all
}

// compare calls a target with objects of the other tenant, and with unknown objects.
func (c *caller) compare(a attempt, given map[string]string) {
	c.t.Helper()
	theirs, missing := map[string]string{}, map[string]string{}
	for key, value := range given {
		k := a.kind(key)
		theirs[key], missing[key] = k.wrapped(value), k.wrapped(c.unknownLike(value))
	}
	got := c.send(a, theirs)
	if a.writes {
		c.remember(a, theirs)
	}
	want := c.send(a, missing)
	for range overtaken {
		if got.isSilent() == want.isSilent() {
			break
		}
		if got.isSilent() {
			got = c.send(a, theirs)
		} else {
			want = c.send(a, missing)
		}
	}
	c.examine(a, got)
	c.examine(a, want)
	if a.writes && a.fromPool(given) && (len(got.codes()) == 0 || strings.Contains(got.body, `"created":true`)) {
		if c.foreign.next++; c.foreign.next == len(c.foreign.pool) {
			c.t.Fatal("all links of the pool are used: increase poolSize")
		}
	}
	if c.saysExistence(a, given, got, want) {
		return
	}
	if a.public != "" || a.taken != "" && slices.Equal(got.codes(), []string{a.taken}) || got.text == want.text {
		return
	}
	if diff := cmp.Diff(c.comparable(want), c.comparable(got)); diff != "" {
		c.fail("%s: the answer about what is another tenant's differs from that about what does not exist (-unknown "+
			"+another's):\n%s", got, diff)
	}
}

// fromPool reports whether a value belongs to a link of the pool.
func (a attempt) fromPool(given map[string]string) bool {
	for key := range given {
		if a.kind(key).pool != nil {
			return true
		}
	}
	return false
}

// unexpectedCodes are codes of calls that fail before any object is looked up.
var unexpectedCodes = []string{"BAD_REQUEST", "INVALID_INPUT", "INVALID_URL", "COMPLEXITY_LIMIT_EXCEEDED",
	"RATE_LIMITED", "INTERNAL", "UNAVAILABLE"}

// examine checks that a response has no unexpected code and no data of the other tenant.
func (c *caller) examine(a attempt, got call) {
	c.t.Helper()
	for _, code := range got.codes() {
		if slices.Contains(unexpectedCodes, code) && code != a.refuses {
			c.fail("%s: %s: the walk does not call it correctly: %.1000s\n%s", got, code, got.body, a.document.text)
		}
	}
	if found := c.exposed(got); found != "" {
		c.fail("%s: something of another tenant is in the answer: %q: %.1000s", got, found, got.body)
	}
}

// exposed returns a text of the other tenant that a response contains and no caller has sent, or
// nothing.
func (w *walker) exposed(got call) string {
	found := w.foreign.exposed(got.text)
	if found != "" {
		found = w.foreign.exposed(replaceAll(got.text, w.sentNames))
	}
	return found
}

// remember records names of the other tenant that the callers' tenant may also have now, because a
// caller has sent them: a URL, a host, an address to invite. IDs are never shared.
func (w *walker) remember(a attempt, given map[string]string) {
	for key, value := range given {
		if a.kind(key).fresh != nil {
			w.sentNames[value] = "‹sent before›"
		}
	}
}

// fail fails the test, and ends the caller's part of it after 20 failures.
func (c *caller) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf(format, args...)
	if c.failures++; c.failures >= 20 {
		c.t.Fatal("too many failures")
	}
}

// export requests the audit export, the only tenant data outside of GraphQL.
func (c *caller) export() {
	export := func(workspaceID string) call {
		var headers []string
		if c.token != "" {
			headers = []string{"Authorization", "Bearer " + c.token}
		}
		a, err := c.get("/export/audit/"+workspaceID, headers...)
		if err != nil {
			c.t.Fatal(err)
		}
		return newCall(a, map[string]string{workspaceID: "‹id›"})
	}
	if found := c.exposed(export(c.own.ids[workspaceIDs][0])); found != "" {
		c.fail("the export as %s: something of another tenant: %q", c.name, found)
	}
	for _, workspaceID := range c.foreign.ids[workspaceIDs] {
		theirs, missing := export(workspaceID), export(c.unknownLike(workspaceID))
		if diff := cmp.Diff(missing.text, theirs.text); diff != "" || c.exposed(theirs) != "" {
			c.fail("the export of another tenant's audit log as %s (-unknown +another's):\n%s", c.name, diff)
		}
	}
}

// foreignOwner returns the other tenant's owner, and queries that show them all texts of their tenant.
func (w *walker) foreignOwner() (*caller, []attempt) {
	other := *w
	other.own = w.foreign
	reads, _ := other.attempts()
	return other.newCaller("the other tenant's OWNER", w.foreign.members["OWNER"], usual, true),
		slices.DeleteFunc(reads, func(a attempt) bool {
			// Queries cover the results of subscriptions.
			return a.rare || a.public != "" || a.way[0].parent.Name == w.schema.subscription ||
				!suitetest.Exhaustive() && !slices.Contains(overview, a.name())
		})
}

// view returns the responses to the tenant's owner. It contains each of the tenant's texts, which proves
// that the walk would find them.
func (c *caller) view(reads []attempt) map[string]string {
	c.t.Helper()
	defer func(next int) { c.own.next = next }(c.own.next)
	c.own.next = 0 // the same of the pool each time
	view, all := map[string]string{}, strings.Builder{}
	record := func(a attempt, given map[string]string) {
		got := c.send(a, given)
		all.WriteString(got.body)
		view[fmt.Sprint(got, a.variant)] = c.comparable(got)
	}
	for _, a := range reads {
		record(a, nil)
		for _, key := range a.namesSomething() {
			for _, value := range a.kind(key).all(c.own) {
				record(a, map[string]string{key: a.kind(key).wrapped(value)})
			}
		}
	}
	for _, text := range c.own.texts {
		if !strings.Contains(all.String(), text) {
			c.fail("the other tenant's owner does not see %q: the walk would not see it either", text)
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
		_, ok := operations[f.key()]
		if ok = ok || slices.Contains(plainOperations, f.key()); !ok && w.schema.isRoot(f.parent.Name) {
			wrong = append(wrong, f.key()+" is new: add it to operations or plainOperations (walk_table_test.go).")
		}
		for _, p := range w.schema.places(f) {
			known[p.key] = true
			f, ok := fillerOf(p.key)
			w.needed[p.key] = w.needed[p.key] || p.required || p.firstOfOne || f.always
			if !ok {
				wrong = append(wrong,
					p.key+" is new: add its value to fillers (walk_table_test.go). If it identifies a "+
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
	answered, sent := map[string]bool{}, map[string]bool{}
	for _, c := range w.callers {
		maps.Copy(answered, c.answered)
		maps.Copy(sent, c.sent)
	}
	for _, f := range w.schema.fields() {
		// A challenge is for who has the password, and is tested by TestSecondFactor_OnEveryNode.
		if !answered[f.key()] && !strings.HasPrefix(f.key(), "LoginChallenge.") {
			w.t.Errorf("no response contains %s: a leak in it would not be detected", f.key())
		}
		for _, p := range w.schema.places(f) {
			if !sent[p.key] {
				w.t.Errorf("%s never received a value", p.key)
			}
		}
	}
}

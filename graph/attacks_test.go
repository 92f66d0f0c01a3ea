package graph

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// attack is a request that is meant to cost far more than it takes to send. It is answered by the
// code; empty if the operation is within the limits and executed.
type attack struct{ name, body, code string }

// attacks are of strangers, and of members where the name says so.
func attacks() []attack {
	document := func(text string) string { return `{"query":"` + strings.ReplaceAll(text, `"`, `\"`) + `"}` }
	aliased := func(n int, field string) (text string) {
		for i := range n {
			text += fmt.Sprintf(" a%d: %s", i, field)
		}
		return text
	}
	const tooMuch = "COMPLEXITY_LIMIT_EXCEEDED"
	variables := func(text string) string { return `{"query":"{ __typename }","variables":{"x":` + text + `}}` }
	batch := strings.TrimSuffix(strings.Repeat(document("{ platformStats { totalLinks } }")+",", 1000), ",")
	within := instance().Bounds
	return []attack{
		{"10,000 repeated fields", document("{" + strings.Repeat(" me", 10_000) + " }"), "BAD_REQUEST"},
		{"900 repeated fields", document("{ me {" + strings.Repeat(" id", 900) + " } }"), tooMuch},
		{"a fragment bomb of 2^22", document(bomb(22)), tooMuch},
		{"a fragment bomb of 2^60 that nothing spreads",
			document("{ __typename " + strings.TrimPrefix(bomb(60), "{ ...Aa")), tooMuch},
		{"12 fragments that spread each other", document(circles(12)), "BAD_REQUEST"},
		{"1,000 aliases", document("{" + aliased(1000, "platformStats { totalLinks }") + " }"), "BAD_REQUEST"},
		{"150 aliases", document("{" + aliased(150, "platformStats { totalLinks }") + " }"), tooMuch},
		{"nesting, 10,000 deep", document(strings.Repeat("{ me ", 10_000)), "BAD_REQUEST"},
		{"nesting, 300 deep", document(deep(300)), tooMuch},
		{"a list in a document, 30,000 deep", document("{ node(id: " + strings.Repeat("[", 30_000)), "BAD_REQUEST"},
		{"10,000 directives", document("{ me" + strings.Repeat(" @a", 10_000) + " { id } }"), "BAD_REQUEST"},
		{"450 directives", document("{ me" + strings.Repeat(" @a", 450) + " { id } }"), tooMuch},
		{"a page of pages", document("{ me { workspaces(first: 100) { edges { node { links(first: 100) { edges { " +
			"node { id } } } } } } } }"), tooMuch},
		{"100 aliased log-ins", document("mutation {" +
			aliased(100, `login(input: {email: "a@example.com", password: "guess"}) { token }`) + " }"), "BAD_REQUEST"},
		{"50 short log-ins",
			document("mutation ($i: LoginInput!) {" + aliased(50, `login(input: $i) { token }`) + " }"), "BAD_REQUEST"},
		{"two passwords of two kinds", document(`mutation { login(input: {email: "a@example.com", password: "b"}) ` +
			`{ token } deleteMyAccount(input: {password: "b"}) { errors { code } } }`), "BAD_REQUEST"},
		{"1,000 operations in a batch", "[" + batch + "]", "BAD_REQUEST"},
		{"a document of 64 KiB in one name",
			document("{ " + strings.Repeat("x", within.Document-4) + " }"), "BAD_REQUEST"},
		{"900 unknown fields", document("{ me {" + strings.Repeat(" idd naame emaill", 300) + " } }"), tooMuch},
		{"230 variables that are not used",
			document("query (" + strings.Repeat("$xx: Int ", 230) + ") { __typename }"), "BAD_REQUEST"},
		{"variables of 1 MiB", variables(`"` + strings.Repeat("x", 1<<20) + `"`), "REQUEST_TOO_LARGE"},
		{"variables of 11 MiB, logged in", variables(`"` + strings.Repeat("x", 11<<20) + `"`), "REQUEST_TOO_LARGE"},
		{"5,000,000 numbers in variables, logged in",
			variables("[0" + strings.Repeat(",0", 5_000_000) + "]"), "REQUEST_TOO_LARGE"},
		{"a list in variables, 100,000 deep", variables(strings.Repeat("[", 100_000)), "REQUEST_TOO_LARGE"},
		{"a list in variables, 90,000 deep",
			variables(strings.Repeat("[", 90_000) + strings.Repeat("]", 90_000)), "BAD_REQUEST"},

		{"all that is allowed: 5 fields, 100 times each",
			document("{ me {" + strings.Repeat(" id name email createdAt __typename", 100) + " } }"), ""},
		{"all that is allowed: 90 times the same object with 5 fields",
			document("{ me { id }" + strings.Repeat(" me { id name email createdAt __typename }", 90) + " }"), ""},
		{"all that is allowed: 45 times the same 18 levels, too dear",
			document("{ me { id }" + strings.Repeat(" ...F", 45) + " } fragment F on Query " + deep(18)), tooMuch},
		{"all that is allowed: 45 objects with the same 16 levels, too dear", document("{ me { id }" +
			strings.Repeat(" me { ...F }", 45) + " } fragment F on User " +
			strings.TrimSuffix(strings.TrimPrefix(deep(17), "{me"), " }")), tooMuch},
		{"all that is allowed: 90 unknown fields",
			document("{ me {" + strings.Repeat(" idd naame emaill", 30) + " } }"), "BAD_REQUEST"},
		{"all that is allowed: 99,000 numbers in variables", variables("[0" + strings.Repeat(",0", 99_000) + "]"), ""},
		{"all that is allowed: variables of 250 KiB", variables(`"` + strings.Repeat("x", 250<<10) + `"`), ""},
		{"all that is allowed: variables of 10 MiB, logged in",
			variables(`"` + strings.Repeat("x", 10<<20-100) + `"`), ""},
	}
}

// TestLimits_RefuseAttacks checks the code of each, which states the limit that refused it.
func TestLimits_RefuseAttacks(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada").token
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) { a.strike(t, b, ada, 0) })
	}
	const login = `mutation { login(input: {email: "a@example.com", password: "guess"}) { token } }`
	if r := b.ask(t, "", login); r.Codes() != "RATE_LIMITED" {
		t.Errorf("a log-in after hundreds in refused operations: %s", r.Text)
	}
}

// strike sends the attack for the n-th time.
func (a attack) strike(t testing.TB, b *bundle, member string, n int) {
	t.Helper()
	token, body := "", a.body
	if strings.HasSuffix(a.name, "logged in") {
		token = member
	}
	if strings.HasPrefix(a.name, "all that is allowed") { // another document each time, which is not cached
		body = strings.Replace(body, "{ me", fmt.Sprintf("query Q%d { me", n), 1)
	}
	r := b.send(t, token, http.MethodPost, "/graphql", "application/json", body, mediaGraphQL)
	code, _, _ := strings.Cut(r.Codes(), " ")
	status := cmp.Or(map[string]int{"": http.StatusOK, "REQUEST_TOO_LARGE": http.StatusRequestEntityTooLarge}[a.code],
		http.StatusBadRequest)
	if r.Status != status || code != a.code || (a.code != "") == (r.Data != nil) {
		t.Fatalf("%d %q, want %d %q: %.300s", r.Status, code, status, a.code, r.Text)
	}
}

// mostCPU bounds the CPU time until an attack is refused.
const mostCPU = 50 * time.Millisecond

// BenchmarkAttacks measures the cost of refusing each attack: CPU time of the whole process
// including garbage collection, and allocated bytes. It fails above mostCPU.
func BenchmarkAttacks(b *testing.B) {
	// which suggests names
	e := setup(b, dbtest.MigratedSQLite(b), func(c *Config) { c.Introspection = true })
	ada := e.person(b, "ada").token
	for _, a := range attacks() {
		b.Run(a.name, func(b *testing.B) {
			b.ReportAllocs()
			before, n := processorTime(b), 0
			for b.Loop() {
				n++
				a.strike(b, e, ada, n)
			}
			each := (processorTime(b) - before) / time.Duration(b.N)
			b.ReportMetric(float64(each.Microseconds())/1000, "cpu-ms/op")
			b.ReportMetric(0, "ns/op")
			if a.code != "" && each > mostCPU {
				b.Errorf("it takes %s of the processor's time, more than %s", each, mostCPU)
			}
		})
	}
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

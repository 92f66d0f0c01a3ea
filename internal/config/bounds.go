package config

import (
	"cmp"
	"time"
)

// Bounds are what one GraphQL request may ask for. All but the first four are counted with fragments spread.
type Bounds struct {
	// Body is how many bytes a request's body may have of somebody who is logged in, AnonymousBody of everybody else,
	// Values how many values its JSON may hold.
	Body, AnonymousBody, Values int
	// Document is how many bytes a document may have, Tokens how many words and signs.
	Document, Tokens int
	// Fields is how many fields an operation may have, RootFields how many of them at its root, Depth how deep they nest.
	Fields, RootFields, Depth int
	// Aliases is how many of the fields may have another name, Repeats how many in one place the same one.
	Aliases, Repeats int
	// Fragments is how many fragments may be spread, and Directives how many directives there may be.
	Fragments, Directives int
	// Cost is what an operation may cost, Deadline how long it may take.
	Cost     int
	Deadline time.Duration
}

// mostCost is the largest cost that can be configured.
const mostCost = 1 << 40

// bounds reads them. The upper ends leave it to the operator to allow what is slow, but not what is absurd.
func (p *problems) bounds(f Flags) Bounds {
	number := func(name, value, usual string, most int64) int {
		return int(p.number(name, cmp.Or(value, usual), 1, most))
	}
	return Bounds{
		Body:          number("LINKFORGE_MAX_BODY", f.MaxBody, "10485760", 1<<30),
		AnonymousBody: number("LINKFORGE_MAX_ANONYMOUS_BODY", f.MaxAnonymousBody, "262144", 1<<30),
		Values:        number("LINKFORGE_MAX_VALUES", f.MaxValues, "100000", 1<<30),
		Document:      number("LINKFORGE_MAX_DOCUMENT", f.MaxDocument, "65536", 1<<24),
		Tokens:        number("LINKFORGE_MAX_TOKENS", f.MaxTokens, "1000", 1_000_000),
		Fields:        number("LINKFORGE_MAX_FIELDS", f.MaxFields, "1000", 1_000_000),
		RootFields:    number("LINKFORGE_MAX_ROOT_FIELDS", f.MaxRootFields, "100", 1_000_000),
		Depth:         number("LINKFORGE_MAX_DEPTH", f.MaxDepth, "20", 1000),
		Aliases:       number("LINKFORGE_MAX_ALIASES", f.MaxAliases, "100", 1_000_000),
		Repeats:       number("LINKFORGE_MAX_REPEATS", f.MaxRepeats, "100", 1_000_000),
		Fragments:     number("LINKFORGE_MAX_FRAGMENTS", f.MaxFragments, "500", 1_000_000),
		Directives:    number("LINKFORGE_MAX_DIRECTIVES", f.MaxDirectives, "50", 1_000_000),
		Cost:          number("LINKFORGE_MAX_COST", f.MaxCost, "10000", mostCost),
		Deadline:      p.duration("LINKFORGE_OPERATION_DEADLINE", cmp.Or(f.OperationDeadline, "15s"), time.Second, 10*time.Minute),
	}
}

// costRate is how many points of cost a minute there are: at least as many as one operation may cost.
func (p *problems) costRate(value string, development bool, b Bounds) int64 {
	usual := "600000"
	if development {
		usual = "6000000"
	}
	rate := p.number("LINKFORGE_COST_RATE", cmp.Or(value, usual), 1, mostCost)
	if rate > 0 && b.Cost <= mostCost && rate < int64(b.Cost) { // else it has been said
		p.add("LINKFORGE_COST_RATE", "must be at least LINKFORGE_MAX_COST, which is what one operation may cost")
	}
	return rate
}

// documentsOnly needs a file that says which documents.
func (p *problems) documentsOnly(value, file string) bool {
	only := p.toggle("LINKFORGE_DOCUMENTS_ONLY", value, false)
	if only && file == "" {
		p.add("LINKFORGE_DOCUMENTS_ONLY", "needs LINKFORGE_DOCUMENTS, the file of the documents that are allowed")
	}
	return only
}

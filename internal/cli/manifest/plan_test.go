package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// link is an existing link with the key a, which equals {key: a, url: "https://example.com/"}.
func link(change func(*Existing)) *Existing {
	e := &Existing{
		ID: "lnk_a", Code: "abc", Strategy: random, ExternalID: "site/a",
		Values: linkfield.Values{
			OriginalURL: "https://example.com/", Settings: routing.Settings{RedirectStatus: 302},
		},
		Metadata: []*linkfield.Pair{{Key: "owner", Value: "site"}},
		Routing:  &Routing{Query: &routing.Forwarding{Mode: routing.Off}, Bots: new(routing.RedirectBots)},
	}
	if change != nil {
		change(e)
	}
	return e
}

func coded(code string) func(*Existing) {
	return func(e *Existing) { e.Strategy, e.Code = custom, code }
}

// marked marks a link as being replaced.
func marked(e *Existing) {
	e.ExternalID = ""
	e.Metadata = append(e.Metadata, &linkfield.Pair{Key: "replaced", Value: "a"})
}

func gated(e *Existing) { e.Routing.Gate = &Gate{HasPassword: true} }

// existing returns a link for each change.
func existing(changes ...func(*Existing)) (all []*Existing) {
	for _, change := range changes {
		all = append(all, link(change))
	}
	return all
}

// TestNewPlan_Compares links of a file with links that exist.
func TestNewPlan_Compares(t *testing.T) {
	t.Parallel()
	const plain = `{key: a, url: "https://example.com/"}`
	const open = `{key: a, url: "https://example.com/", `
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		links    string
		existing []*Existing
		prune    bool
		want     string
	}{
		"nothing": {"", nil, true, "0 unchanged"},
		"create": {plain, nil, false,
			`CREATE site/a url:null>"https://example.com/" strategy:null>"RANDOM" redirectStatus:null>302 ` +
				`metadata:null>[{"key":"owner","value":"site"}]; 0 unchanged`},
		"unchanged": {plain, existing(nil), true, "1 unchanged"},
		"a value":   {open + `title: T}`, existing(nil), false, `UPDATE site/a title:null>"T"; 0 unchanged`},
		"a value removed": {plain, existing(func(e *Existing) { e.Archived, e.Tags = true, []string{"x"} }),
			false, `UPDATE site/a tags:["x"]>null archived:true>null; 0 unchanged`},
		"default status": {plain, existing(func(e *Existing) { e.RedirectStatus = 301 }), false,
			"UPDATE site/a redirectStatus:301>302; 0 unchanged"},
		"same instant": {open + `expiresAt: 2030-01-02T02:04:05.0000001Z}`,
			existing(func(e *Existing) { e.ExpiresAt = &at }), false, "1 unchanged"},
		"routing": {open + `routing: {bots: BLOCK}}`,
			existing(func(e *Existing) { e.Routing.ForwardPath = true }), false,
			`UPDATE site/a routing.forwardPath:true>null routing.bots:null>"BLOCK"; 0 unchanged`},
		"deleted": {plain, existing(func(e *Existing) { e.DeletedAt = &at }), false,
			"UPDATE site/a deleted:true>false; 0 unchanged"},
		"another strategy": {open + `strategy: COUNTER}`, existing(nil), false,
			`REPLACE site/a strategy:"RANDOM">"COUNTER"; 0 unchanged`},
		"another code": {open + `code: y}`, existing(coded("x")), false,
			`REPLACE site/a code:"x">"y"; 0 unchanged`},
		"spelling of a code": {open + `code: PromO}`, existing(coded("promo")), false, "1 unchanged"},
		"code of a domain": {open + `code: É, domainId: folds}`,
			existing(func(e *Existing) { coded("é")(e); e.Domain = &reference{"folds"} }), false, "1 unchanged"},
		"case in a domain": {open + `code: É, domainId: exact}`,
			existing(func(e *Existing) { coded("é")(e); e.Domain = &reference{"exact"} }), false,
			`REPLACE site/a code:"é">"É"; 0 unchanged`},
		"another domain": {open + `domainId: exact}`, existing(nil), false,
			`REPLACE site/a domainId:null>"exact"; 0 unchanged`},
		"deterministic URL": {`{key: a, url: "https://example.com/b", strategy: DETERMINISTIC}`,
			existing(func(e *Existing) { e.Strategy = deterministic }), false,
			`REPLACE site/a url:"https://example.com/">"https://example.com/b"; 0 unchanged`},
		"deterministic spelling": {`{key: a, url: "https://EXAMPLE.com/", strategy: DETERMINISTIC}`,
			existing(func(e *Existing) { e.Strategy = deterministic }), false,
			`UPDATE site/a url:"https://example.com/">"https://EXAMPLE.com/"; 0 unchanged`},
		"adopted": {`{key: b, url: "https://example.com/", code: x}`,
			existing(func(e *Existing) { coded("x")(e); e.ExternalID = "" }), true,
			`UPDATE site/b externalId:null>"site/b"; 0 unchanged`},
		"renamed": {`{key: b, url: "https://example.com/", code: x}`, existing(coded("x")), true,
			`UPDATE site/b externalId:"site/a">"site/b"; 0 unchanged`},
		"code of another owner": {`{key: b, url: "https://example.com/", code: x}`,
			existing(func(e *Existing) { coded("x")(e); e.ExternalID = "crm/1" }), true,
			`"b": the link with this code has the external id "crm/1"`},
		"same code twice": {open + "code: x}\n- {key: b, url: \"https://example.com/b\", code: X}",
			nil, false, `"a" and "b" have the same code`},
		"exchanged codes": {open + "code: y}\n- {key: b, url: \"https://example.com/\", code: x}",
			existing(coded("x"), func(e *Existing) { coded("y")(e); e.ID, e.ExternalID = "lnk_b", "site/b" }), true,
			`REPLACE site/a code:"x">"y"; REPLACE site/b code:"y">"x"; 0 unchanged`},
		"unlisted":       {"", existing(nil), false, "0 unchanged, 1 unlisted"},
		"pruned":         {"", existing(nil), true, "DELETE site/a; 0 unchanged"},
		"pruned already": {"", existing(func(e *Existing) { e.DeletedAt = &at }), true, "0 unchanged"},
		"not the owner's": {"", existing(func(e *Existing) { e.ExternalID = "sites/a" },
			func(e *Existing) { e.ExternalID = "" }), true, "0 unchanged"},
		"left by a replacement": {open + `strategy: COUNTER}`,
			existing(marked, func(e *Existing) { e.ID, e.Strategy = "lnk_new", "COUNTER" }), false,
			"DELETE site/a; 1 unchanged"},
		"replacement undone": {plain, existing(marked), false,
			`UPDATE site/a metadata:[{"key":"owner","value":"site"},{"key":"replaced",` +
				`"value":"a"}]>[{"key":"owner","value":"site"}] externalId:null>"site/a"; 0 unchanged`},
		"mark of a key without a link": {"", existing(marked), false, "0 unchanged, 1 unlisted"},
		"password kept":                {plain, existing(gated), false, "1 unchanged"},
		"password demanded": {open + `routing: {gate: {hasPassword: true}}}`,
			existing(nil), false, `"a": routing.gate.hasPassword demands a password`},
		"password of a new link": {open + `routing: {gate: {hasPassword: true}}}`, nil, false,
			`"a": routing.gate.hasPassword demands a password`},
		"password would be lost": {open + `code: y}`, existing(gated), false,
			`"a": the link has a password, which a replacement would not have`},
		"password that is wanted": {open + `routing: {gate: {hasPassword: true}}}`, existing(gated), false,
			"1 unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := valid + "- " + c.links + "\n"
			if c.links == "" {
				text = "version: 1\nowner: site\nlinks: []\n"
			}
			f, err := Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := NewPlan(f, c.existing,
				Settings{DefaultRedirectStatus: 302, CaseSensitiveDomains: map[string]bool{"exact": true}}, c.prune)
			got := fmt.Sprint(err)
			if err == nil {
				got = describe(plan)
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func describe(p *Plan) string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprint(&b, c.Action, " ", c.ExternalID)
		for _, d := range c.Differences {
			fmt.Fprintf(&b, " %s:%s>%s", d.Field, d.From, d.To)
		}
		b.WriteString("; ")
	}
	fmt.Fprint(&b, p.Unchanged, " unchanged")
	if p.Unlisted > 0 {
		fmt.Fprint(&b, ", ", p.Unlisted, " unlisted")
	}
	return b.String()
}

// TestChange_SetsEveryField: an upsert resets absent fields, except the password.
func TestChange_SetsEveryField(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(valid + `- {key: a, url: "https://example.com/", routing: {gate: {notice: N}}}`))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(f, nil, Settings{DefaultRedirectStatus: 302}, false)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(plan.Changes[0].Input)
	const want = `{"archived":false,"customCode":null,"domainId":null,"expiresAt":null,"externalId":"site/a",` +
		`"folderId":null,"maxClicks":null,` +
		`"metadata":[{"key":"owner","value":"site"}],"note":null,"redirectStatus":302,"routing":{"bots":null,` +
		`"card":null,"endedUrl":null,"forwardPath":null,` +
		`"gate":{"confirm":false,"notice":"N"},"pendingUrl":null,"qrSources":null,"query":null,"rules":null,` +
		`"tests":null,"utm":null},"startsAt":null,` +
		`"statsPublic":false,"strategy":"RANDOM","tags":null,"title":null,"url":"https://example.com/"}`
	if string(text) != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}

// TestWrite_IsReadAgain also with texts that YAML would take for something else.
func TestWrite_IsReadAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"true", "301", "~", "a: b", "#x", "- a", "? a", "!x", "&x", "*x", "a\tb", ".nan",
		"é\u00ad\u202e\u0085\u2028\ufeff\x7f\x1b", "😀\U000e0067", `"\`, "a\nb"} {
		e := link(func(e *Existing) {
			e.ExternalID, e.Metadata = "site/k", append([]*linkfield.Pair{{Key: "m", Value: text}}, e.Metadata...)
		})
		s := Settings{DefaultRedirectStatus: 302}
		written := Write("site", []*Existing{e}, s)
		f, err := Parse(written)
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, written)
		}
		if plan, err := NewPlan(f, []*Existing{link(func(again *Existing) { *again = *e })}, s, true); err != nil ||
			describe(plan) != "1 unchanged" {
			t.Errorf("%q: %s, %v\n%s", text, describe(plan), err, written)
		}
		if strings.ContainsAny(string(written), "\u202e\u0085\x1b\u2028\ufeff\u00ad") {
			t.Errorf("the file controls a terminal: %q", written)
		}
	}
}

// TestWrite_KeepsTheOrder of files that earlier versions have written, so that equal links do not
// differ from these.
func TestWrite_KeepsTheOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	written := Write("site", []*Existing{link(func(e *Existing) {
		e.Title, e.Note, e.Tags, e.Folder = new("t"), new("n"), []string{"g"}, &reference{"fld_1"}
		e.StartsAt, e.ExpiresAt, e.MaxClicks, e.RedirectStatus = &at, new(at.Add(1)), new(int64(1)), 301
		e.Archived, e.StatsPublic = true, true
		e.Metadata = append(e.Metadata, &linkfield.Pair{Key: "k", Value: "v"})
	})}, Settings{DefaultRedirectStatus: 302})
	var names []string
	for line := range strings.Lines(string(written)) {
		if name, _, ok := strings.Cut(strings.TrimLeft(line, " -"), ":"); ok {
			names = append(names, name)
		}
	}
	const want = "version owner links key url title note tags folderId startsAt expiresAt maxClicks redirectStatus " +
		"archived statsPublic metadata"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

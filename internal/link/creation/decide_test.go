package creation

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// propose returns a proposal for the URL https://example.com/, like a call that has prepared its
// passwords.
func propose(t *testing.T, in Input) *proposal {
	t.Helper()
	if in.URL == "" {
		in.URL = "https://example.com/"
	}
	if p := in.Fields.Routing.To.NewPassword(); p != nil {
		p.ID, p.Hash = "id of "+p.Text, "#"+p.Text
	}
	p := &proposal{in: &in}
	p.draft = must.Value(p.newDraft(workspace.Public(), noon))(t)
	return p
}

// summary is the act of a decision with the ignored fields, or the code of its error with the
// field.
func (d *decision) summary() string {
	if d.act != refuses {
		return strings.Join(append([]string{string(d.act)}, d.ignored...), " ")
	}
	return strings.Join(append([]string{d.err.Kind.Code()}, d.err.Field...), " ")
}

// TestDecide_ByFacts has a row for each combination of facts and a column for each kind of request.
// Links of upserts, and those of the columns "own id", have the external id "mine". A column that a
// row cannot have is "-".
func TestDecide_ByFacts(t *testing.T) {
	t.Parallel()
	code, mine := new("promo"), new("mine")
	kinds := []Input{
		{}, {Fields: linkfield.Change{ExternalID: to(mine)}}, {CustomCode: code}, {CustomCode: code,
			Fields: linkfield.Change{ExternalID: to(mine)}},
		{Strategy: new(link.Random)}, {Strategy: new(link.Random), Fields: linkfield.Change{ExternalID: to(mine)}},
		{Strategy: new(link.Counter)},
		{Fields: linkfield.Change{ExternalID: to(mine)}}, {CustomCode: code,
			Fields: linkfield.Change{ExternalID: to(mine)}}, {Strategy: new(link.Random),
			Fields: linkfield.Change{ExternalID: to(mine)}},
	}
	const firstUpsert = 7
	hash := sha256.Sum256([]byte("https://example.com/"))
	known := func(id string, change func(*link.Link)) *link.Link {
		l := &link.Link{ID: id, CanonicalHash: hash[:]}
		if change != nil {
			change(l)
		}
		return l
	}
	own := func(l *link.Link) { l.ExternalID = mine }
	other := func(l *link.Link) { l.ExternalID = new("other") }
	gone := func(l *link.Link) { l.DeletedAt = new(noon) }
	purged := func(l *link.Link) { l.DeletedAt, l.PurgedAt = new(noon), new(noon) }
	disabled := func(l *link.Link) { l.DisabledAt = new(noon) }
	elsewhere := func(l *link.Link) { l.CanonicalHash = []byte{1} }
	expired := func(l *link.Link) { l.ExpiresAt = new(noon.Add(-time.Hour)) }
	all := func(changes ...func(*link.Link)) func(*link.Link) {
		return func(l *link.Link) {
			for _, change := range changes {
				change(l)
			}
		}
	}
	names := map[string]string{
		"LATER": "QUOTA_EXCEEDED", "UNSAFE": "UNSAFE_URL url", "DISABLED": "UNSAFE_URL url",
		"CODE":    "CODE_TAKEN customCode",
		"NO_CODE": "CODE_EXHAUSTED url", "NO_RANDOM": "CODE_EXHAUSTED strategy", "OTHER_ID": "CONFLICT externalId",
		"ID_TAKEN": "EXTERNAL_ID_TAKEN externalId", "ANOTHERS": "CONFLICT url", "CONFLICT": "CONFLICT url",
		"KEPT": "CONFLICT customCode",
		"next": string(triesNext),
	}
	refused := errs.New(errs.UnsafeURL, "It is refused.").At("url")
	later := errs.New(errs.QuotaExceeded, "It is used up.")
	same := known("same", own)
	for name, c := range map[string]struct {
		facts facts
		//     URL      own id   code     own id   RANDOM   own id   COUNTER  | upserts by URL, code, RANDOM
		want string
	}{
		"nothing": {facts{}, "insert insert insert insert insert insert insert insert insert insert"},
		"a refused URL": {facts{refused: refused},
			"UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE UNSAFE"},
		"a used up quota": {facts{overQuota: later}, "LATER LATER LATER LATER LATER LATER LATER LATER LATER LATER"},
		"a taken code":    {facts{isTaken: true, hasNextCode: true}, "next next - - next next next next - next"},
		"the last taken code": {facts{isTaken: true},
			"NO_CODE NO_CODE CODE CODE NO_RANDOM NO_RANDOM - NO_CODE CODE NO_RANDOM"},
		"a taken code, a used up quota": {facts{isTaken: true, hasNextCode: true, overQuota: later},
			"next next - - next next next next - next"},

		"it exists": {facts{same: known("a", nil)},
			"return OTHER_ID return OTHER_ID - - - change change -"},
		"it exists, a used up quota": {facts{same: known("a", nil), overQuota: later},
			"return OTHER_ID return OTHER_ID - - - change change -"},
		"it exists, a taken code": {facts{same: known("a", nil), isTaken: true},
			"return OTHER_ID return OTHER_ID - - - change change -"},
		"it exists, refused": {facts{same: known("a", nil), refused: refused},
			"UNSAFE UNSAFE UNSAFE UNSAFE - - - UNSAFE UNSAFE -"},
		"it is expired": {facts{same: known("a", expired)},
			"return OTHER_ID return OTHER_ID - - - change change -"},
		"it has another id": {facts{same: known("a", other)},
			"return OTHER_ID return OTHER_ID - - - ANOTHERS CODE -"},
		"it has the id": {facts{same: same, ofID: same},
			"return return return return - - - change change -"},
		"it was deleted": {facts{same: known("a", gone)},
			"revive OTHER_ID revive OTHER_ID - - - change change -"},
		"it was deleted, a used up quota": {facts{same: known("a", gone), overQuota: later},
			"revive OTHER_ID revive OTHER_ID - - - change change -"},
		"it was deleted with another id": {facts{same: known("a", all(gone, other))},
			"revive OTHER_ID revive OTHER_ID - - - ANOTHERS CODE -"},
		"it was deleted with the id": {facts{same: known("same", all(gone, own)), ofID: known("same", all(gone, own))},
			"revive revive revive revive - - - change change -"},
		"it was purged": {facts{same: known("a", purged)}, "revive revive revive revive - - - revive revive -"},
		"it was deleted, for a caller that creates only": {facts{same: known("a", gone), mayNotRevive: true},
			"CONFLICT OTHER_ID KEPT OTHER_ID - - - - - -"},
		"it was purged, for a caller that creates only": {facts{same: known("a", purged), mayNotRevive: true},
			"CONFLICT CONFLICT KEPT KEPT - - - - - -"},
		"it exists, for a caller that creates only": {facts{same: known("a", nil), mayNotRevive: true},
			"return OTHER_ID return OTHER_ID - - - - - -"},
		"it was disabled": {facts{same: known("a", disabled)},
			"DISABLED DISABLED DISABLED DISABLED - - - DISABLED DISABLED -"},
		"it was disabled and deleted": {facts{same: known("a", all(disabled, gone))},
			"DISABLED DISABLED DISABLED DISABLED - - - DISABLED DISABLED -"},

		"another URL has the code": {facts{ofCode: known("b", elsewhere)}, "- - CODE CODE - - - - change -"},
		"one with another id has it": {facts{ofCode: known("b", all(elsewhere, other))},
			"- - CODE CODE - - - - CODE -"},
		"a deleted one has it": {facts{ofCode: known("b", all(elsewhere, gone))},
			"- - CODE CODE - - - - change -"},
		"a purged one has it": {facts{ofCode: known("b", all(elsewhere, purged))},
			"- - CODE CODE - - - - CODE -"},
		"a disabled one has it": {facts{ofCode: known("b", all(elsewhere, disabled))},
			"- - CODE CODE - - - - DISABLED -"},
		"another has the code and id": {facts{ofCode: known("b", all(elsewhere, own)),
			ofID: known("b", all(elsewhere, own))},
			"- - - ID_TAKEN - - - - change -"},
		"one has the code, one the id": {facts{ofCode: known("b", elsewhere), ofID: known("c", all(elsewhere, own))},
			"- - - ID_TAKEN - - - - change -"},

		"another has the id": {facts{ofID: known("c", all(elsewhere, own))},
			"- ID_TAKEN - ID_TAKEN - ID_TAKEN - change change change"},
		"a disabled one has the id": {facts{ofID: known("c", all(elsewhere, own, disabled))},
			"- ID_TAKEN - ID_TAKEN - ID_TAKEN - change change change"},
		"another has the id, a used up quota": {facts{ofID: known("c", all(elsewhere, own)), overQuota: later},
			"- ID_TAKEN - ID_TAKEN - ID_TAKEN - change change change"},
		"another has the id, refused": {facts{ofID: known("c", all(elsewhere, own)), refused: refused},
			"- UNSAFE - UNSAFE - UNSAFE - UNSAFE UNSAFE UNSAFE"},
		"it exists, another has the id": {facts{same: known("a", nil), ofID: known("c", all(elsewhere, own))},
			"- OTHER_ID - OTHER_ID - - - change change -"},
		"it was purged, another has the id": {facts{same: known("a", purged), ofID: known("c", all(elsewhere, own))},
			"- ID_TAKEN - ID_TAKEN - - - change change -"},
	} {
		wants := strings.Fields(c.want)
		if len(wants) != len(kinds) {
			t.Fatalf("%s has %d columns", name, len(wants))
		}
		for i, want := range wants {
			if want == "-" {
				continue
			}
			p := propose(t, kinds[i])
			if i >= firstUpsert {
				p.kind = upserts
			}
			if full, ok := names[want]; ok {
				want = full
			}
			d := decide(p, &c.facts)
			if got := d.summary(); got != want {
				t.Errorf("%s, column %d: %s, want %s", name, i, got, want)
			}
			isAboutOne := d.act == returns || d.act == revives || d.act == changes
			if isAboutOne != (d.link != nil) {
				t.Errorf("%s, column %d: %s of %v", name, i, d.act, d.link)
			}
		}
	}
}

// TestDecide_UpsertKeepsTheStrategy of a link that it adopts or revives, if it names one.
func TestDecide_UpsertKeepsTheStrategy(t *testing.T) {
	t.Parallel()
	p := propose(t, Input{CustomCode: new("promo"), Fields: linkfield.Change{ExternalID: to(new("mine"))}})
	l := &link.Link{Strategy: link.Deterministic, CanonicalHash: p.draft.CanonicalHash}
	purged := *l
	purged.DeletedAt, purged.PurgedAt = new(noon), new(noon)
	for _, c := range []struct {
		strategy *link.Strategy
		want     [2]string
	}{
		{nil, [2]string{"change", "revive"}},
		{new(link.Deterministic), [2]string{"change", "revive"}},
		{new(link.Custom), [2]string{"IMMUTABLE strategy", "IMMUTABLE strategy"}},
	} {
		p.kind, p.in.Strategy = upserts, c.strategy
		for i, existing := range []*link.Link{l, &purged} {
			if d := decide(p, &facts{same: existing}); d.summary() != c.want[i] {
				t.Errorf("%v, %d: %s, want %s", c.strategy, i, d.summary(), c.want[i])
			}
		}
	}
}

// TestDecide_ByFields requests links that exist: a plain one, and one with all fields.
func TestDecide_ByFields(t *testing.T) {
	t.Parallel()
	soon, later := noon.Add(time.Hour), noon.Add(2*time.Hour)
	full := Input{Fields: linkfield.Change{Title: to(new("a")), Note: to(new("n")), Tags: to([]string{"x", "y"}),
		Metadata: to(pairs("k", "v")), RedirectStatus: to(307), StartsAt: to(&soon), ExpiresAt: to(&later),
		MaxClicks: to(new(int64(5))), Routing: to(withPassword("password 1"))}}
	full.Fields.Routing.To.Rules, full.Fields.Routing.To.Bots = byRule("DE").Rules, optional.Set(new(routing.BlockBots))
	full.Fields.Routing.To.ForwardPath = optional.Set(new(true))
	links := map[string]*link.Link{"plain": propose(t, Input{}).draft, "full": propose(t, full).draft}
	const noPassword = "CONFLICT routing gate password"
	for name, c := range map[string]struct {
		fields      linkfield.Change
		plain, full string
	}{
		"no field":     {linkfield.Change{}, "return", "return"},
		"all the same": {full.Fields, "CONFLICT startsAt", "return"},
		"start":        {linkfield.Change{StartsAt: to(&soon)}, "CONFLICT startsAt", "return"},
		"other start": {linkfield.Change{StartsAt: to(&noon)}, "CONFLICT startsAt",
			"CONFLICT startsAt"},
		"end": {linkfield.Change{ExpiresAt: to(&soon)}, "CONFLICT expiresAt",
			"CONFLICT expiresAt"},
		"same end": {linkfield.Change{ExpiresAt: to(&later)}, "CONFLICT expiresAt", "return"},
		"finer end": {linkfield.Change{ExpiresAt: to(new(later.Add(time.Nanosecond)))},
			"CONFLICT expiresAt", "return"},
		"limit": {linkfield.Change{MaxClicks: to(new(int64(4)))}, "CONFLICT maxClicks",
			"CONFLICT maxClicks"},
		"same limit": {linkfield.Change{MaxClicks: to(new(int64(5)))}, "CONFLICT maxClicks",
			"return"},
		"password": {linkfield.Change{Routing: to(withPassword("password 1"))}, noPassword,
			"return"},
		"other password": {linkfield.Change{Routing: to(withPassword("password 2"))}, noPassword,
			"compare"},
		"notice": {linkfield.Change{Routing: to(gated(&routing.GateChange{Notice: optional.Set(new("Hello"))}))},
			"CONFLICT routing gate notice", "CONFLICT routing gate notice"},
		"button": {linkfield.Change{Routing: to(gated(&routing.GateChange{Confirm: optional.Set(new(true))}))},
			"CONFLICT routing gate confirm", "CONFLICT routing gate confirm"},
		"no gate": {linkfield.Change{Routing: to(gated(nil))}, "return",
			"return routing.gate.password"},
		"rule": {linkfield.Change{Routing: to(byRule("DE"))}, "CONFLICT routing rules", "return"},
		"other rule": {linkfield.Change{Routing: to(byRule("FR"))}, "CONFLICT routing rules",
			"CONFLICT routing rules"},
		"bots": {linkfield.Change{Routing: to(&routing.Change{Bots: optional.Set(new(routing.BlockBots))})},
			"CONFLICT routing bots", "return"},
		"all bots": {linkfield.Change{Routing: to(&routing.Change{Bots: optional.Set(new(routing.RedirectBots))})},
			"return", "return routing.bots"},
		"title":      {linkfield.Change{Title: to(new("b"))}, "return title", "return title"},
		"same title": {linkfield.Change{Title: to(new("a"))}, "return title", "return"},
		"note":       {linkfield.Change{Note: to(new("m"))}, "return note", "return note"},
		"tags":       {linkfield.Change{Tags: to([]string{"y", "x"})}, "return tags", "return"},
		"fewer tags": {linkfield.Change{Tags: to([]string{"x"})}, "return tags", "return tags"},
		"metadata": {linkfield.Change{Metadata: to(pairs("k", "w"))}, "return metadata",
			"return metadata"},
		"empty title, tags": {linkfield.Change{Title: to(new("")), Tags: to([]string{})}, "return",
			"return title tags"},
		"answer": {linkfield.Change{RedirectStatus: to(301)}, "return redirectStatus",
			"return redirectStatus"},
		"same answer": {linkfield.Change{RedirectStatus: to(307)}, "return redirectStatus",
			"return"},
		"path": {linkfield.Change{Routing: to(&routing.Change{ForwardPath: optional.Set(new(true))})},
			"return routing.forwardPath", "return"},
		"end page": {
			linkfield.Change{Routing: to(&routing.Change{EndedURL: optional.Set(new("https://example.com/end"))})},
			"return routing.endedUrl", "return routing.endedUrl"},
		"start and title": {linkfield.Change{StartsAt: to(&noon), Title: to(new("b"))},
			"CONFLICT startsAt", "CONFLICT startsAt"},
	} {
		for existing, want := range map[string]string{"plain": c.plain, "full": c.full} {
			p := propose(t, sending(Input{Fields: c.fields}))
			if d := decide(p, &facts{same: links[existing]}); d.summary() != want {
				t.Errorf("%s of the %s link: %s, want %s", name, existing, d.summary(), want)
			}
		}
	}
	p := propose(t, sending(Input{Fields: linkfield.Change{Routing: to(withPassword("password 2"))}}))
	p.compared = "id of password 1"
	if d := decide(p, &facts{same: links["full"]}); d.summary() != noPassword {
		t.Errorf("another password that was compared: %s", d.summary())
	}
}

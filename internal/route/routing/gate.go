package routing

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// Gate is a page that visitors must pass before the redirect. The hash of its password is not part
// of it: it is Settings.PasswordHash, so that versions and events do not have it.
type Gate struct {
	// PasswordID is the random name of the password, which changes with it; empty means that none
	// is required.
	PasswordID string `json:"passwordId,omitempty"`
	// Notice is a text that is shown; nil means none.
	Notice *string `json:"notice,omitempty"`
	// Confirm means that the visitor must press a button.
	Confirm bool `json:"confirm,omitempty"`
}

// HasPassword reports whether the gate requires a password.
func (g *Gate) HasPassword() bool { return g.PasswordID != "" }

// equal reports whether visitors who pass one of the gates pass the other.
func (g *Gate) equal(other *Gate) bool {
	return g.PasswordID == other.PasswordID && g.Confirm == other.Confirm && optional.Equal(g.Notice, other.Notice)
}

// HasPassword reports whether the gate of the routing requires a password.
func (r *Routing) HasPassword() bool { return r != nil && r.Gate != nil && r.Gate.HasPassword() }

// GateChange is a change of a gate. Fields without Set stay; nil resets a field.
type GateChange struct {
	Password optional.Edit[*Password] `json:"password,omitzero"`
	Notice   optional.Edit[*string]   `json:"notice,omitzero"`
	Confirm  optional.Edit[*bool]     `json:"confirm,omitzero"`
}

// Password is a new password of a gate. ID and Hash replace Text before the change is applied; they
// are those of the present password if the text is the same.
type Password struct {
	Text string `json:"-"`
	ID   string `json:"id,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// BotPolicy is how bots are answered.
type BotPolicy string

// The policies. Empty means RedirectBots.
const (
	// RedirectBots answers them like other visitors.
	RedirectBots BotPolicy = "REDIRECT"
	// ConfirmBots shows them a page with a button.
	ConfirmBots BotPolicy = "CONFIRM"
	// BlockBots refuses them.
	BlockBots BotPolicy = "BLOCK"
)

// apply changes a gate. It returns nil for one that requires nothing.
func (c *GateChange) apply(from *Gate) *Gate {
	after := optional.Value(from)
	if c == nil {
		return nil
	}
	if c.Password.Set {
		after.PasswordID = optional.Value(c.Password.To).ID
	}
	c.Notice.Apply(&after.Notice)
	if c.Confirm.Set {
		after.Confirm = optional.Value(c.Confirm.To)
	}
	if after == (Gate{}) {
		return nil
	}
	return &after
}

// NewPassword returns the password that the change sets; nil if it sets none.
func (c *Change) NewPassword() *Password {
	if c == nil || c.Gate.To == nil {
		return nil
	}
	return c.Gate.To.Password.To
}

// PasswordHash returns the hash of the password after the change of a gate with a hash.
func (c *Change) PasswordHash(hash *string) *string {
	switch {
	case c == nil:
		return nil
	case !c.Gate.Set:
		return hash
	case c.Gate.To == nil:
		return nil
	case !c.Gate.To.Password.Set:
		return hash
	case c.Gate.To.Password.To == nil:
		return nil
	}
	return &c.Gate.To.Password.To.Hash
}

// WithPasswordOf returns a routing of a former state of a link with the present password: none is
// stored with former states. It returns Conflict if there was one and is none now.
func (r *Routing) WithPasswordOf(present *Routing) (*Routing, error) {
	if !r.HasPassword() {
		return r, nil
	}
	if !present.HasPassword() {
		return nil, errs.New(errs.Conflict,
			"The version had a password, which versions do not store. Set a password first: "+
				"then it stays.").At("routing", "gate", "password")
	}
	kept, gate := *r, *r.Gate
	gate.PasswordID = present.Gate.PasswordID
	kept.Gate = &gate
	return &kept, nil
}

// GateState is whether a request has passed the gate of its link.
type GateState byte

// The states. Only GatePassed lets a visitor pass.
const (
	// GateClosed means that the request has shown nothing.
	GateClosed GateState = iota
	GatePassed
	// GateWrong means that the request has sent a wrong password.
	GateWrong
	// GateThrottled means that too many wrong passwords were sent, so that none is compared.
	GateThrottled
	// GateBusy means that no password can be compared at present.
	GateBusy
)

// gatePages are the answers to requests that have not passed.
var gatePages = [...]Page{
	GateClosed: PageGate, GateWrong: PageWrongPassword, GateThrottled: PageManyAttempts, GateBusy: PageBusy,
}

// CompiledGate is the gate of a program.
type CompiledGate struct {
	// PasswordHash is compared with the visitor's password if NeedsPassword holds. No password has
	// an empty hash.
	NeedsPassword bool
	PasswordHash  string
	// Notice is a text that is shown; empty means none.
	Notice string
	// Version changes with the gate and its password, so that a pass of another version is not
	// accepted.
	Version uint64
}

// appendGate writes a gate. The version is a hash of all that follows it.
func appendGate(b []byte, g *Gate, hash string) []byte {
	fields := AppendText(nil, g.PasswordID)
	fields = AppendText(fields, optional.Value(g.Notice))
	fields = append(fields, boolByte(g.Confirm))
	sum := sha256.Sum256(fields)
	b = append(b, sum[:8]...)
	b = AppendText(b, string(fields))
	return AppendText(b, hash)
}

// Gate returns the gate; ok is false if there is none.
func (c Compiled) Gate() (g CompiledGate, ok bool) {
	if !c.has(hasGate) {
		return g, false
	}
	r := FlatReader(c[1:])
	r = FlatReader(r.Text())
	g.Version = binary.LittleEndian.Uint64([]byte(r[:8]))
	r = r[8:]
	fields := FlatReader(r.Text())
	g.NeedsPassword, g.Notice, g.PasswordHash = fields.Text() != "", fields.Text(), r.Text()
	return g, true
}

// has reports whether a flag of a compiled routing is set.
func (c Compiled) has(flag byte) bool { return c != "" && c[0]&flag != 0 }

// holdBack returns the page for an automated visit; Redirect if it is answered like others.
func (p *Program) holdBack(r *Request) Page {
	isLimited := p.MaxClicks != 0
	switch {
	case r.Visit.PreviewCrawler && p.Compiled.HasCard():
		return PageCard
	case isLimited && r.Visit.PreviewCrawler && !r.Confirmed:
		return PageConfirm
	case isLimited && r.Prefetch:
		return PagePrefetch
	case !r.Visit.Bot:
		return Redirect
	case p.Compiled.has(blocksBots):
		return PageBlocked
	case p.Compiled.has(confirmsBots) && !r.Confirmed:
		return PageConfirm
	}
	return Redirect
}

// HoldsBots reports whether any automated visit may be held back.
func (p *Program) HoldsBots() bool {
	return p.MaxClicks != 0 || p.Compiled.has(confirmsBots|blocksBots|hasCard)
}

// HasForm reports whether the link may answer with a page that has a form, so that it accepts POST.
func (p *Program) HasForm() bool { return p.MaxClicks != 0 || p.Compiled.has(hasGate|confirmsBots) }

package importer

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/domain"
)

// locate decides where the link of a row goes, and checks its code and destination.
func (b *step) locate(it *item) {
	from := it.from
	if from.Skipped || from.Err != nil {
		return
	}
	var lacksDomain *errs.Error
	it.domain, lacksDomain = b.target(from.Host)
	it.reportCase(b)
	scratch := &link.Link{In: b.Member}
	err := scratch.SetDestination(from.URL)
	it.row.CanonicalHash = scratch.CanonicalHash
	if it.code = from.Code; it.code != "" && lacksDomain == nil {
		err = errs.All(err, it.chooseCode(b))
	}
	if err != nil { // the creation checks the other fields of other rows
		fields := from.Change
		fields.KeepsPast = true
		fields.DropNulls()
		from.Err = errs.From(errs.All(err, scratch.SetFields(&fields, b.Store.now())))
	} else if lacksDomain != nil {
		from.Err = lacksDomain
	}
}

// chooseCode sets the code of the item, or one like it that is valid if the import renames. It
// returns InvalidInput or CodeReserved.
func (it *item) chooseCode(b *step) error {
	err := it.setCode(b, it.code)
	if err != nil && b.in.OnConflict == Rename {
		it.isRenamed = true
		err = it.setCode(b, it.plainCode())
	}
	return err
}

// target returns the domain with codes of its own that the links of a host go to; nil means the
// shared codes. It returns NotFound if the chosen domain was removed.
func (b *step) target(host string) (*domain.Domain, *errs.Error) {
	isOfHost := func(d *domain.Domain) bool { return d.Host == host && d.VerifiedAt != nil }
	chosen := slices.IndexFunc(b.in.Hosts, func(h Host) bool { return h.Host == host })
	if chosen >= 0 {
		domainID := b.in.Hosts[chosen].DomainID
		if domainID == nil {
			return nil, nil
		}
		isOfHost = func(d *domain.Domain) bool { return d.ID == *domainID }
	}
	i := slices.IndexFunc(b.domains, isOfHost)
	switch {
	case i < 0 && chosen >= 0:
		return nil, errs.New(errs.NotFound, "The domain that was chosen for the host %s was removed.", host).At("hosts")
	case i < 0 || b.domains[i].CodeSpace != domain.Own:
		return nil, nil
	}
	b.targets[host] = b.domains[i].ID
	return b.domains[i], nil
}

// reportCase adds a loss to the first row of a host whose codes the source answers in any case, and
// the domain does not.
func (it *item) reportCase(b *step) {
	host := it.from.Host
	if it.domain == nil || !it.domain.CaseSensitive || !it.from.FoldsCase || slices.Contains(b.folding, host) ||
		len(b.folding) == maxCounted {
		return
	}
	b.folding = append(b.folding, host)
	it.from.Losses = append(it.from.Losses,
		importsource.Loss{Field: "caseSensitive", Reason: importsource.Approximated})
}

// setCode sets the code of the item and its identity. It returns InvalidInput or CodeReserved.
func (it *item) setCode(b *step, code string) error {
	scratch := &link.Link{In: b.Member, Strategy: link.Custom, Code: code}
	if it.domain != nil {
		valid, err := shortcode.ValidateOwn(code)
		if err != nil {
			return errs.New(errs.InvalidInput, "%s", err).At("code")
		}
		code = valid
		scratch.SetOwnCode(it.domain, code)
	} else {
		if err := shortcode.ValidateCustom(code); err != nil {
			return errs.New(errs.InvalidInput, "%s%s", err, remedyOf(code)).At("code")
		}
		if shortcode.Reserved(code) {
			return errs.New(errs.CodeReserved, "The server keeps this word for itself.%s", remedyOf(code)).At("code")
		}
		scratch.AssignCodeKey()
	}
	it.code, it.identity = code, scratch.CodeIdentity()
	return nil
}

// remedyOf names what can have a code that the workspace cannot; empty for a code that nothing can
// have.
func remedyOf(code string) string {
	if _, err := shortcode.ValidateOwn(code); err != nil {
		return ""
	}
	return " A domain with codeSpace: OWN can have this code: add one before the import, and choose it for the host."
}

// plainCode returns the code of a row in characters that its code space allows.
func (it *item) plainCode() string {
	code := it.from.Code
	if decoded, err := url.PathUnescape(code); err == nil {
		code = decoded
	}
	isAllowed := func(c rune) bool { return c < 0x80 && shortcode.IsCode(string(c)) }
	if it.domain != nil {
		isAllowed = shortcode.IsOwn
	}
	return strings.Map(func(c rune) rune {
		if isAllowed(c) {
			return c
		}
		return '-'
	}, code)
}

// rename gives an item the first free code of code-2 to code-99. If an import that was undone had given
// the row one before that, its link works again.
func (b *step) rename(ctx context.Context, it *item, known *known) error {
	var numbers []int
	for n := 2; n <= maxRenames; n++ {
		numbers = append(numbers, n)
	}
	for some := range slices.Chunk(numbers, renamesAtOnce) {
		var candidates []*item
		for _, n := range some {
			one, end := &item{from: it.from, row: it.row, domain: it.domain}, fmt.Sprintf("-%d", n)
			most := shortcode.MaxLength
			if it.domain != nil {
				most = shortcode.MaxOwnBytes
			}
			plain := strings.ToValidUTF8(it.code[:min(len(it.code), most-len(end))], "")
			if one.setCode(b, plain+end) == nil {
				candidates = append(candidates, one)
			}
		}
		if err := b.addHolders(ctx, known, candidates); err != nil {
			return err
		}
		if err := b.addClaims(ctx, known, candidates); err != nil {
			return err
		}
		for _, one := range candidates {
			if l := known.undoneBy(one); l != nil {
				it.code, it.identity, it.isRenamed = one.code, one.identity, true
				it.decision = decision{act: changes, linkID: l.ID, isReplaced: true, outcome: Created}
				return nil
			}
			if known.holders[one.identity] == nil {
				it.code, it.identity, it.isRenamed = one.code, one.identity, true
				it.decision = decision{act: creates, outcome: Created}
				return nil
			}
		}
	}
	it.decision = decision{act: leaves, outcome: Failed, err: errCodeTaken()}
	return nil
}

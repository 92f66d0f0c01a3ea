package redirect

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// visit is one request for a short URL.
type visit struct {
	*Handler
	http    *http.Request
	from    netip.Addr
	target  resolve.Target
	request routing.Request
	// reading has the properties of the visitor, once they are read.
	reading visitor.Reading
	isRead  bool
	// form is the form that the visitor has sent. hasPassed means that it has passed the gate, so
	// that the visitor gets a pass.
	form      form
	hasPassed bool
}

func (v *visit) decide() routing.Decision { return routing.Decide(&v.target.Program, &v.request) }

// find resolves the address, and decides without quotas. A request that queries the database, or
// that has no link, counts for the rate UnknownCodes of the address network; it is released if
// there is a link. A network above the rate causes no query and does not learn whether a code is
// unknown; links in memory still redirect it.
func (v *visit) find(w http.ResponseWriter, at resolve.Address) (answer routing.Decision, err error) {
	ctx, unknownCode := v.http.Context(), v.UnknownCodes.Admission(v.from, v.request.Now)
	v.target, err = v.Resolver.Resolve(ctx, at, v.request.Now, unknownCode.Admit)
	v.request.Code, v.request.Path, v.request.Query = v.target.At.Code, v.target.At.Path, v.query()
	v.request.Throttled = unknownCode.RetryAfter
	if errors.Is(err, resolve.ErrNotAdmitted) {
		return v.decide(), nil
	}
	v.request.Failed = err != nil
	v.prepare(w)
	answer = v.decide()
	isUnknown := err == nil && (v.target.Unknown || answer.Page == routing.PageNotFound)
	switch {
	case isUnknown && !unknownCode.Admit():
		v.request.Throttled = unknownCode.RetryAfter
		answer = v.decide()
	case !isUnknown && ctx.Err() == nil: // the query of a disconnected client continues
		unknownCode.Release()
	}
	return answer, err
}

// prepare sets the facts for the routing of a link, its limit and its fallback URLs.
func (v *visit) prepare(w http.ResponseWriter) {
	t := &v.target
	if t.NotFoundURL != "" || t.EndedURL != "" || t.Compiled != "" { // else there are no placeholders
		v.request.Host = web.Host(v.http)
	}
	if v.request.Post && t.HasForm() {
		v.form = v.readForm(w)
		gate, _ := t.Compiled.Gate()
		v.request.Confirmed = v.form.confirms
		v.request.SentForm = v.form.confirms || gate.NeedsPassword && v.form.password != ""
	}
	if t.Compiled != "" {
		v.prepareRouting()
	}
	if t.MaxClicks != 0 || t.Compiled.HasCard() {
		v.request.Prefetch = visitor.IsPrefetch(v.http.Header)
		v.request.Visit.PreviewCrawler = visitor.IsPreviewCrawler(v.http.UserAgent())
	}
}

// prepareRouting sets what conditions, draws and gates depend on.
func (v *visit) prepareRouting() {
	if gate, ok := v.target.Compiled.Gate(); ok && v.hasPass(&gate) {
		v.request.Gate = routing.GatePassed
	}
	read := v.read()
	v.request.Visit = routing.Visit{
		Country: read.Country, Device: read.Device, OS: read.OS, Browser: read.Browser, Referrer: read.Referrer,
		Bot: read.Bot, Private: read.Private, Agent: v.http.UserAgent(),
		Address: web.ClientAddress(v.http), // conditions may name networks within a subscriber's /64
	}
	if v.target.Compiled.ComparesLanguages() {
		v.request.Visit.Languages = visitor.Languages(v.http.Header.Get("Accept-Language"))
	}
	v.request.Cookies, v.request.DrawKey = v.http.Header["Cookie"], v.DrawKey
	v.request.DrawSeed = rand.Uint64() | 1 // zero means no seed
}

// read returns the properties of the visitor.
func (v *visit) read() *visitor.Reading {
	if !v.isRead {
		v.reading, v.isRead = v.Visits.Read(v.http, v.from), true
	}
	return &v.reading
}

// consume consumes the quotas of a redirect and records the click. A card and the answer to HEAD
// consume nothing, but an exhausted link has neither. It checks the rate of the network first: a
// throttled visitor consumes nothing. It returns the answer, which may be another page then.
func (v *visit) consume(answer routing.Decision) (routing.Decision, error) {
	var err error
	v.request.Throttled = v.LinkRate.Take(v.target.LinkID, v.from, v.request.Now)
	switch {
	case v.request.Throttled > 0: // consumes nothing
	case !v.request.Head && answer.Page == routing.Redirect:
		answer, err = v.follow(answer)
	case v.target.MaxClicks != 0:
		v.request.Exhausted, err = v.Quotas.Exhausted(v.http.Context(), v.target.LinkID)
	}
	v.request.Failed = err != nil
	if v.request.Refused() {
		answer = v.decide()
	}
	return answer, err
}

// follow consumes one monthly hit and one of the link's own clicks, takes the grant that the
// decision depends on, and records the click. The hit comes first, because it is taken from memory:
// a visitor who is refused takes no grant, which would have to return to the database. A unit that
// was consumed for a visitor who does not receive the destination is released.
func (v *visit) follow(answer routing.Decision) (routing.Decision, error) {
	ctx, t, arrived := v.http.Context(), &v.target, v.request.Now
	limit := v.HitQuota
	if t.HitQuota >= 0 {
		limit = t.HitQuota
	}
	decided := v.beginDeciding()
	defer decided()
	hit, ok, err := v.Quotas.Hits.Take(ctx, &hitquota.Claim{
		LinkID: t.LinkID, Month: click.MonthOf(arrived), Limit: limit,
		Clicks: t.MonthClicks, ReadAt: time.UnixMicro(t.ReadAt),
	}, arrived)
	if err != nil || !ok {
		decided()
		v.request.OverQuota = err == nil
		return answer, v.checkExhausted(err)
	}
	defer hit.Release()
	grant, ok, err := v.takeGrant()
	decided()
	if err != nil || !ok {
		v.request.Exhausted = !ok
		return answer, err
	}
	defer grant.Release()
	targetGrant, answer, err := v.settle(answer)
	defer targetGrant.Release()
	if err != nil {
		return answer, err
	}
	c := v.click(&answer)
	c.HitLease = hit.LeaseNumber()
	end := v.Clicks.Record(&c)
	targetGrant.Commit()
	grant.Commit()
	hit.Commit(end)
	return answer, nil
}

// beginDeciding registers a visit of a link with MaxClicks as undecided.
func (v *visit) beginDeciding() (decided func()) {
	if v.target.MaxClicks == 0 {
		return func() {}
	}
	return v.undecided.begin(v.target.LinkID)
}

// otherNodes is how long a grant for a hit of another node takes, with a margin.
const otherNodes = 50 * time.Millisecond

// checkExhausted finds out, for a visitor without a hit, whether the link has reached MaxClicks:
// its page then states that, instead of the reason of the refused hit, which is nil if the monthly
// hits are used up. The visitors who took the last ones may be about to take the last grants, and
// the link has ended if they do.
func (v *visit) checkExhausted(reason error) (err error) {
	if v.target.MaxClicks == 0 {
		return reason
	}
	ctx := v.http.Context()
	if reason == nil {
		v.undecided.wait(ctx, v.target.LinkID)
	}
	v.request.Exhausted, err = v.Quotas.Exhausted(ctx, v.target.LinkID)
	if err == nil && !v.request.Exhausted && reason == nil && poll.Wait(ctx, otherNodes) == nil {
		v.request.Exhausted, err = v.Quotas.Exhausted(ctx, v.target.LinkID)
	}
	if err != nil || v.request.Exhausted {
		return err
	}
	return reason
}

// settle takes a grant if the decision depends on one: of each target that rules choose, until one
// has a grant left. Then the decision is final.
func (v *visit) settle(answer routing.Decision) (grant hitquota.Grant, _ routing.Decision, err error) {
	for answer.Needs == routing.NeedGrant {
		var ok bool
		grant, ok, err = v.Quotas.Grant(v.http.Context(), answer.Target)
		switch {
		case err != nil:
			return grant, answer, err
		case ok:
			v.request.Granted = answer.Target
		default:
			v.request.ExhaustedTargets = append(v.request.ExhaustedTargets, answer.Target)
		}
		answer = v.decide()
	}
	return grant, answer, nil
}

// takeGrant consumes one of the remaining clicks of a link with MaxClicks. Other links need no
// grant.
func (v *visit) takeGrant() (grant hitquota.Grant, ok bool, err error) {
	if v.target.MaxClicks == 0 {
		return hitquota.Grant{}, true, nil
	}
	return v.Quotas.Grant(v.http.Context(), v.target.LinkID)
}

// click returns the click of the redirect. That of a private visitor has neither rule, target nor
// source: a rule would reveal the values that it compares.
func (v *visit) click(answer *routing.Decision) click.Click {
	read := v.read()
	c := click.Click{
		WorkspaceID: v.target.WorkspaceID, LinkID: v.target.LinkID, ClickedAt: v.request.Now, Status: answer.Status,
		Visit: read.Stored(v.request.Query, answer.Location), Visitor: v.visitor(),
	}
	if !read.Private {
		c.RuleID, c.TargetID, c.QRSource = answer.Rule, answer.Target, answer.Source
	}
	c.LatencyMs = float64(v.Now().Sub(v.request.Now)) / float64(time.Millisecond)
	return c
}

// visitor returns the number of the visitor on this day; zero for bots and private visitors.
func (v *visit) visitor() int64 {
	read := v.read()
	key := v.Keys.Of(v.request.Now)
	if key == nil || read.Bot || read.Private {
		return 0
	}
	return key.Visitor(v.target.LinkID, v.from.String(), v.http.UserAgent())
}

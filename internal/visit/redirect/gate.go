package redirect

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// passwordHeader is the header that programs set to the password of a gate.
const passwordHeader = "X-Link-Password"

const (
	// passCookie holds a pass for passLife. A visitor may send those of several paths; maxPasses
	// are read.
	passCookie = "lf_g"
	passLife   = time.Hour
	maxPasses  = 8
	// maxForm bounds the body of a form, in bytes, and formDeadline the wait for it.
	maxForm      = 4 << 10
	formDeadline = 10 * time.Second
	// busyRetry is the value of Retry-After while too many passwords wait to be compared.
	busyRetry = time.Second
)

// The limits of wrong passwords of a link: of an address network, and of all. Beyond the last one,
// each network has one attempt left, so that guesses from elsewhere do not shut a link for its
// visitors.
var (
	wrongFromNetwork = ratelimit.Rate{Name: "gate-network", Attempts: 5, Window: 15 * time.Minute}
	wrongOfLink      = ratelimit.Rate{Name: "gate", Attempts: 300, Window: time.Hour}
	lastFromNetwork  = ratelimit.Rate{Name: "gate-last", Attempts: 1, Window: time.Hour}
)

// Gates has what gates need. All fields are required.
type Gates struct {
	// Passwords compares passwords, Limits limits wrong ones.
	Passwords Passwords
	Limits    ratelimit.Limiter
	// PassKeys sign the cookies of visitors who have passed: the first one signs, all are accepted.
	PassKeys [][]byte
}

// Passwords is the part of account.LinkPasswords that this package calls.
type Passwords interface {
	Matches(ctx context.Context, hash, password string, subjects ...string) (bool, error)
}

// PassKeys derives the keys of passes from the secrets of an instance.
func PassKeys(secrets [][]byte) (keys [][]byte) {
	for _, secret := range secrets {
		key, err := hkdf.Key(sha256.New, secret, nil, "link gate pass", sha256.Size)
		if err != nil {
			panic(err) // only a longer key could fail
		}
		keys = append(keys, key)
	}
	return keys
}

// form is the content of a POST from a page of this host.
type form struct {
	password string
	confirms bool
}

// readForm reads the form of a request. It is empty for a POST from a page of another host, which
// must not use up a link, and for a body that is no form or exceeds maxForm bytes.
func (v *visit) readForm(w http.ResponseWriter) (f form) {
	if v.http.Method != http.MethodPost || !v.isOwnOrigin() {
		return f
	}
	_ = http.NewResponseController(w).SetReadDeadline(v.Now().Add(formDeadline)) // not every writer has one
	web.LimitBody(w, v.http, maxForm)
	if err := v.http.ParseForm(); err != nil {
		return f
	}
	sent := v.http.PostForm
	return form{password: sent.Get("password"), confirms: sent.Get("confirm") == "1"}
}

// isOwnOrigin reports whether the request comes from a page of the requested host, or from no page.
// An opaque origin is another one.
func (v *visit) isOwnOrigin() bool {
	origin := v.http.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), web.Host(v.http))
}

// hold obtains the facts on which the page for a visitor depends, who is held back: whether the
// link is exhausted, and whether the visitor passes the gate.
func (v *visit) hold(answer routing.Decision) (routing.Decision, error) {
	for {
		switch {
		case answer.Needs == routing.NeedExhausted:
			exhausted, err := v.Quotas.Exhausted(v.http.Context(), v.target.LinkID)
			v.request.Exhausted, v.request.IsAvailable, v.request.Failed = exhausted, !exhausted, err != nil
			if answer = v.decide(); err != nil {
				return answer, err
			}
		case answer.Page == routing.PageGate && v.tryGate():
			answer = v.decide()
		default:
			return answer, nil
		}
	}
}

// password returns the password that the visitor has sent in the header, or else in a form.
func (v *visit) password() string {
	if header := v.http.Header[passwordHeader]; len(header) > 0 {
		return header[0]
	}
	return v.form.password
}

// tryGate tries to pass the gate with the credentials of the request. It reports false if the
// request has none.
func (v *visit) tryGate() bool {
	if v.request.Head {
		return false
	}
	gate, _ := v.target.Compiled.Gate()
	header, password := v.http.Header[passwordHeader], v.password()
	switch {
	case !gate.NeedsPassword && (len(header) > 0 || v.form.confirms):
		v.request.Gate = routing.GatePassed
	case !gate.NeedsPassword || password == "":
		return false
	default:
		v.request.Gate, v.request.GateRetryAfter = v.guess(gate.PasswordHash, password)
	}
	v.hasPassed = v.request.Gate == routing.GatePassed && len(header) == 0
	return true
}

// guess compares a password. Until it has proved right, it counts as a wrong one, so that
// concurrent guesses cannot exceed the limits.
func (v *visit) guess(hash, password string) (state routing.GateState, retryAfter time.Duration) {
	ctx, link, network := v.http.Context(), v.target.LinkID, web.Network(v.from)
	charged, err := v.charge(ctx, link, network)
	if err != nil {
		return routing.GateThrottled, errs.From(err).RetryAfter
	}
	isRight, err := v.Gates.Passwords.Matches(ctx, hash, password, web.Holder(network), link)
	if isRight || err != nil { // a password that was not compared reveals nothing
		v.Gates.Limits.Refund(ctx, charged...)
	}
	switch {
	case err != nil:
		return routing.GateBusy, busyRetry
	case isRight:
		return routing.GatePassed, 0
	}
	return routing.GateWrong, 0
}

// charge counts an attempt as wrong until it is refunded. It returns RateLimited, and then has
// counted nothing.
func (v *visit) charge(ctx context.Context, link, network string) ([]ratelimit.Charged, error) {
	return v.Gates.Limits.ChargeEither(ctx, ratelimit.Counter{Rate: wrongOfLink, Subject: link},
		ratelimit.Counter{Rate: lastFromNetwork, Subject: link + " " + network},
		ratelimit.OfNetwork(wrongFromNetwork, network, link)...)
}

// hasPass reports whether a cookie of the request is a valid pass.
func (v *visit) hasPass(gate *routing.CompiledGate) bool {
	for i, cookie := range v.http.CookiesNamed(passCookie) {
		if i == maxPasses {
			break
		}
		if v.isPass(cookie.Value, gate) {
			return true
		}
	}
	return false
}

func (v *visit) isPass(value string, gate *routing.CompiledGate) bool {
	pass, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(pass) != 8+sha256.Size {
		return false
	}
	expiry := int64(binary.BigEndian.Uint64(pass))
	for _, key := range v.Gates.PassKeys {
		if hmac.Equal(pass[8:], v.signature(key, gate, expiry)) {
			return v.request.Now.Unix() < expiry
		}
	}
	return false
}

// signature signs that the visitor may pass this version of the gate of this link until an instant.
func (v *visit) signature(key []byte, gate *routing.CompiledGate, expiry int64) []byte {
	mac := hmac.New(sha256.New, key)
	fixed := binary.BigEndian.AppendUint64(nil, uint64(expiry))
	mac.Write(binary.BigEndian.AppendUint64(fixed, gate.Version))
	mac.Write([]byte(v.target.LinkID))
	return mac.Sum(nil)
}

// setPass sets the cookie of a visitor who has passed the gate, unless the visitor is private.
func (v *visit) setPass(w http.ResponseWriter) {
	if len(v.Gates.PassKeys) == 0 || visitor.IsPrivate(v.http.Header) {
		return
	}
	gate, _ := v.target.Compiled.Gate()
	expiry := v.request.Now.Add(passLife).Unix()
	pass := binary.BigEndian.AppendUint64(nil, uint64(expiry))
	pass = append(pass, v.signature(v.Gates.PassKeys[0], &gate, expiry)...)
	http.SetCookie(w, v.cookie(passCookie, base64.RawURLEncoding.EncodeToString(pass), passLife))
}

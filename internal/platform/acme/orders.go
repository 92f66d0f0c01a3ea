package acme

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
)

// pauses are the times, in paces, between failed orders of a host, on all nodes; the last one repeats. Let's Encrypt
// permits five failed checks of a host in an hour, and an order makes up to two.
var pauses = [...]time.Duration{5, 15, 60, 180, 360}

var (
	errPaused  = errors.New("orders for the host have failed: it is tried again later")
	errRefused = errors.New("the host is neither of this instance nor a verified domain")
	errClock   = errors.New("the certificate is not valid yet by the clock of this node")
)

// orders is the issuer that CertMagic orders all certificates from.
type orders struct {
	*certmagic.ACMEIssuer
	m *Manager
}

// pause is how long a host rests after failed orders, on all nodes.
type pause struct {
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"`
}

func pauseFile(host string) string { return pausesFolder + "/" + host + ".json" }

// Issue implements certmagic.Issuer. It places an order unless the host may have no certificate, or rests.
func (o orders) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	m, host := o.m, csr.DNSNames[0]
	before, err := m.permit(ctx, host)
	if err != nil {
		return nil, err
	}
	issued, err := o.ACMEIssuer.Issue(ctx, csr)
	err = m.explain(host, err)
	if err == nil {
		err = m.checkClock(ctx, host, issued.Certificate)
	}
	switch {
	case err == nil:
		m.logSuccess(ctx, host)
		_ = m.Files.Delete(ctx, pauseFile(host)) // one that stays has ended
		return issued, nil
	case errors.Is(ctx.Err(), context.Canceled): // the node stops
		return nil, err
	}
	m.logFailure(ctx, host, err)
	after := pause{before.Failures + 1, m.Now().Add(pauses[min(before.Failures, len(pauses)-1)] * m.Pace)}
	if kindOf(err) == ofAuthority { // it has counted no failure
		after = pause{before.Failures, m.Now().Add(m.Pace)}
	}
	content, _ := json.Marshal(after) // cannot fail
	return nil, errors.Join(err, m.Files.Store(context.WithoutCancel(ctx), pauseFile(host), content))
}

func (m *Manager) noteProblem(host string, problem acme.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems[host] = problem
}

// explain returns the error of an order, or the problem that the authority had with the host, and forgets the problem.
func (m *Manager) explain(host string, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	problem, isNoted := m.problems[host]
	delete(m.problems, host)
	if _, isProblem := errors.AsType[acme.Problem](err); err != nil && isNoted && !isProblem {
		return problem
	}
	return err
}

// permit returns an error unless an order may be placed now, and else the pause before.
func (m *Manager) permit(ctx context.Context, host string) (before pause, err error) {
	may, err := m.MayOrder(ctx, host)
	if err == nil && !may {
		err = errRefused
	}
	if err != nil {
		return before, err
	}
	content, err := m.Files.Load(ctx, pauseFile(host))
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &before)
	}
	if err == nil && m.Now().Before(before.Until) {
		err = errPaused
	}
	return before, err
}

// checkClock refuses to replace a valid certificate by one that is not valid yet.
func (m *Manager) checkClock(ctx context.Context, host string, chain []byte) error {
	block, _ := pem.Decode(chain)
	if block == nil {
		return errors.New("the authority sent no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the authority sent a certificate that cannot be read: %w", err)
	}
	now := m.Now()
	if !leaf.NotBefore.After(now) {
		return nil
	}
	for _, c := range m.cache.AllMatchingCertificates(host) {
		if now.Before(c.Leaf.NotAfter) {
			return errClock
		}
	}
	m.logFailure(ctx, host, errClock)
	return nil
}

// kind is whose fault the failure of an order is.
type kind string

// The kinds, with the messages that the operator's guide explains.
const (
	ofHost      kind = "the authority does not find this server at a host: it gets no new TLS certificate"
	ofLimit     kind = "the authority limits orders: a host gets no new TLS certificate for now"
	ofAuthority kind = "the authority of TLS certificates cannot be reached"
	ofClock     kind = "a TLS certificate is not valid yet: the clock of this node or of the authority is wrong"
	ofOrder     kind = "a TLS certificate could not be ordered"
)

// failure is a kind of failure that is logged once. The host is empty if all hosts have it together.
type failure struct {
	kind kind
	host string
}

// repeatAfter is when a failure that lasts is logged again.
const repeatAfter = 24 * time.Hour

// serverError matches the error of a response that is no problem document, for which the library has no type.
var serverError = regexp.MustCompile(`\bHTTP 5\d\d: `)

// kindOf returns the kind of an error of an order.
func kindOf(err error) kind {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired ||
		errors.Is(err, errClock) {
		return ofClock
	}
	problem, isProblem := errors.AsType[acme.Problem](err)
	if !isProblem {
		if _, isNetwork := errors.AsType[*url.Error](err); isNetwork || serverError.MatchString(err.Error()) {
			return ofAuthority
		}
		return ofOrder
	}
	switch problem.Type {
	case acme.ProblemTypeConnection, acme.ProblemTypeDNS, acme.ProblemTypeTLS, acme.ProblemTypeUnauthorized,
		acme.ProblemTypeIncorrectResponse, acme.ProblemTypeCAA:
		return ofHost
	case acme.ProblemTypeRateLimited:
		return ofLimit
	}
	switch {
	case problem.Status == http.StatusTooManyRequests:
		return ofLimit
	case problem.Status >= http.StatusInternalServerError:
		return ofAuthority
	}
	return ofOrder
}

// logFailure logs a failure once, and again after a day. Refused and paused hosts are no
// failures.
func (m *Manager) logFailure(ctx context.Context, host string, err error) {
	if errors.Is(err, errRefused) || errors.Is(err, errPaused) {
		return
	}
	f := failure{kindOf(err), host}
	if f.kind == ofAuthority || f.kind == ofClock {
		f.host = ""
	}
	m.mu.Lock()
	last, isLogged := m.logged[f]
	isDue := !isLogged || m.Now().Sub(last) >= repeatAfter
	if isDue {
		m.logged[f] = m.Now()
	}
	m.mu.Unlock()
	if isDue {
		m.Log.WarnContext(ctx, string(f.kind), "host", host, "detail", withoutAddresses(err.Error()))
	}
}

// logSuccess logs a new certificate. Failures of the host, and those of all hosts, are over.
func (m *Manager) logSuccess(ctx context.Context, host string) {
	m.mu.Lock()
	for f := range m.logged {
		if f.host == host || f.host == "" {
			delete(m.logged, f)
		}
	}
	m.mu.Unlock()
	m.Log.InfoContext(ctx, "TLS certificate obtained", "host", host)
}

var (
	emailText   = regexp.MustCompile(`[^\s"'<>\[\]:]+@[^\s"'<>\[\]]+`)
	addressText = regexp.MustCompile(`[0-9A-Fa-f.:]{3,}`)
)

// withoutAddresses returns a text without e-mail and IP addresses: the authority repeats them.
func withoutAddresses(text string) string {
	text = emailText.ReplaceAllString(text, "(address)")
	return addressText.ReplaceAllStringFunc(text, func(word string) string {
		bare := strings.Trim(word, ".:")
		if _, err := netip.ParseAddr(bare); err == nil {
			return strings.Replace(word, bare, "(address)", 1)
		}
		if at, err := netip.ParseAddrPort(bare); err == nil {
			return strings.Replace(word, at.Addr().String(), "(address)", 1)
		}
		return word
	})
}

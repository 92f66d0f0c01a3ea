package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// attackSeconds is the duration of each attack: long enough for its slowest requests, and in an exhaustive run for the
// limits of all attackers.
var attackSeconds = suitetest.Size(15, 60)

// calmSeconds is the duration of the victim's work before the attack: in an exhaustive run, long enough to compare
// the slowest calls of both phases.
var calmSeconds = suitetest.Size(5, 60)

// attack is the load of one account or one address.
type attack struct {
	// workers call strike concurrently.
	workers int
	strike  func(ctx context.Context, worker int) (answer, error)
	// refusal is an error code, or a status, that the attacker must receive in an exhaustive run.
	refusal string
	// check runs after the attack; optional.
	check func(t *testing.T)
}

// attacks are the attacks of an ordinary account, by the resource that each consumes. Those of A are on as many nodes
// as the backend can have.
var attacks = map[string]func(t *testing.T, s *scene) attack{
	"H1 batches that fail":     failingBatches,
	"H2 searches":              manySearches,
	"H3 correct passwords":     correctPasswords,
	"H4 API keys":              manyKeys,
	"H5 invitations":           manyInvitations,
	"H6 passwords of links":    manyGates,
	"H7 new link passwords":    manyNewPasswords,
	"M1 sockets":               manySockets,
	"M2 subscriptions":         manySubscriptions,
	"M3 bodies":                bodiesAtOnce,
	"M5 wrong passwords":       wrongPasswords,
	"M6 visits of one link":    manyVisits,
	"M8 slugs":                 manySlugs,
	"L5 unknown codes by IPv6": manyGuesses,
	"W1 silent receivers":      silentReceivers,
	"W2 silent neighbors":      silentNeighbors,
	"W3 logos":                 manyLogos,
	"W4 large routings":        largeRoutings,
	"A1 imports by slow APIs":  slowImports,
	"A2 silent uploads":        silentUploads,
	"A3 registrations":         manyRegistrations,
	"A5 rows of dry runs":      emptyRows,
	"A6 own slow receivers":    ownSlowReceivers,
}

// attackSettings are further settings, by attack.
var attackSettings = map[string][]string{"W1 silent receivers": toLoopback, "W2 silent neighbors": toLoopback,
	"A1 imports by slow APIs": toLoopback, "A6 own slow receivers": toLoopback}

// TestFault_AttackHarmsNobodyElse: while one account or address does as much as it can, another tenant
// creates, lists, logs in, subscribes and is followed, without a refusal and without long waits.
func TestFault_AttackHarmsNobodyElse(t *testing.T) {
	suitetest.Fault(t)
	for name, open := range map[string]func(testing.TB) backend{"postgres": production, "sqlite": embedded} {
		for _, one := range slices.Sorted(maps.Keys(attacks)) {
			onAllNodes := strings.HasPrefix(one, "A")
			if name == "sqlite" && !onAllNodes && !suitetest.Exhaustive() {
				continue
			}
			t.Run(name+"/"+one, func(t *testing.T) {
				s := newScene(t, open(t).alone(t), attackSettings[one]...)
				if onAllNodes {
					s.moreNodes(t)
				}
				s.run(t, attacks[one](t, s))
			})
		}
	}
}

// scene is the nodes of one instance in production, their mail server, a victim and an attacker.
type scene struct {
	*server
	nodes            []string // the addresses of all nodes, over which requests are spread
	backend          backend
	settings         []string
	mail             *mailbox
	victim, attacker tenant
	popular          string          // the path of a link of the victim
	fresh            []string        // paths of links without visits
	gated            []linkView      // with a password
	more             map[string]work // of the victim
}

// freshLinks is the number of links that the victim's visitors follow once.
const freshLinks = 1500

func newScene(t *testing.T, b backend, settings ...string) *scene {
	t.Helper()
	s := &scene{mail: newMailbox(t), backend: b}
	s.settings = append([]string{productionCost + "=on", "LINKFORGE_ENV=production", "LINKFORGE_LOG_FORMAT=text",
		"LINKFORGE_REGISTRATION=open",
		"LINKFORGE_RATE_LIMITS=on", "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_JWT_SECRET=" + jwtSecret,
		"LINKFORGE_CODE_SECRET=" + codeSecret, "LINKFORGE_SMTP_URL=smtp://" + s.mail.address + "?tls=off",
		"LINKFORGE_MAIL_FROM=Linkforge <no-reply@example.com>"}, settings...)
	s.server = start(t, b.inProcesses(), s.settings...)
	s.nodes = []string{s.address}
	s.server.mail = s.mail
	s.victim = s.from("192.0.2.1").tenant(t, "victim")
	s.attacker = s.from("198.51.100.1").tenant(t, "attacker")
	s.popular = s.victim.shorten(t, "https://example.com/popular").Link.path(s.server)
	for part := range freshLinks / 500 {
		s.fresh = append(s.fresh, s.victim.shortenMany(t, 500, fmt.Sprint("https://example.com/fresh/", part, "/"))...)
	}
	s.gated = s.victim.gateMany(t, "https://example.com/gated/")
	s.stop()
	s.again() // with nothing in memory
	s.victim.server, s.attacker.server = s.from("192.0.2.1"), s.from("198.51.100.1")
	return s
}

// moreNodes starts as many nodes as the backend can have.
func (s *scene) moreNodes(t *testing.T) {
	t.Helper()
	for len(s.nodes) < s.backend.nodes {
		more := start(t, s.backend.inProcesses(), append(s.settings, "LINKFORGE_PUBLIC_URL="+s.public)...)
		s.nodes = append(s.nodes, more.address)
	}
	s.victim.server, s.attacker.server = s.from("192.0.2.1"), s.from("198.51.100.1")
}

// node returns the address of one of the nodes.
func (s *scene) node() string { return s.nodes[rand.IntN(len(s.nodes))] }

// forwarding sends requests as a trusted proxy does for a client, to one of the nodes each.
type forwarding struct {
	http.RoundTripper
	address, node func() string
}

func (f forwarding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", f.address())
	r.URL.Host = f.node()
	return f.RoundTripper.RoundTrip(r)
}

// from returns the server as a client with the address sees it, with connections of its own.
func (s *scene) from(address string) *server {
	return s.fromEach(func() string { return address })
}

// fromEach is from with an address for each request.
func (s *scene) fromEach(address func() string) *server {
	twin := *s.server
	twin.http = &http.Client{
		Transport:     forwarding{newTransport(), address, s.node},
		CheckRedirect: s.server.http.CheckRedirect, Timeout: patience,
	}
	return &twin
}

// shortenMany creates links and returns their paths.
func (w tenant) shortenMany(t *testing.T, n int, prefix string) (paths []string) {
	t.Helper()
	links := make([]map[string]any, n)
	for i := range links {
		links[i] = map[string]any{"url": fmt.Sprint(prefix, i)}
	}
	var got struct {
		CreateLinks struct{ Results []struct{ Link linkView } }
	}
	w.must(t, &got, `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { link { shortUrl } } } }`,
		map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": links}})
	for _, r := range got.CreateLinks.Results {
		paths = append(paths, r.Link.path(w.server))
	}
	return paths
}

// linkPassword is the password of the gated links.
const linkPassword = "correct horse"

// gateMany creates 20 links with a password, a few in each call: a call has a deadline.
func (w tenant) gateMany(t *testing.T, prefix string) (gated []linkView) {
	t.Helper()
	for part := range 5 {
		links := make([]map[string]any, 4)
		for i := range links {
			links[i] = map[string]any{"url": fmt.Sprint(prefix, part, "/", i), "routing": gatedBy(linkPassword)}
		}
		var got struct {
			CreateLinks struct{ Results []struct{ Link linkView } }
		}
		w.must(t, &got,
			`mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { link { id shortUrl } } } }`,
			map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": links}})
		for _, r := range got.CreateLinks.Results {
			gated = append(gated, r.Link)
		}
	}
	return gated
}

func gatedBy(password string) map[string]any {
	return map[string]any{"gate": map[string]any{"password": password}}
}

// work is a kind of request of the victim or its visitors.
type work struct {
	pause time.Duration
	once  func() error
}

// normalWork returns the kinds of work of the victim.
func (s *scene) normalWork() map[string]work {
	v, visitor := s.victim, s.fromEach(randomIPv4)
	var created, followed, passed, set atomic.Int64
	follow := func(path string) error {
		a, err := visitor.get(path)
		if err == nil && a.status != http.StatusFound {
			err = fmt.Errorf("%s: status %d: %.200s", path, a.status, a.body)
		}
		return err
	}
	all := map[string]work{
		"create": {100 * time.Millisecond, func() error {
			got, err := v.create(fmt.Sprint("https://example.com/created/", created.Add(1)))
			if err == nil && len(got.Errors) > 0 {
				err = fmt.Errorf("%+v", got.Errors)
			}
			return err
		}},
		"list": {200 * time.Millisecond, func() error {
			return v.try(new(any),
				`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 20, filter: {search: "fresh"}) {
				edges { node { id code clickCount } } } } }`, map[string]any{"w": v.workspaceID})
		}},
		"log-in": {2500 * time.Millisecond, func() error { return v.logIn() }},
		"subscribe": {time.Second, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			l, err := listenToEvents(ctx, v.client, linkClicked, watching(v.workspaceID, "", ""))
			if err == nil {
				l.close()
			}
			return err
		}},
		"gate": {150 * time.Millisecond, func() error {
			path := s.gated[int(passed.Add(1)-1)%(len(s.gated)-1)].path(s.server)
			a, err := visitor.get(path, "X-Link-Password", linkPassword)
			if err == nil && a.status != http.StatusFound {
				err = fmt.Errorf("status %d: %.200s", a.status, a.body)
			}
			return err
		}},
		"set a password": {time.Second, func() error {
			return v.try(new(any),
				`mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors { code message } } }`,
				map[string]any{"in": map[string]any{"id": s.gated[len(s.gated)-1].ID,
					"routing": gatedBy(fmt.Sprint("password ", set.Add(1)))}})
		}},
		"cached redirect": {20 * time.Millisecond, func() error { return follow(s.popular) }},
		"uncached redirect": {60 * time.Millisecond, func() error {
			return follow(s.fresh[int(followed.Add(1)-1)%len(s.fresh)])
		}},
	}
	maps.Copy(all, s.more)
	return all
}

const logIn = `mutation ($in: LoginInput!) { login(input: $in) { errors { code message } } }`

// logIn logs in with the correct password.
func (w tenant) logIn() error {
	var got struct {
		Login struct{ Errors []userError }
	}
	err := client{server: w.server}.try(&got, logIn,
		map[string]any{"in": map[string]any{"email": w.email, "password": w.password}})
	if err == nil && len(got.Login.Errors) > 0 {
		err = fmt.Errorf("%+v", got.Login.Errors)
	}
	return err
}

// diary has the durations and errors of the victim's work, by its kind.
type diary struct {
	mu     sync.Mutex
	took   map[string][]time.Duration
	errors map[string][]error
}

func (d *diary) note(kind string, took time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took[kind] = append(d.took[kind], took)
	if err != nil {
		d.errors[kind] = append(d.errors[kind], err)
	}
}

// percentile returns the duration that a percentage of the calls did not exceed.
func (d *diary) percentile(kind string, percent int) time.Duration {
	all := slices.Sorted(slices.Values(d.took[kind]))
	if len(all) == 0 {
		return 0
	}
	return all[(len(all)*percent-1)/100]
}

// live does the victim's work until the context ends.
func (s *scene) live(ctx context.Context) *diary {
	d := &diary{took: map[string][]time.Duration{}, errors: map[string][]error{}}
	var all sync.WaitGroup
	for kind, w := range s.normalWork() {
		all.Go(func() {
			for poll.Wait(ctx, w.pause) == nil {
				began := time.Now()
				err := w.once()
				d.note(kind, time.Since(began), err)
			}
		})
	}
	all.Wait()
	return d
}

// run compares the victim's work before the attack and during it.
func (s *scene) run(t *testing.T, a attack) {
	t.Helper()
	calm, cancel := context.WithTimeout(t.Context(), time.Duration(calmSeconds)*time.Second)
	before := s.live(calm)
	cancel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(attackSeconds)*time.Second)
	defer cancel()
	answers := newTally()
	var all sync.WaitGroup
	for worker := range a.workers {
		all.Go(func() {
			for ctx.Err() == nil {
				got, err := a.strike(ctx, worker)
				if answers.note(got, err) {
					_ = poll.Wait(ctx, refusedPause)
				}
			}
		})
	}
	during := s.live(ctx)
	all.Wait()
	for _, kind := range slices.Sorted(maps.Keys(during.took)) {
		calm, under := before.percentile(kind, 99), during.percentile(kind, 99)
		t.Logf("%-18s p99 %8.1f ms, before %8.1f ms; p50 %8.1f ms, before %8.1f ms; %5d calls", kind,
			milliseconds(under),
			milliseconds(calm), milliseconds(during.percentile(kind, 50)), milliseconds(before.percentile(kind, 50)),
			len(during.took[kind]))
		bound := bounded(time.Second)
		if kind == "import" || kind == "upload" {
			bound = movesBound
		}
		if under > bound {
			t.Errorf("%s: p99 %s during the attack, %s before", kind, under, calm)
		}
		for _, d := range []*diary{before, during} {
			if failed := d.errors[kind]; len(failed) > 0 {
				t.Errorf("%s: %d of %d failed, the first: %v", kind, len(failed), len(d.took[kind]), failed[0])
			}
		}
	}
	t.Logf("attacker: %s", answers)
	if suitetest.Exhaustive() && a.refusal != "" && answers.refused[a.refusal] == 0 {
		t.Errorf("the attacker never received %s", a.refusal)
	}
	if answers.untyped > 0 {
		t.Errorf("%d refusals of the attacker have no code or retryAfter, such as %s", answers.untyped, answers.example)
	}
	if a.check != nil {
		a.check(t)
	}
}

// refusedPause is the pause of an attacker's worker after an error. The load generator shares the
// processors with the node, and its own load is not measured.
const refusedPause = 50 * time.Millisecond

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// tally counts the attacker's answers.
type tally struct {
	mu            sync.Mutex
	all, failed   int
	refused       map[string]int
	untyped       int
	example, lost string
}

func newTally() *tally { return &tally{refused: map[string]int{}} }

var codeInBody = regexp.MustCompile(`"code":"([A-Z_]+)"`)

// note reports whether the answer is an error of GraphQL.
func (c *tally) note(a answer, err error) (refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	if err != nil {
		c.failed++
		c.lost = err.Error()
		return false
	}
	code := ""
	if m := codeInBody.FindStringSubmatch(a.body); m != nil {
		code = m[1]
	} else if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		code = strconv.Itoa(a.status)
	}
	if code == "" && a.status < http.StatusInternalServerError {
		return false
	}
	c.refused[code]++
	waits := a.header.Get("Retry-After") != "" || strings.Contains(a.body, `"retryAfter":`)
	if code == "" || code == "INTERNAL" ||
		!waits && (code == "RATE_LIMITED" || code == "UNAVAILABLE" || code == "429" || code == "503") {
		c.untyped++
		c.example = fmt.Sprintf("%d %.300s", a.status, a.body)
	}
	return code != "429"
}

func (c *tally) String() string {
	text := fmt.Sprintf("%d requests, %d without an answer", c.all, c.failed)
	if c.failed > 0 {
		text += " (" + c.lost + ")"
	}
	for _, code := range slices.Sorted(maps.Keys(c.refused)) {
		text += fmt.Sprintf(", %d %s", c.refused[code], code)
	}
	return text
}

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// visitors and creators are how many people there are at a time.
	visitors = 30
	creators = 5
	// limitedVisitors follow the limited link, at limitedRate visits a second together.
	limitedVisitors = 6
	limitedRate     = 60
	// patience is how long they wait for an answer.
	patience = 30 * time.Second
	// repeated is how many creations of a hundred are of URLs that have a link.
	repeated = 40
)

// newClient comes by nginx, over connections of its own that are kept.
func (l *layout) newClient() *http.Client {
	return &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: visitors + creators + limitedVisitors,
			TLSClientConfig:     &tls.Config{RootCAs: l.proxy.roots},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, l.proxy.address) // whatever localhost may be
			},
		},
	}
}

// crowd are people who come until it is stopped.
type crowd struct {
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// gather has n people do something, so many times a second together.
func gather(ctx context.Context, n, perSecond int, do func(ctx context.Context)) *crowd {
	ctx, cancel := context.WithCancel(ctx)
	c := &crowd{cancel: cancel}
	every := time.Second * time.Duration(n) / time.Duration(perSecond)
	for range n {
		c.running.Go(func() {
			if rig.Pause(ctx, rand.N(every)) != nil {
				return
			}
			next := time.NewTicker(every)
			defer next.Stop()
			for ctx.Err() == nil {
				do(context.WithoutCancel(ctx)) // who has asked hears the answer
				select {
				case <-next.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return c
}

// stop waits until everybody has had an answer.
func (c *crowd) stop() {
	c.cancel()
	c.running.Wait()
}

// visit follows a link, and writes down what came of it.
func (d *scenario) visit(ctx context.Context, k kind, at link) {
	e := entry{kind: k, began: time.Now()}
	status, _, err := d.tenant.Follow(ctx, at.path)
	e.ended = time.Now()
	switch {
	case err != nil:
		e.outcome = failureOf(err)
		d.tally.add(at.id, visitCount{unsure: 1})
	case status == http.StatusFound:
		d.tally.add(at.id, visitCount{seen: 1})
	default:
		e.outcome = strconv.Itoa(status)
		if status == http.StatusBadGateway || status == http.StatusGatewayTimeout { // nginx's, who may have asked a node
			d.tally.add(at.id, visitCount{unsure: 1})
		}
	}
	d.book.note(e)
}

// failureOf is what is said of a request without an answer.
func failureOf(err error) string {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout"
	}
	return "no answer"
}

func linkOf(m rig.Link, to string) (link, error) {
	u, err := url.Parse(m.Link.ShortURL)
	if err != nil {
		return link{}, err
	}
	return link{m.Link.ID, to, m.Link.Code, u.EscapedPath()}, nil
}

// create makes a link, and writes down what came of it.
func (d *scenario) create(ctx context.Context, to string) (l link, created, ok bool) {
	e := entry{kind: creations, began: time.Now()}
	m, err := d.tenant.CreateLink(ctx, to)
	e.ended = time.Now()
	if err == nil {
		l, err = linkOf(m, to)
	}
	if err != nil {
		e.outcome = failureOf(err)
		if r, ok := errors.AsType[rig.Refusal](err); ok {
			e.outcome = r.Code
		}
		d.book.note(e)
		d.notebook.remember(e.outcome, err)
		return l, false, false
	}
	d.book.note(e)
	return l, m.Created, true
}

// creator makes links of its own, and asks for others' again. What it was not told of, it asks for
// again, as people are told to.
type creator struct {
	*scenario
	name    string
	number  int
	pending string
}

// step does one thing.
func (c *creator) step(ctx context.Context) {
	if c.pending == "" && rand.IntN(100) < repeated {
		if known, ok := c.acknowledged.any(); ok {
			if l, created, ok := c.create(ctx, known.url); ok {
				c.acknowledged.again(known, l, created)
			}
			return
		}
	}
	if c.pending == "" {
		c.number++
		c.pending = "https://example.com/drill/" + c.name + "/" + strconv.Itoa(c.number)
	}
	l, _, ok := c.create(ctx, c.pending)
	if !ok {
		return
	}
	c.pending = ""
	c.acknowledged.add(l)
	c.visit(ctx, firstVisits, l)
}

// register has the links that were acknowledged, and what was said of them later that cannot be.
type register struct {
	mu    sync.Mutex
	all   []link
	wrong []string
}

func (r *register) add(l link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, l)
}

func (r *register) any() (link, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return link{}, false
	}
	return r.all[rand.IntN(len(r.all))], true
}

// again compares what was answered for a URL that has a link with that link.
func (r *register) again(was, is link, created bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case was.code != is.code || was.id != is.id:
		r.wrong = append(r.wrong, fmt.Sprintf("%s had the code %s, and then %s", was.url, was.code, is.code))
	case created:
		r.wrong = append(r.wrong, was.url+" was made twice")
	}
}

func (r *register) snapshot() (all []link, wrong []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]link(nil), r.all...), append([]string(nil), r.wrong...)
}

// notebook keeps an example of each failure, for people.
type notebook struct {
	mu       sync.Mutex
	examples map[string]string
}

func (n *notebook) remember(what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.examples == nil {
		n.examples = map[string]string{}
	}
	if _, ok := n.examples[what]; !ok {
		n.examples[what] = strings.TrimSpace(err.Error())
	}
}

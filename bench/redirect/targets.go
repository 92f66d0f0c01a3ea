package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// warmUpPatience and burstPatience are how long a target may go on working after its requests.
const (
	warmUpPatience = 30 * time.Minute
	burstPatience  = 5 * time.Minute
)

// bench is one run.
type bench struct {
	options
	say func(format string, args ...any)

	// self and server are binaries, folder is where everything is written.
	self, folder      string
	embedded, servers *backend

	services *rig.Services

	targets []*target
	// counts says that perf counts instructions.
	counts bool
	// wrong is what no answer should have been.
	wrong []string
	// bursts are about all targets.
	bursts []burst
}

// target is a server that is measured.
type target struct {
	name    string
	kind    kind
	on      *backend     // nil when it has no data
	process *rig.Process // nil when it is not installed
	// beside are the processes of PostgreSQL and Redis, when the target uses them.
	beside []int
	// seen is how many redirects it has answered.
	seen int64
	// before and after are the memory that it had, around the warm-up; clicks is what the database counted.
	before, after, clicks int64
	// figures are what was measured, by the number of connections.
	figures map[int][]figures
}

// kind is what a target is for.
type kind int

const (
	baseline  kind = iota // the constant handler, which all others are compared with
	ours                  // Linkforge
	webServer             // nginx
	beaten                // the textbook
)

// figures are what one burst showed.
type figures struct {
	rate     float64 // requests a second
	cpu      float64 // µs a request
	beside   float64 // the same, of PostgreSQL and Redis
	p50, p99 float64 // ms
	rest     float64 // seconds until what was put off was done
	// instructions a request; zero when nobody counts.
	instructions float64
	// ofRate and ofP99 are rate and p99, divided by those of the constant handler in the burst before.
	ofRate, ofP99 float64
}

// start starts all targets. Those that are not measured have nothing to do.
func (b *bench) start(ctx context.Context) error {
	b.counts = canCount()
	for _, t := range []struct {
		target
		start func(context.Context, *target, string) (*rig.Process, error)
	}{
		{target{name: "nginx, `return 302` by a `map`", kind: webServer}, b.startNginx},
		{target{name: "net/http, a constant 302", kind: baseline}, b.startConstant},
		{target{name: "Linkforge embedded", kind: ours, on: b.embedded}, b.startLinkforge},
		{target{name: "Linkforge on PostgreSQL + Redis", kind: ours, on: b.servers}, b.startLinkforge},
		{target{name: "SELECT, DECR, UPDATE on SQLite", kind: beaten, on: b.embedded}, b.startTextbook("-quota")},
		{target{name: "SELECT, UPDATE on SQLite", kind: beaten, on: b.embedded}, b.startTextbook()},
		{target{name: "SELECT, DECR, UPDATE on PostgreSQL + Redis", kind: beaten, on: b.servers}, b.startTextbook("-quota")},
		{target{name: "SELECT, UPDATE on PostgreSQL", kind: beaten, on: b.servers}, b.startTextbook()},
	} {
		if t.kind == beaten && !b.textbook {
			continue
		}
		address, err := rig.FreeAddress()
		if err != nil {
			return err
		}
		one := &t.target
		one.figures = map[int][]figures{}
		if one.on == b.servers {
			one.beside = b.services.PIDs()
		}
		b.targets = append(b.targets, one)
		if one.process, err = t.start(ctx, one, address); err != nil {
			return err
		}
	}
	return nil
}

// leastCache is the default of LINKFORGE_CACHE_BYTES, cachedLink what its documentation says that a link takes: they all fit.
const (
	leastCache = 256 << 20
	cachedLink = 600
)

func (b *bench) startConstant(ctx context.Context, _ *target, address string) (*rig.Process, error) {
	return rig.Start(ctx, b.folder, "constant", address, nil, b.self, "constant", "-address", address)
}

func (b *bench) startLinkforge(ctx context.Context, t *target, address string) (*rig.Process, error) {
	env := append([]string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_PUBLIC_URL=http://" + address, "LINKFORGE_ENV=production", "LINKFORGE_LOG_LEVEL=warn",
		"LINKFORGE_RATE_LIMITS=off", "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_HIT_QUOTA=" + strconv.Itoa(allowance),
		"LINKFORGE_CACHE_BYTES=" + strconv.Itoa(max(leastCache, b.links*cachedLink)),
	}, t.on.settings...)
	return rig.Start(ctx, b.folder, "linkforge-"+t.on.name, address, env, b.server, "serve")
}

func (b *bench) startTextbook(more ...string) func(context.Context, *target, string) (*rig.Process, error) {
	return func(ctx context.Context, t *target, address string) (*rig.Process, error) {
		command := append([]string{b.self, "textbook", "-address", address, fmt.Sprintf("-sqlite=%t", t.on == b.embedded)}, more...)
		return rig.Start(ctx, b.folder, fmt.Sprintf("textbook-%s-%d", t.on.name, len(more)), address, t.on.textbookSettings, command...)
	}
}

// nginxConfig has as many workers as there are cores, and a map of all links. Its sizes are for a million of them.
const nginxConfig = `daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes auto;
events { worker_connections 1024; }
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	map_hash_max_size %d;
	map_hash_bucket_size 1024;
	map $uri $to { include links.map; }
	server {
		listen %s;
		location / {
			if ($to = "") { return 404; }
			return 302 $to;
		}
	}
}
`

// startNginx starts no process when nginx is not installed.
func (b *bench) startNginx(ctx context.Context, _ *target, address string) (*rig.Process, error) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		return nil, nil
	}
	folder := filepath.Join(b.folder, "nginx")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	var links bytes.Buffer
	for number := range b.links {
		c := codeOf(number)
		fmt.Fprintf(&links, "/%s \"%s\";\n", c, urlOf(number))
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "links.map"), links.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "nginx.conf"), fmt.Appendf(nil, nginxConfig, 2*max(b.links, 1024), address), 0o644))
	if err != nil {
		return nil, err
	}
	return rig.Start(ctx, b.folder, "nginx", address, nil, binary, "-p", folder, "-e", "stderr", "-c", "nginx.conf")
}

// warmUp visits every link once on Linkforge, or only looks at it, and visits everything for a moment, so that no cache is empty
// when the time runs.
func (b *bench) warmUp(ctx context.Context) error {
	for _, t := range b.targets {
		if t.process == nil {
			continue
		}
		l := load{Links: b.links, Connections: loads()[0], Burst: min(b.burst, time.Second)}
		if t.kind == ours {
			l.Burst, l.Look = 0, b.look
		}
		var err error
		if t.before, err = rig.RSS(t.process.PID()); err != nil {
			return err
		}
		o, err := b.drive(ctx, t, l)
		if err != nil {
			return err
		}
		if _, err := rig.Rest(ctx, t.pids(), warmUpPatience); err != nil {
			return err
		}
		if t.after, err = rig.RSS(t.process.PID()); err != nil {
			return err
		}
		b.say("%s is warm: %d requests in %.1f s", t.name, o.Redirects, o.Took.Seconds())
	}
	return nil
}

func (t *target) pids() []int { return append([]int{t.process.PID()}, t.beside...) }

// round measures everything once: each target right after the constant handler, but the textbook, which is compared with
// Linkforge.
func (b *bench) round(ctx context.Context, round, connections int) error {
	var constant *target
	for _, t := range b.targets {
		if t.kind == baseline {
			constant = t
		}
	}
	l := load{Links: b.links, Connections: connections, Burst: b.burst, Seed: uint64(round)}
	var base figures
	for _, t := range b.targets {
		if t.process == nil || t == constant {
			continue
		}
		if t.kind != beaten {
			var err error
			if base, err = b.measure(ctx, constant, l, figures{}); err != nil {
				return err
			}
		}
		if _, err := b.measure(ctx, t, l, base); err != nil {
			return err
		}
	}
	return nil
}

// burst is what the machine did meanwhile: what the load generator used for a request in µs, of the cores that it may use,
// and how many cores others used.
type burst struct{ generator, busy, others float64 }

// steadyAfter is how long a target is driven before it is measured: after every pause, what it keeps for a while is gone.
const steadyAfter = 2 * time.Second

// measure drives a target for one burst, once it is in its stride. What its processes use until they are at rest is counted as well.
func (b *bench) measure(ctx context.Context, t *target, l load, base figures) (figures, error) {
	steady := l
	steady.Burst, steady.Seed = steadyAfter, l.Seed+1<<32
	if _, err := b.drive(ctx, t, steady); err != nil {
		return figures{}, err
	}
	counted, err := b.counting(t)
	if err != nil {
		return figures{}, err
	}
	before, err := t.used()
	if err != nil {
		return figures{}, err
	}
	o, err := b.drive(ctx, t, l)
	if err != nil {
		return figures{}, err
	}
	rested, err := rig.Rest(ctx, t.pids(), burstPatience)
	if err != nil {
		return figures{}, err
	}
	after, err := t.used()
	if err != nil {
		return figures{}, err
	}
	n, used := float64(max(o.Redirects, 1)), after.Minus(before)
	f := figures{
		rate: float64(o.Redirects) / o.Took.Seconds(), cpu: rig.Micros(used.Own) / n, beside: rig.Micros(used.Beside) / n,
		instructions: float64(counted()) / n, p50: rig.Millis(o.P50), p99: rig.Millis(o.P99), rest: rested.Seconds(), ofRate: 1, ofP99: 1,
	}
	if t.kind != baseline {
		f.ofRate, f.ofP99 = f.rate/base.rate, f.p99/base.p99
	}
	t.figures[l.Connections] = append(t.figures[l.Connections], f)
	b.bursts = append(b.bursts, burst{
		generator: rig.Micros(o.CPU) / n,
		busy:      o.CPU.Seconds() / o.Took.Seconds() / float64(rig.GeneratorCores()),
		others:    max(0, (used.Machine-used.Own-used.Beside-o.whole).Seconds()/used.At.Seconds()),
	})
	return f, nil
}

// used is what the target has used so far, and PostgreSQL and Redis for it.
func (t *target) used() (rig.Usage, error) {
	return rig.Used([]int{t.process.PID()}, t.beside)
}

// counting counts a target's instructions until the function is called that it returns; without perf there are none.
func (b *bench) counting(t *target) (func() int64, error) {
	if !b.counts {
		return func() int64 { return 0 }, nil
	}
	c, err := startCounter(t.process.PID())
	if err != nil {
		return nil, fmt.Errorf("starting perf: %w", err)
	}
	return c.stop, nil
}

// drive has the load generator visit a target, and notes what should not have happened.
func (b *bench) drive(ctx context.Context, t *target, l load) (outcome, error) {
	l.Address = t.process.Address
	cmd := exec.CommandContext(ctx, b.self, l.arguments()...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return outcome{}, fmt.Errorf("the load generator, at %s: %w", t.name, err)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		return outcome{}, fmt.Errorf("the load generator, at %s: %w", t.name, err)
	}
	o.whole = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if !l.Look {
		t.seen += o.Redirects
	}
	for status, n := range o.Others {
		b.wrong = append(b.wrong, fmt.Sprintf("%s, %d connections: %d answers were %d", t.name, l.Connections, n, status))
	}
	if len(o.Broken) > 0 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s, %d connections: %d broke, the first %s", t.name, l.Connections, len(o.Broken), o.Broken[0]))
	}
	return o, nil
}

package domain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// hookedResolver calls afterLookup between a lookup and the use of its result.
type hookedResolver struct {
	Resolver
	afterLookup func(ctx context.Context, name string)
}

func (h hookedResolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	texts, err := h.Resolver.LookupTXT(ctx, name)
	h.afterLookup(ctx, name)
	return texts, err
}

// meanwhile calls the function once, between the next DNS response and its use.
func (z *zone) meanwhile(do func()) {
	answering := z.Resolver
	z.Resolver = hookedResolver{answering, func(context.Context, string) {
		z.Resolver = answering // the function may query DNS
		do()
	}}
}

// verify verifies a domain; in any goroutine.
func (z *zone) verify(t *testing.T, m workspace.Membership, d *Domain) {
	t.Helper()
	if _, err := z.Verify(t.Context(), m, d.ID); err != nil {
		t.Error(err)
	}
}

// check runs the job.
func (z *zone) check(t *testing.T) {
	t.Helper()
	must.NoError(t, z.CheckAll(db.AsSystem(t.Context())))
}

// failing has the domain's record be missing, and found missing.
func (z *zone) failing(t *testing.T, d *Domain) {
	t.Helper()
	z.dns.SetTXT(d.RecordName())
	z.time = z.time.Add(checkEvery)
	z.check(t)
	z.is(t, d, Failing, "without its record")
}

func TestVerify_ReadsTheRecord(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own, other := z.claim(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
		refused := func(when string) {
			t.Helper()
			_, err := z.Verify(t.Context(), z.adas, own.ID)
			e := errs.From(err)
			if e.Kind != errs.InvalidInput || !cmp.Equal(e.Field, []string{"id"}) ||
				!strings.Contains(e.Public(), own.RecordName()) || !strings.Contains(e.Public(), own.RecordValue()) {
				t.Errorf("%s: %v", when, err)
			}
			z.is(t, own, Pending, when)
		}
		refused("without the name")
		z.dns.SetTXT(own.RecordName())
		refused("without a record")
		z.prove(other)
		refused("with another's record")
		z.dns.SetTXT(own.RecordName(), own.RecordValue()+"A", "A"+own.RecordValue(), own.Token,
			strings.ToLower(own.RecordValue()))
		refused("with records that are almost right")
		z.dns.SetTXT(own.Host, own.RecordValue())
		refused("with the record elsewhere")

		z.prove(own)
		z.dns.Break(true)
		wantError(t, errs.Unavailable, "with DNS away")(z.Verify(t.Context(), z.adas, own.ID))
		z.is(t, own, Pending, "with DNS away")
		z.dns.Break(false)
		for i := range 2 {
			z.time = dbtest.Noon.Add(time.Duration(i) * time.Hour)
			verified := must.Value(z.Verify(t.Context(), z.adas, own.ID))(t)
			for name, got := range map[string]*Domain{"answered": verified, "kept": z.kept(t, own)} {
				if got.Status() != Verified || !got.VerifiedAt.Equal(dbtest.Noon) || !got.CheckedAt.Equal(z.time) {
					t.Errorf("%s: %+v", name, got)
				}
			}
		}
		z.wantEvents(t, z.adas, `ada DOMAIN_ADDED {"host":"go.example.com"}`,
			`ada DOMAIN_VERIFIED {"host":"go.example.com"}`)
		z.wantEvents(t, z.eves, `eve DOMAIN_ADDED {"host":"go.example.com"}`)
	})
}

func TestStore_VerifiesNoOwnHost(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	d := z.claim(t, z.adas, "go.example.com")
	z.prove(d)
	z.own(t, "https://sho.rt", "go.example.com") // configured after the claim
	_, err := z.Verify(t.Context(), z.adas, d.ID)
	if e := errs.From(err); e.Kind != errs.InvalidInput || !slices.Equal(e.Field, []string{"id"}) {
		t.Errorf("%v at %v", err, e.Field)
	}
}

func TestVerify_RestoresAFailingDomain(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		z.failing(t, own)
		wantError(t, errs.InvalidInput, "without the record")(z.Verify(t.Context(), z.adas, own.ID))
		z.is(t, own, Failing, "after it was not found")
		z.prove(own)
		must.Value(z.Verify(t.Context(), z.adas, own.ID))(t)
		z.is(t, own, Verified, "after it was found")
	})
}

// TestVerify_QueriesTheRecordName: a query has a deadline, and is for exactly one name, with any
// search domains of the machine.
func TestVerify_QueriesTheRecordName(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	own := z.claim(t, z.adas, "go.example.com")
	z.prove(own)
	var names []string
	z.Resolver = hookedResolver{z.Resolver, func(ctx context.Context, name string) {
		names = append(names, name)
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > lookupDeadline {
			t.Errorf("%s may take until %s", name, deadline)
		}
	}}
	must.Value(z.Verify(t.Context(), z.adas, own.ID))(t)
	z.time = dbtest.Noon.Add(checkEvery)
	z.check(t)
	wanttest.Equal(t, []string{"_linkforge.go.example.com.", "_linkforge.go.example.com."}, names, "looked up names")
}

func TestVerify_IsRateLimited(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	z.Limits = ratelimit.New(dbtest.Redis(t, ""), z.Log, time.Now)
	own, other := z.claim(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
	for range 30 {
		wantError(t, errs.InvalidInput, "within the limit")(z.Verify(t.Context(), z.adas, own.ID))
	}
	wantError(t, errs.RateLimited, "once more")(z.Verify(t.Context(), z.adas, own.ID))
	wantError(t, errs.InvalidInput, "another workspace")(z.Verify(t.Context(), z.eves, other.ID))
}

func TestVerify_NewProofReplacesOld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(t *testing.T, z *zone, adas, eves *Domain)
		wins   bool
	}{
		"a record that is there keeps the host": {func(_ *testing.T, z *zone, adas, eves *Domain) {
			z.prove(adas, eves)
		}, false},
		"a record found missing loses it": {func(t *testing.T, z *zone, adas, eves *Domain) {
			z.failing(t, adas)
			z.prove(eves)
		}, true},
		"a record found missing loses it, though it has come back since": {
			func(t *testing.T, z *zone, adas, eves *Domain) {
				z.failing(t, adas)
				z.prove(adas, eves)
			}, true},
		"a record that is missing now loses it": {func(_ *testing.T, z *zone, _, eves *Domain) { z.prove(eves) }, true},
		"no proof wins nothing": {func(t *testing.T, z *zone, adas, _ *Domain) {
			z.failing(t, adas)
		}, false},
		"a deleted workspace keeps what it can prove": {func(t *testing.T, z *zone, adas, eves *Domain) {
			must.Value(z.spaces.Delete(t.Context(), z.adas))(t)
			z.prove(adas, eves)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				z := setupZone(t, d)
				adas, eves := z.verified(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
				z.makePrimary(t, z.adas, adas)
				c.before(t, z, adas, eves)
				before := z.events(t, z.adas)
				had := z.kept(t, adas).Status()

				_, err := z.Verify(t.Context(), z.eves, eves.ID)
				if !c.wins {
					if err == nil || !errs.From(err).Kind.IsUserError() ||
						!cmp.Equal(errs.From(err).Field, []string{"id"}) {
						t.Error(err)
					}
					z.is(t, adas, had, "after another has tried")
					z.is(t, eves, Pending, "after having tried")
					z.wantEvents(t, z.adas, before...)
					z.wantEvents(t, z.eves, `eve DOMAIN_ADDED {"host":"go.example.com"}`)
					if got := z.primary(t, z.adas); got != adas.Host {
						t.Errorf("primary is %q", got)
					}
					return
				}
				must.NoError(t, err)
				z.is(t, adas, Pending, "after fresh proof")
				z.is(t, eves, Verified, "with fresh proof")
				z.wantEvents(t, z.adas, append(before, `server DOMAIN_LOST {"host":"go.example.com"}`)...)
				z.wantEvents(t, z.eves, `eve DOMAIN_ADDED {"host":"go.example.com"}`,
					`eve DOMAIN_VERIFIED {"host":"go.example.com"}`)
				if got := z.primary(t, z.adas); got != "" {
					t.Errorf("the loser's primary host is still %q", got)
				}
			})
		})
	}
}

// TestVerify_FirstClaimIsNotEnough: a record that was missing a moment ago may be there by now, and
// then it is the other's.
func TestVerify_FirstClaimIsNotEnough(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		adas, eves := z.claim(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
		z.prove(eves)
		z.meanwhile(func() {
			z.time = z.time.Add(time.Second)
			z.prove(adas, eves)
			z.verify(t, z.adas, adas)
		})
		wantError(t, errs.DomainTaken, "with an answer from before")(z.Verify(t.Context(), z.eves, eves.ID))
		z.is(t, adas, Verified, "after the other")
		z.is(t, eves, Pending, "after the other")
	})
}

func TestVerify_ConcurrentWithRemove(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.claim(t, z.adas, "go.example.com")
		z.prove(own)
		z.meanwhile(func() {
			if _, err := z.Remove(t.Context(), z.adas, own.ID); err != nil {
				t.Error(err)
			}
		})
		wantError(t, errs.NotFound, "removed meanwhile")(z.Verify(t.Context(), z.adas, own.ID))
	})
}

// TestVerify_SucceedsOnceConcurrently: of several workspaces that verify a host at the same time
// with equal proof, exactly one succeeds, and the others receive DOMAIN_TAKEN. This holds for a
// free host, and for one whose owner is about to lose it.
func TestVerify_SucceedsOnceConcurrently(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"free": false, "held by one that fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				z := setupZone(t, d)
				if held {
					z.failing(t, z.verified(t, z.eves, "go.example.com"))
				}
				rivals := make([]workspace.Membership, 8)
				claims := make([]*Domain, len(rivals))
				for i := range rivals {
					rivals[i] = workspacetest.Of(t, d, z.ada, fmt.Sprintf("rival-%d", i))
					claims[i] = z.claim(t, rivals[i], "go.example.com")
				}
				z.prove(claims...)
				// All receive the DNS response before any of them uses it.
				var lookups sync.WaitGroup
				lookups.Add(len(rivals))
				z.Resolver = hookedResolver{z.Resolver, func(context.Context, string) {
					lookups.Done()
					lookups.Wait()
				}}
				var winner string
				got := errstest.AtOnce(len(rivals), func(i int) error {
					won, err := z.Verify(t.Context(), rivals[i], claims[i].ID)
					if err == nil {
						winner = won.ID
					}
					return err
				})
				wanttest.Equal(t, map[string]int{"OK": 1, "DOMAIN_TAKEN": 7}, got, "answers")
				var verified []string
				must.NoError(t, d.NewSelect().Model((*Domain)(nil)).Column("id").Where("verified_at IS NOT NULL").
					Scan(db.AsSystem(t.Context()), &verified))
				wanttest.Equal(t, []string{winner}, verified, "verified")
				for i, m := range rivals {
					want := []string{`ada DOMAIN_ADDED {"host":"go.example.com"}`}
					if claims[i].ID == winner {
						want = append(want, `ada DOMAIN_VERIFIED {"host":"go.example.com"}`)
					}
					z.wantEvents(t, m, want...)
				}
			})
		})
	}
}

// TestJob_ChecksDomains follows one domain from run to run.
func TestJob_ChecksDomains(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		z.makePrimary(t, z.adas, own)
		pending := z.claim(t, z.adas, "pending.example.com")
		there, gone := func() { z.prove(own) }, func() { z.dns.SetTXT(own.RecordName()) }
		away, back := func() { z.dns.Break(true) }, func() { z.dns.Break(false) }
		for _, step := range []struct {
			after time.Duration
			dns   func()
			want  Status
			when  string
		}{
			{checkEvery - time.Second, gone, Verified, "too soon after the last look"},
			{time.Second, there, Verified, "with its record"},
			{checkEvery, away, Verified, "with DNS away"},
			{100 * time.Hour, func() {}, Verified, "with DNS away for long"},
			{checkEvery, func() { back(); gone() }, Failing, "without its record"},
			{time.Minute, there, Verified, "with its record again"},
			{checkEvery, gone, Failing, "without its record again"},
			{grace - time.Second, func() {}, Failing, "at the end of its grace"},
			{time.Second, away, Failing, "after its grace, with DNS away"},
			{100 * time.Hour, func() {}, Failing, "with DNS away for long after its grace"},
			{time.Minute, func() { back(); there() }, Verified, "with its record after its grace"},
			{checkEvery, gone, Failing, "without its record for the third time"},
			{grace - time.Second, func() {}, Failing, "at the end of its grace again"},
			{time.Second, func() {}, Pending, "after its grace"},
			{grace, there, Pending, "with its record after it was lost"},
		} {
			step.dns()
			z.time = z.time.Add(step.after)
			z.check(t)
			z.is(t, own, step.want, step.when)
			z.is(t, pending, Pending, step.when)
			if want := map[bool]string{true: own.Host}[step.want != Pending]; z.primary(t, z.adas) != want {
				t.Errorf("primary is %q %s, want %q", z.primary(t, z.adas), step.when, want)
			}
		}
		events := z.events(t, z.adas)
		var want []string
		for _, status := range []string{"FAILING", "VERIFIED", "FAILING", "VERIFIED", "FAILING", "LOST"} {
			want = append(want, `server DOMAIN_`+status+` {"host":"go.example.com"}`)
		}
		wanttest.Equal(t, want, events[4:], "the audit log, at its end")
		z.verified(t, z.eves, own.Host) // it is free
	})
}

func TestJob_MissingNameCountsAsMissingRecord(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	own := z.verified(t, z.adas, "go.example.com")
	z.Resolver = answer{err: &net.DNSError{Err: "no such host", Name: own.RecordName(), IsNotFound: true}}
	z.time = dbtest.Noon.Add(checkEvery)
	z.check(t)
	z.is(t, own, Failing, "without its name")
}

// answer is Names that always answers the same.
type answer struct {
	texts []string
	err   error
}

func (a answer) LookupTXT(context.Context, string) ([]string, error) { return a.texts, a.err }

// TestJob_IgnoresDNSFailures: other DNS responses neither verify nor fail a domain.
func TestJob_IgnoresDNSFailures(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a timeout":       &net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true},
		"a refusal":       &net.DNSError{Err: "server misbehaving"},
		"the deadline":    context.DeadlineExceeded,
		"no name server":  &net.OpError{Op: "dial", Net: "udp", Err: errors.New("connection refused")},
		"something wrong": errors.New("something"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := setupZone(t, dbtest.MigratedSQLite(t))
			own, pending := z.verified(t, z.adas, "go.example.com"), z.claim(t, z.adas, "pending.example.com")
			z.Resolver = answer{texts: []string{pending.RecordValue()}, err: err}
			wantError(t, errs.Unavailable, "without DNS")(z.Verify(t.Context(), z.adas, pending.ID))
			z.time = dbtest.Noon.Add(checkEvery)
			z.check(t)
			z.is(t, own, Verified, "afterwards")
			if got := z.kept(t, own).CheckedAt; !got.Equal(z.time) {
				t.Errorf("checked at %s, want %s: others wait", got, z.time)
			}
		})
	}
}

// TestJob_YieldsToVerify: while the job finds no record, a member verifies the domain, or another
// workspace takes it at a node whose clock is behind. The job writes nothing of it to either.
func TestJob_YieldsToVerify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ isFailing, isTaken bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
				z := setupZone(t, d)
				adas, eves := z.verified(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
				want := z.events(t, z.adas)
				z.dns.SetTXT(adas.RecordName())
				if c.isFailing {
					z.failing(t, adas)
					want = append(want, `server DOMAIN_FAILING {"host":"go.example.com"}`)
				}
				z.time = z.time.Add(grace)
				if !c.isTaken {
					z.meanwhile(func() {
						z.prove(adas)
						z.verify(t, z.adas, adas)
					})
					z.check(t)
					z.is(t, adas, Verified, "after both")
					return
				}
				z.meanwhile(func() {
					z.time = z.time.Add(-time.Minute)
					z.prove(eves)
					z.verify(t, z.eves, eves)
				})
				z.check(t)
				z.is(t, eves, Verified, "after it has taken the host")
				if got := z.kept(t, adas); got.Status() != Pending || got.FailedAt != nil {
					t.Errorf("after it was taken: %+v", got)
				}
				z.wantEvents(t, z.adas, append(want, `server DOMAIN_LOST {"host":"go.example.com"}`)...)
			})
		})
	}
}

// TestJob_ChecksEveryDueDomain: more than one batch, those of deleted workspaces too, each once.
func TestJob_ChecksEveryDueDomain(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		rows := make([]*Domain, 0, checkBatch+10)
		for i := range cap(rows) {
			host := fmt.Sprintf("%d.example.com", i)
			one := &Domain{ID: id.New(id.Domain), WorkspaceID: z.adas.ID(), Host: host, Token: "x",
				CreatedAt:  dbtest.Noon,
				VerifiedAt: new(dbtest.Noon)}
			if i%2 == 0 {
				one.CheckedAt = new(dbtest.Noon)
			}
			if i%3 == 0 {
				one.FailedAt = new(dbtest.Noon)
			}
			rows = append(rows, one)
		}
		must.Value(z.DB.NewInsert().Model(&rows).Exec(db.AsSystem(t.Context())))(t)
		must.Value(z.spaces.Delete(t.Context(), z.adas))(t)
		var mu sync.Mutex
		lookups := map[string]int{}
		z.Resolver = hookedResolver{answer{texts: []string{rows[0].RecordValue()}},
			func(_ context.Context, name string) {
				mu.Lock()
				defer mu.Unlock()
				lookups[name]++
			}}
		z.time = dbtest.Noon.Add(checkEvery)
		z.check(t)
		z.check(t)
		for _, one := range rows {
			if lookups[one.RecordName()+"."] != 1 {
				t.Fatalf("%s was looked up %d times, want once", one.Host, lookups[one.RecordName()+"."])
			}
		}
		n, err := z.DB.NewSelect().Model((*Domain)(nil)).Where("verified_at IS NOT NULL").Where("failed_at IS NULL").
			Where("checked_at = ?", z.time).
			Count(db.AsSystem(t.Context()))
		if err != nil || n != int64(len(rows)) {
			t.Errorf("%d of %d are well: %v", n, len(rows), err)
		}
	})
}

// TestJob_ResumesAfterInterruption: domains that it did not check stay unchanged and due.
func TestJob_ResumesAfterInterruption(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		z.dns.SetTXT(own.RecordName())
		z.time = dbtest.Noon.Add(checkEvery)
		answering := z.Resolver

		ctx, stop := context.WithCancel(db.AsSystem(t.Context()))
		z.meanwhile(stop)
		if err := z.CheckAll(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
		over, cancel := context.WithDeadline(db.AsSystem(t.Context()), time.Unix(0, 0))
		defer cancel()
		must.NoError(t, z.CheckAll(over)) // without time
		if got := z.kept(t, own); got.Status() != Verified || !got.CheckedAt.Equal(dbtest.Noon) {
			t.Errorf("afterwards: %+v", got)
		}
		z.Resolver = answering
		z.check(t)
		z.is(t, own, Failing, "in the next run")
	})
}

// TestJob_DoubtsClocksThatWereAhead: a domain that was last checked tomorrow is due.
func TestJob_DoubtsClocksThatWereAhead(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		must.Value(z.DB.NewUpdate().Model((*Domain)(nil)).Set("checked_at = ?", dbtest.Noon.Add(24*time.Hour)).
			Where("id = ?", own.ID).Exec(db.AsSystem(t.Context())))(t)
		z.dns.SetTXT(own.RecordName())
		z.check(t)
		var failed []string
		err := z.DB.NewSelect().Model((*Domain)(nil)).Column("id").Where("failed_at = ?", z.time).
			Scan(db.AsSystem(t.Context()), &failed)
		if err != nil || len(failed) != 1 {
			t.Errorf("failing are %v: %v", failed, err)
		}
	})
}

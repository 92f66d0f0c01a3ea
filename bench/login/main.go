// Command login measures logins with a password of accounts without a second factor, and requests
// with a token, against an earlier version. All are measured in one run, in pairs, because machines
// differ and are shared: quote the ratios.
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./login -from REVISION
//
// It exits with 1 after a wrong response.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

var (
	from   = flag.String("from", "", "git revision of the earlier version")
	rounds = flag.Int("rounds", 9, "number of bursts of each target")
	burst  = flag.Duration("burst", 5*time.Second, "duration of a burst")
)

func main() { rig.Main(run, nil) }

// version is a server of one version, with one account.
type version struct {
	*rig.Run
	rig.Target
	tenant  *rig.Tenant
	address string
}

func run(r *rig.Run) {
	before, after := start(r, "before", r.BuildEarlier(*from)), start(r, "after", r.Server)
	login := func(v *version) rig.Figures {
		return v.measure(rig.Load{Connections: 1, Expected: `"login":{"token":"`},
			`mutation ($in: LoginInput!) { login(input: $in) { token refreshToken user { id } errors { code } } }`,
			map[string]any{"in": map[string]any{"email": rig.TenantEmail, "password": rig.TenantPassword}})
	}
	request := func(v *version) rig.Figures {
		return v.measure(rig.Load{Connections: 8, Token: v.tenant.Token, Expected: `"slug":"bench"`},
			`query ($id: ID!) { me { id } workspace(by: {id: $id}) { slug viewerRole } }`,
			map[string]any{"id": v.tenant.Workspace})
	}
	var pairs []*rig.Pair
	for name, of := range map[string]func(*version) rig.Figures{"login": login, "request with a token": request} {
		pairs = append(pairs, &rig.Pair{
			Name: name, Baseline: func() rig.Figures { return of(before) },
			Target: func() rig.Figures { return of(after) },
		})
	}
	r.MeasurePairs(*rounds, pairs)
	fmt.Printf("%d rounds, %s. Medians, with the minimum and the maximum.\n", *rounds, rig.Machine())
	rig.TableOfPairs(pairs)
	r.ReportMachine()
}

// start starts a server of a version with its own database.
func start(r *rig.Run, name, binary string) *version {
	v := &version{Run: r}
	v.Name = name
	r.OpenServices()
	p := r.Serve(name, binary,
		append(r.ServicesEnv(), "LINKFORGE_REQUEST_RATE="+rig.Unlimited, "LINKFORGE_COST_RATE="+rig.Unlimited)...)
	v.address, v.Own, v.Beside = p.Address, []int{p.PID}, slices.Clone(r.ServicePIDs)
	v.tenant = r.NewTenant(v.address, "bench", &http.Transport{})
	return v
}

// measure measures a burst of one operation.
func (v *version) measure(of rig.Load, query string, variables map[string]any) rig.Figures {
	body := string(rig.Must(json.Marshal(map[string]any{"query": query, "variables": variables})))
	of.Address, of.N, of.Burst, of.Status = v.address, 1, *burst/5, http.StatusOK
	of.Requests = func(int) string { return body }
	v.Drive(v.Name, of)
	of.Burst = *burst
	began := rig.Used(v.Target)
	o := v.Drive(v.Name, of)
	used := rig.Used(v.Target).Since(began)
	if o.Wrong > 0 {
		v.Wrongf("%s", o.Sample)
	}
	return rig.FiguresOf(o, used)
}

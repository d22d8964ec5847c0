package plans

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/test/seeds"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// TestPlans runs programs that rent from faulty clouds and are killed at random moments. A seed determines each plan.
// Once the cloud works again and Reap has run, nothing of them remains, and the pool of a living program in the same
// account is untouched. Time is virtual.
//
// GPUTRAIN_PLANS sets the seeds: their number, or the first and the last. GPUTRAIN_PLANS=17-17 runs plan 17 alone, and
// logs the calls to the cloud.
func TestPlans(t *testing.T) {
	plans := 300
	if testing.Short() {
		plans = 30
	}
	var sum seeds.Tally
	seeds.Plans(t, "GPUTRAIN_PLANS", "internal/test/e2e/plans", plans, &sum, func(t *testing.T, seed uint64, dir string, alone bool) {
		newPlan(t, seed, dir, alone).run(&sum)
	})
}

// Ways in which a plan's program ends.
const (
	closes     = iota // it closes its pool
	diesAtCall        // in the middle of a call to the cloud
	diesLater         // at a random time
	diesClosing
	endings
)

// A plan is a cloud with faults, a program, and the program's end.
type plan struct {
	*testing.T
	rng    *rand.Rand
	cloud  *sim.Cloud
	base   string
	lease  time.Duration
	ending int
	nodes  int
	spec   gputrain.Spec

	group    bool // the program rents in two accounts
	reapDies bool // the first Reap is killed too
	abroad   bool // Reap runs on another computer
	loud     bool

	devices *rand.Rand // draws how many devices tasks have, if nodes have any
}

func newPlan(t *testing.T, seed uint64, dir string, loud bool) *plan {
	p := &plan{T: t, rng: rand.New(rand.NewPCG(seed, 1)), base: dir, loud: loud}
	p.ending = p.rng.IntN(endings)
	p.abroad = p.ending != closes && p.chance(0.25)
	p.reapDies = p.chance(0.3)
	p.lease = pick(p.rng, time.Minute, 5*time.Minute, 15*time.Minute)
	p.nodes = 1 + p.rng.IntN(4)
	o := sim.Options{
		Seed: seed, Name: "plans", Exec: planned,
		BootTime: pick(p.rng, 0, 20*time.Second, 2*time.Minute), BootJitter: pick(p.rng, 0, 30*time.Second),
		Latency: pick(p.rng, 0, 50*time.Millisecond, time.Second), ListLag: pick(p.rng, 0, 5*time.Second, 40*time.Second),
		NoTokens: p.chance(0.5), Quota: pick(p.rng, 0, 0, p.nodes+3), ProvisionTimeout: 4 * time.Minute,
		PreemptionNotice: pick(p.rng, 0, 30*time.Second),
	}
	for i := range 2 + p.rng.IntN(4) {
		o.Offers = append(o.Offers, gputrain.Offer{
			ID: fmt.Sprint("offer-", i), InstanceType: fmt.Sprint("type-", i), Region: fmt.Sprint("region-", i%2), VCPUs: 4, MemoryGiB: 16, DiskGiB: 100,
			HourlyUSD: driver.USD(0.1 + p.rng.Float64()), Spot: p.chance(0.4), Available: pick(p.rng, 0, 1, 3, 6),
			BillingUnit: pick(p.rng, 0, time.Minute, time.Hour),
		})
	}
	o.Offers[0].Spot, o.Offers[0].Available = false, 0
	p.spec = gputrain.Spec{
		Nodes: p.nodes, Lease: p.lease, Concurrency: 1 + p.rng.IntN(2), MinReady: pick(p.rng, 0, 1),
		Allocation: pick(p.rng, gputrain.OnDemand, gputrain.SpotIfAvailable, gputrain.CheapestAllocation),
	}
	if p.chance(0.2) {
		p.spec.TTL = pick(p.rng, 10*time.Minute, time.Hour)
	}
	if p.chance(0.2) {
		p.spec.MaxNodes, p.spec.IdleTimeout = p.nodes+2, time.Minute
	}
	if p.chance(0.1) {
		p.spec.BudgetUSD = 0.5
	}
	if p.chance(0.2) {
		p.spec.MaxHourlyUSD = 1
	}
	p.group = rand.New(rand.NewPCG(seed, 2)).IntN(4) == 0
	if p.devices = rand.New(rand.NewPCG(seed, 4)); p.devices.IntN(3) == 0 {
		p.spec.Accelerator = accelerators.H100(accelerators.Count(4))
		for i := range o.Offers {
			o.Offers[i].Accelerator = accelerators.H100(accelerators.Count(4), accelerators.Memory(80))
		}
	}
	p.cloud = sim.New(o)
	return p
}

// provider returns the provider of the plan's program: one account with all offers, or two accounts that share the
// offers. A program with a mortal m dies at some point.
func (p *plan) provider(m *mortal) gputrain.Provider {
	member := func(account string, odd bool) gputrain.Provider {
		return mortalMember{m, sim.Config{Cloud: p.cloud, Account: account}, func(o gputrain.Offer) bool {
			return !p.group || strings.HasSuffix(o.InstanceType, "1") == odd || strings.HasSuffix(o.InstanceType, "3") == odd
		}}
	}
	if !p.group {
		return member("", false)
	}
	return gputrain.Cheapest(member("", false), member("second", true))
}

func (p *plan) chance(c float64) bool { return p.rng.Float64() < c }

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// planned executes tasks: each takes the time in its last argument.
func planned(ctx context.Context, cmd sim.Command) int {
	d, err := time.ParseDuration(cmd.Args[len(cmd.Args)-1])
	if err != nil {
		return 2
	}
	select {
	case <-time.After(d):
		fmt.Fprintln(cmd.Stdout, d)
		return 0
	case <-ctx.Done():
		return -15
	}
}

func (p *plan) run(sum *seeds.Tally) {
	defer func() {
		if err := p.cloud.Close(); err != nil {
			p.Error(err)
		}
		if p.Failed() || p.loud {
			p.Logf("ending %d, group %v, abroad %v, reap dies %v, %+v", p.ending, p.group, p.abroad, p.reapDies, p.spec)
			for _, c := range p.cloud.Log() {
				p.Log(c)
			}
		}
	}()
	alive := p.living()
	if p.Failed() {
		return
	}
	stop := p.trouble()
	state, grave := filepath.Join(p.base, "state"), filepath.Join(p.base, "grave")
	victim := newMortal(state, grave)
	if p.abroad {
		victim.owner = "elsewhere.01234567/77/88"
	}
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	over := make(chan error, 1)
	began := time.Now()
	work := p.work()
	switch p.ending {
	case diesAtCall:
		n := 1 + p.rng.IntN(1<<p.rng.IntN(8))
		if victim.making = p.chance(0.5); victim.making {
			n = 1 + p.rng.IntN(4)
		}
		victim.dieWithin(n, p.chance(0.5))
		victim.tear = pick(p.rng, 0, 1, 20, 200)
	case diesLater:
		d := time.Duration(p.rng.Int64N(int64(pick(p.rng, time.Second, 30*time.Second, 5*time.Minute, 20*time.Minute))))
		death := time.AfterFunc(d, func() { victim.die("") })
		defer death.Stop()
	}
	dieIn, dieAfter := 1+p.rng.IntN(12), p.chance(0.5)
	go func() {
		over <- work(ctx, victim, state, func() {
			if p.ending == diesClosing {
				victim.dieWithin(dieIn, dieAfter)
			}
		})
	}()
	left := state
	var closeErr error
	select {
	case <-victim.gone:
		<-victim.buried
		if victim.copyErr != nil {
			p.Error(victim.copyErr)
		}
		left = grave
		cancel()
		sum.Add(1, "killed")
		defer func() { <-over }()
	case closeErr = <-over:
		cancel()
		victim.die("") // the program has ended by itself
		sum.Add(1, "ended")
		if closeErr != nil {
			sum.Add(1, "with an error")
		}
	}
	leaked := p.machinesBut(alive)
	sum.Add(leaked, "machines left")
	if leaked > 0 && left == state {
		var leak *gputrain.LeakError
		if !errors.As(closeErr, &leak) {
			p.Errorf("left, but not reported as left: %v; the error is %v", p.cloud.Live(), closeErr)
		}
		sum.Add(1, "with a leak that is reported")
	}
	if p.chance(0.5) {
		stop()
	}
	died := time.Now()
	time.Sleep(pick(p.rng, 0, time.Second, 20*time.Second, 5*time.Minute, 40*time.Minute))
	p.lapsed(left, died)
	p.reap(left, stop, sum)
	reaped := time.Now()

	time.Sleep(10 * time.Minute) // requests that were in flight have arrived by then
	for _, r := range p.cloud.Live() {
		if r.Pool != alive.ID() {
			p.Errorf("this resource is left: %+v", r)
		}
	}
	p.bounded(alive, began, reaped)
	p.untouched(alive)
	if doubles := p.cloud.Doubles(); len(doubles) > 0 {
		p.Errorf("two machines of one name: %v", doubles)
	}
	if err := alive.Close(); err != nil {
		p.Errorf("closing the living pool: %v", err)
	}
	time.Sleep(10 * time.Minute)
	if live := p.cloud.Live(); len(live) > 0 {
		p.Errorf("these resources of the living pool are left: %v", live)
	}
}

// living opens the pool of a program that stays alive.
func (p *plan) living() *gputrain.Compute {
	m := newMortal(filepath.Join(p.base, "alive"), "")
	if p.chance(0.5) {
		m.owner = "far.76543210/5/6"
	}
	alive, err := gputrain.Open(p.Context(), mortalMember{m, sim.Config{Cloud: p.cloud}, func(gputrain.Offer) bool { return true }}, gputrain.Spec{Nodes: 1 + p.rng.IntN(2), Lease: p.lease, MaxReplacements: -1},
		gputrain.WithStateDir(m.state), gputrain.WithResultsDir(m.state))
	if err != nil {
		p.Errorf("the living pool: %v", err)
		p.cloud.Close()
	}
	return alive
}

// trouble starts the plan's faults, and returns a func that ends them.
func (p *plan) trouble() (stop func()) {
	seed, rate := p.rng.Uint64(), p.rng.Float64()*pick(p.rng, 0, 0.1, 0.4, 0.8)
	p.cloud.Inject(
		sim.Random(seed, rate*p.rng.Float64(), sim.NeverUp, sim.FailedBoot, sim.DeadSSH, sim.Overcharged, sim.Duplicate, sim.Partial),
		sim.Random(seed+1, rate),
	)
	if p.chance(0.2) {
		p.cloud.Outage(time.Now().Add(time.Duration(p.rng.Int64N(int64(5*time.Minute)))), time.Duration(p.rng.Int64N(int64(5*time.Minute))))
	}
	others := map[string]bool{}
	for _, m := range p.cloud.Machines("") {
		others[m.ID] = true
	}
	ctx, cancel := context.WithCancel(p.Context())
	var wg sync.WaitGroup
	if p.chance(0.4) {
		rng := rand.New(rand.NewPCG(seed, 2))
		wg.Go(func() {
			for range 5 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(rng.Int64N(int64(4 * time.Minute)))):
				}
				p.strike(rng, others)
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		p.cloud.Calm()
	})
}

// strike preempts, stops or breaks a random running machine of the plan's program.
func (p *plan) strike(rng *rand.Rand, others map[string]bool) {
	var run []string
	for _, m := range p.cloud.Machines("") {
		if m.State == driver.InstanceRunning && !others[m.ID] {
			run = append(run, m.ID)
		}
	}
	if len(run) == 0 {
		return
	}
	id := run[rng.IntN(len(run))]
	switch rng.IntN(6) {
	case 0:
		p.cloud.Preempt(id, 0)
	case 1:
		p.cloud.Preempt(id, time.Minute)
	case 2:
		p.cloud.Vanish(id)
	case 3:
		p.cloud.Stop(id)
	case 4:
		p.cloud.Fail(id)
	case 5:
		p.cloud.Break(id)
	}
}

// work returns what the program does: it runs some tasks and closes its pool.
func (p *plan) work() func(ctx context.Context, m *mortal, state string, closing func()) error {
	var tasks []gputrain.Task
	for range p.rng.IntN(6) {
		task := gputrain.Cmd("sleep", time.Duration(p.rng.Int64N(int64(3*time.Minute))).String())
		if !p.spec.Accelerator.IsZero() {
			task.Accelerators = p.devices.IntN(5)
		}
		tasks = append(tasks, task)
	}
	if len(tasks) > 0 && p.chance(0.3) {
		critical := &tasks[p.rng.IntN(len(tasks))]
		if p.chance(0.5) {
			critical.Args = []string{"fail"}
		}
		critical.Critical = true
	}
	size := 0
	if p.chance(0.2) {
		size = 1 + p.rng.IntN(4)
	}
	rest := pick(p.rng, 0, 0, 5*time.Minute)
	return func(ctx context.Context, m *mortal, state string, closing func()) error {
		pool, err := gputrain.Open(ctx, p.provider(m), p.spec, gputrain.WithStateDir(state), gputrain.WithResultsDir(filepath.Join(p.base, "results")))
		if err != nil {
			return err
		}
		if results, err := pool.Gather(tasks...); len(results) > 0 {
			p.wantOneCause(results, err)
		}
		if size > 0 {
			pool.Resize(size)
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
		closing()
		return pool.Close()
	}
}

// wantOneCause checks the error of a call whose critical task has failed: it is that failure, and no task that was only
// cancelled because of it.
func (p *plan) wantOneCause(results []gputrain.Result, err error) {
	for _, r := range results {
		failed, _ := errors.AsType[*gputrain.TaskError](r.Err)
		if failed == nil || failed.Cause != gputrain.CauseCancelled {
			continue
		}
		why, echo := errors.AsType[*gputrain.TaskError](failed.Err)
		if first, ok := errors.AsType[*gputrain.TaskError](err); echo && (!ok || first.Index != why.Index || first.Cause != why.Cause || errors.Is(err, r.Err)) {
			p.Errorf("task %d was cancelled because of %v, and the call's error is %v", r.Index, why, err)
		}
	}
}

// reap calls Reap once the cloud works again.
func (p *plan) reap(left string, calm func(), sum *seeds.Tally) {
	if p.abroad {
		// That computer knows only the cloud, and only time can prove that the program is dead.
		left = filepath.Join(p.base, "abroad")
		time.Sleep(2 * time.Hour)
	}
	if p.reapDies {
		next := left + "-again"
		m := newMortal(left, next)
		m.dieWithin(1+p.rng.IntN(8), p.chance(0.5))
		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		over := make(chan struct{})
		go func() {
			defer close(over)
			gputrain.StateDir(left).Reap(ctx, p.provider(m))
		}()
		select {
		case <-m.gone:
			<-m.buried
			if m.copyErr != nil {
				p.Error(m.copyErr)
			}
			cancel()
			defer func() { <-over }()
			left = next
			sum.Add(1, "killed reaps")
		case <-over:
			m.die("")
		}
	}
	calm()
	ended, err := gputrain.StateDir(left).Reap(p.Context(), p.provider(nil))
	if err != nil {
		p.Errorf("reap: %v", err)
	}
	sum.Add(len(ended), "resources reaped")
	if known, err := gputrain.StateDir(left).Pools(); err != nil || len(known) > 0 {
		p.Errorf("the ledgers: %+v, %v", known, err)
	}
}

func (p *plan) machinesBut(alive *gputrain.Compute) (n int) {
	for _, r := range p.cloud.Live() {
		if r.Pool != alive.ID() && r.Kind == "machine" {
			n++
		}
	}
	return n
}

// untouched checks that Reap changed nothing in the living program's pool.
func (p *plan) untouched(alive *gputrain.Compute) {
	if events := p.cloud.Touched(alive.ID()); len(events) > 0 {
		p.Errorf("a living pool was changed: %v", events)
	}
	for _, m := range p.cloud.Machines(alive.ID()) {
		if m.State != driver.InstanceRunning {
			p.Errorf("a living pool's machine is %v: %s", m.State, m.StateReason)
		}
	}
}

// lapsed checks that the machines of a killed program ended themselves when their leases ran out, if that is due by
// now.
func (p *plan) lapsed(state string, died time.Time) {
	if time.Since(died) < p.lease+p.lease/5+time.Minute {
		return
	}
	dir, err := ledger.OpenDir(state)
	if err != nil {
		p.Error(err)
		return
	}
	pools, err := dir.Pools()
	if err != nil {
		p.Error(err)
	}
	for _, id := range pools {
		snap, err := dir.Read(id)
		if err != nil {
			p.Error(err)
			continue
		}
		for _, m := range p.cloud.Machines(id) {
			leased := slices.ContainsFunc(snap.Rows, func(r ledger.Row) bool { return r.ID == m.ID && !r.Leased.IsZero() })
			if leased && m.State == driver.InstanceRunning {
				p.Errorf("%s runs %v after its program's end, with a lease of %v", m.ID, time.Since(died), p.lease)
			}
		}
	}
}

// bounded checks that the dead program's pools cost at most what their machines can cost from the program's start to
// the end of Reap.
func (p *plan) bounded(alive *gputrain.Compute, began, reaped time.Time) {
	for _, id := range p.pools() {
		if id == alive.ID() {
			continue
		}
		most := 0.0
		for _, m := range p.cloud.Machines(id) {
			usd, _ := m.Offer.HourlyUSD.USD()
			most += usd * (reaped.Sub(began) + max(m.Offer.BillingUnit, time.Second)).Hours()
		}
		if is := p.cloud.BilledUSD(id); is > most {
			p.Errorf("it has cost $%.2f; the most from its begin until Reap is $%.2f", is, most)
		}
	}
}

// pools returns the IDs of all pools in the cloud's audit log.
func (p *plan) pools() (ids []string) {
	for _, e := range p.cloud.Audit("") {
		if !slices.Contains(ids, e.Pool) {
			ids = append(ids, e.Pool)
		}
	}
	return ids
}

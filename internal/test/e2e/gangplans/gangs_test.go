package gangplans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/test/seeds"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// TestGangs trains on clouds whose machines fail, programs that exit, hang and ignore their end. A seed determines each plan: the
// pool, one or two trainings, the tasks beside them, and what happens when. Whatever that is, no two attempts of a training live
// at the same time, all processes of an attempt have started before one of them is released, and the result tells what happened.
// Then nothing of a training is left, its nodes take tasks again, and the pool leaves no machine. Time is virtual.
//
// GPUTRAIN_GANGS sets the seeds: their number, or the first and the last. GPUTRAIN_GANGS=17-17 runs plan 17 alone, and logs its
// events.
func TestGangs(t *testing.T) {
	plans := 300
	if testing.Short() {
		plans = 20
	}
	var sum seeds.Tally
	plans = seeds.Plans(t, "GPUTRAIN_GANGS", "internal/test/e2e/gangplans", plans, &sum, func(t *testing.T, seed uint64, dir string, alone bool) {
		newPlan(t, seed, dir, alone).run(&sum)
	})
	if plans >= 1000 {
		wantEach(t, &sum, "trained", "failed", "made no progress", "cancelled", "restarted", "lost a node", "lost an accelerator", "stalled", "had no room")
	}
}

// A plan is a cloud, a pool on it, and what runs there while machines fail.
type plan struct {
	*testing.T
	rng   *rand.Rand
	seed  uint64
	cloud *sim.Cloud
	base  string
	loud  bool

	spec   gputrain.Spec
	offers []gputrain.Offer
	gangs  []*gang
	sides  []gputrain.Task // beside them
	closes time.Duration   // when the pool is closed, if not at the end

	pool *gputrain.Compute

	mu      sync.Mutex
	events  []gputrain.Event
	usd     float64 // what the trainings have cost
	strikes []time.Time
	broken  map[string]bool // machines that were cut off at some time
}

// A gang is one training of a plan.
type gang struct {
	name     string
	training gputrain.Training
	shares   int
	cancel   time.Duration // when it is cancelled, or 0
	delay    time.Duration // before it begins
	resumes  bool          // its attempts begin where the one before was
	calm     int           // from this attempt on nothing fails in the program itself

	mu       sync.Mutex
	id       string // in the pool: "g1"
	attempts map[int]*attempt
}

func newPlan(t *testing.T, seed uint64, dir string, loud bool) *plan {
	p := &plan{T: t, rng: rand.New(rand.NewPCG(seed, 1)), seed: seed, base: dir, loud: loud, broken: map[string]bool{}}
	nodes := 2 + p.rng.IntN(5)
	o := sim.Options{
		Seed: seed, Name: "gangs", Exec: p.exec, BootTime: pick(p.rng, 0, 20*time.Second, 2*time.Minute), BootJitter: pick(p.rng, 0, 30*time.Second),
		Latency: pick(p.rng, 0, 50*time.Millisecond), PreemptionNotice: pick(p.rng, 0, 30*time.Second), ProvisionTimeout: 4 * time.Minute,
	}
	gpus := p.chance(0.4)
	for i := range 2 {
		offer := gputrain.Offer{
			ID: fmt.Sprint("offer-", i), InstanceType: "type", Region: fmt.Sprint("region-", i), VCPUs: 4, MemoryGiB: 16, DiskGiB: 100,
			HourlyUSD: driver.USD(1 + p.rng.Float64()), Spot: i == 1 && p.chance(0.5), Available: pick(p.rng, 0, nodes+1),
			BillingUnit: pick(p.rng, 0, time.Minute),
		}
		if gpus {
			offer.Accelerator = accelerators.H100(accelerators.Count(2), accelerators.Memory(80))
		}
		p.offers = append(p.offers, offer)
	}
	p.offers[0].Available = pick(p.rng, 0, 0, nodes)
	o.Offers = p.offers
	p.spec = gputrain.Spec{
		Nodes: nodes, Lease: pick(p.rng, time.Minute, 15*time.Minute), Concurrency: 1 + p.rng.IntN(2),
		Allocation: pick(p.rng, gputrain.OnDemand, gputrain.SpotIfAvailable, gputrain.CheapestAllocation), MaxReplacements: pick(p.rng, 0, 0, 10, -1),
	}
	if gpus {
		p.spec.Accelerator = accelerators.H100(accelerators.Count(2))
	}
	switch p.rng.IntN(4) {
	case 0:
		p.spec.Nodes, p.spec.MaxNodes, p.spec.IdleTimeout = 0, nodes, time.Minute
	case 1:
		p.spec.MinReady = 1
	}
	for i := range 1 + p.rng.IntN(2) {
		p.gangs = append(p.gangs, p.newGang(fmt.Sprint("gang", i), nodes))
	}
	for range p.rng.IntN(4) * p.rng.IntN(2) {
		p.sides = append(p.sides, gputrain.Cmd("side", time.Duration(p.rng.Int64N(int64(10*time.Minute))).String()))
	}
	if p.chance(0.1) {
		p.closes = time.Duration(p.rng.Int64N(int64(20 * time.Minute)))
	}
	p.cloud = sim.New(o)
	return p
}

func (p *plan) newGang(name string, nodes int) *gang {
	g := &gang{name: name, attempts: map[int]*attempt{}, resumes: p.chance(0.6), calm: 1 + p.rng.IntN(8)}
	g.training = gputrain.Training{
		Task: gputrain.Cmd("train"), Nodes: 1 + p.rng.IntN(nodes), ProcessesPerNode: 1 + p.rng.IntN(2), Restarts: p.rng.IntN(5),
		StallTimeout: pick(p.rng, 0, time.Minute, 5*time.Minute), StartTimeout: pick(p.rng, 0, time.Minute, 3*time.Minute),
	}
	g.training.Task.Name = name
	g.training.Task.HoldsLease = p.chance(0.1)
	if p.chance(0.1) {
		g.training.Task.Timeout = 5 * time.Minute
	}
	if p.chance(0.2) {
		g.training.Check = gputrain.Cmd("check")
	}
	if g.shares = g.training.Nodes * g.training.ProcessesPerNode; p.chance(0.3) {
		g.training.Launcher, g.shares = gputrain.Torchrun, g.training.Nodes
	}
	if p.chance(0.15) {
		g.cancel = time.Duration(p.rng.Int64N(int64(pick(p.rng, time.Minute, 10*time.Minute))))
	}
	g.delay = time.Duration(p.rng.Int64N(2) * p.rng.Int64N(int64(2*time.Minute)))
	return g
}

func (p *plan) chance(c float64) bool { return p.rng.Float64() < c }

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// tooLong is longer than any plan takes, in virtual time.
const tooLong = 24 * time.Hour

func (p *plan) run(sum *seeds.Tally) {
	defer func() {
		if err := p.cloud.Close(); err != nil {
			p.Error(err)
		}
		if p.Failed() || p.loud {
			p.log()
		}
	}()
	state := filepath.Join(p.base, "state")
	pool, err := gputrain.Open(p.Context(), sim.Config{Cloud: p.cloud}, p.spec, gputrain.WithStateDir(state), gputrain.WithResultsDir(state), gputrain.WithEvents(p.tell))
	if err != nil {
		p.Errorf("open: %v", err)
		return
	}
	p.pool = pool
	defer pool.Close()
	late := time.AfterFunc(3*tooLong, func() { panic(fmt.Sprintf("plan %d does not end", p.seed)) })
	defer late.Stop()
	stop := p.trouble()
	var all sync.WaitGroup
	for _, g := range p.gangs {
		all.Go(func() { p.train(g, sum) })
	}
	if len(p.sides) > 0 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(p.Context(), tooLong)
			defer cancel()
			if _, err := pool.WithContext(ctx).Gather(p.sides...); ctx.Err() != nil {
				p.Errorf("the tasks beside the trainings have not ended: %v", err)
			}
		})
	}
	if p.closes > 0 {
		closing := time.AfterFunc(p.closes, func() { pool.Close() })
		defer closing.Stop()
	}
	all.Wait()
	stop()
	if p.closes == 0 {
		p.usable()
	}
	if err := pool.Close(); err != nil {
		p.Errorf("close: %v", err)
	}
	time.Sleep(10 * time.Minute) // requests that were in flight have arrived by then
	if live := p.cloud.Live(); len(live) > 0 {
		p.Errorf("these resources are left: %v", live)
	}
	if doubles := p.cloud.Doubles(); len(doubles) > 0 {
		p.Errorf("two machines of one name: %v", doubles)
	}
	// A machine that is lost costs the training until that is noticed, and its owner until it was lost.
	if billed := p.cloud.BilledUSD(pool.ID()); !p.struck(time.Time{}) && p.usd > billed+0.01 {
		p.Errorf("the trainings have cost $%.2f, and the machines $%.2f", p.usd, billed)
	}
	p.states()
}

func (p *plan) cost(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usd += usd
}

// train runs one training, and checks its result.
func (p *plan) train(g *gang, sum *seeds.Tally) {
	time.Sleep(g.delay)
	ctx, cancel := context.WithTimeoutCause(p.Context(), tooLong, errors.New("it has not ended"))
	defer cancel()
	if g.cancel > 0 {
		defer time.AfterFunc(g.cancel, cancel).Stop()
	}
	began := time.Now()
	result, err := p.pool.WithContext(ctx).Train(g.training)
	took := time.Since(began)
	if took > tooLong {
		p.Errorf("%s has not ended: %v", g.name, err)
	}
	if ctx.Err() != nil {
		if late := took - cmp.Or(g.cancel, tooLong); late > letgo.Longest+letgo.Patience {
			p.Errorf("Train of %s returned %v after its caller had given up", g.name, late)
		}
		p.afterwards(g)
	}
	if left := p.left(g); len(left) > 0 && !errors.Is(err, gputrain.ErrClosed) { // the pool ends what runs on its machines
		p.Errorf("after %s, which ended with %v, these of its processes run: %q", g.name, err, left)
	}
	p.judge(g, result, err, ctx.Err() != nil && took < tooLong, sum)
}

// afterwards is after a training whose caller has given up. Other tasks begin on its nodes once nothing of it runs there, which exec
// checks, and that is soon.
func (p *plan) afterwards(g *gang) {
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	_, _ = p.pool.WithContext(ctx).Broadcast(gputrain.Cmd("side", "1s")) // other trainings may have all nodes
	for range 20 {
		if len(p.left(g)) == 0 {
			return
		}
		time.Sleep(time.Minute) // a machine is cut off, or given up
	}
}

// usable checks that the nodes of a pool without trainings take tasks.
func (p *plan) usable() {
	time.Sleep(20 * time.Minute) // nodes that were cut off are back, or given up, and others have taken their places
	for _, m := range p.cloud.Machines("") {
		if left := p.others(sim.Command{ID: m.ID}, "g"); len(left) > 0 {
			p.Errorf("long after the trainings these processes run on %s: %q", m.ID, left)
		}
	}
	ready := 0
	for _, n := range p.pool.Nodes() {
		if n.State == gputrain.NodeReady {
			ready++
		}
	}
	if ready == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.Context(), time.Hour)
	defer cancel()
	if results, err := p.pool.WithContext(ctx).Broadcast(gputrain.Cmd("side", "1s")); err != nil {
		p.Errorf("a broadcast after the trainings: %d results, %v", len(results), err)
	}
}

func (p *plan) tell(e gputrain.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

func (p *plan) log() {
	p.Logf("| %+v; closes %v; %d tasks", p.spec, p.closes, len(p.sides))
	for _, g := range p.gangs {
		p.Logf("| %s: %+v; cancel %v, delay %v, resumes %t, calm from %d", g.name, g.training, g.cancel, g.delay, g.resumes, g.calm)
		for n, e := range g.attempts {
			p.Logf("| %s attempt %d: %v", g.name, n, e)
		}
	}
	for _, e := range p.events {
		if e.Kind != gputrain.EventUsage && e.Kind != gputrain.EventCost {
			p.Logf("| %s %v node %d %s %s %s %s attempt %d step %d %v", e.Time.Format("15:04:05.000"), e.Kind, e.Node, e.Phase, e.State, e.Name, e.Task, e.Attempt, e.Step.N, e.Err)
		}
	}
	for _, e := range p.cloud.Audit("") {
		p.Log("|", e)
	}
}

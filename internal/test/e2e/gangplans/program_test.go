package gangplans

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/sim"
)

// A fate is how an attempt goes, as far as its program decides that.
type fate int

const (
	trains   fate = iota // all do all steps
	exits                // one fails with an exit code
	dies                 // one dies of a signal
	hangs                // all stop to report
	mute                 // none says anything
	prints               // all do their work, and print no steps
	early                // one ends with success, and the others never do
	fruitful             // one fails, after a new step
	fates
)

// An attempt is the plan of a gang's program for one attempt.
type attempt struct {
	fate   fate
	guilty int // the share that fails
	code   int
	from   int64 // the step before the first
	steps  int64
	after  int64 // so many steps the guilty fails
	every  time.Duration
	peers  bool // the others notice it, and fail too

	failed chan struct{} // closed when the guilty has failed

	began   map[int]bool // shares that were released
	printed int64        // the greatest step
	first   time.Time    // when the first was released
}

func (e *attempt) String() string {
	return fmt.Sprintf("fate %d, guilty %d, code %d, %d steps from %d, fails after %d, every %v, peers %t; began %v, printed %d", e.fate, e.guilty, e.code, e.steps, e.from, e.after, e.every, e.peers, e.began, e.printed)
}

// attempt returns a gang's attempt, which the seed determines, but for where it begins.
func (p *plan) attempt(g *gang, number int) *attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.attempts[number]; e != nil {
		return e
	}
	h := fnv.New64a()
	fmt.Fprint(h, g.name, number)
	rng := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	e := &attempt{
		fate: fate(rng.IntN(int(fates))), guilty: rng.IntN(g.shares), code: 1 + rng.IntN(100), steps: 1 + rng.Int64N(60), every: pick(rng, time.Second, 5*time.Second),
		peers: rng.IntN(2) == 0, failed: make(chan struct{}), began: map[int]bool{}, first: time.Now(),
	}
	e.after = rng.Int64N(e.steps)
	if number >= g.calm {
		e.fate = trains
	}
	for _, before := range g.attempts {
		if g.resumes || e.fate == fruitful {
			e.from = max(e.from, before.printed)
		}
	}
	if e.fate == fruitful {
		e.fate, e.after = exits, max(e.after, 1)
	}
	g.attempts[number] = e
	return e
}

// exec runs the tasks of all machines.
func (p *plan) exec(ctx context.Context, cmd sim.Command) int {
	switch cmd.Args[0] {
	case "side":
		if others := p.others(cmd, "g"); len(others) > 0 {
			p.Errorf("the task %s runs on %s beside %q", cmd.Task, cmd.ID, others)
		}
		d, _ := time.ParseDuration(cmd.Args[1])
		select {
		case <-time.After(d):
			return 0
		case <-ctx.Done():
			return -15
		}
	case "check":
		h := fnv.New64a()
		fmt.Fprint(h, p.seed, cmd.ID)
		if h.Sum64()%16 == 0 { // a machine that is not fit
			return 1
		}
		return 0
	}
	return p.share(ctx, cmd)
}

// others returns the attempts on a command's machine that begin with a text.
func (p *plan) others(cmd sim.Command, prefix string) []string {
	return slices.DeleteFunc(sim.Running(p.cloud, cmd.ID), func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

// A share is one process of a gang.
type share struct {
	ctx      context.Context
	cmd      sim.Command
	stubborn bool          // it ignores SIGTERM
	grace    time.Duration // or takes so long to end
	slow     bool          // its machine is
	g        *gang
	e        *attempt
	index    int
}

// share runs one process of a gang, which was released.
func (p *plan) share(ctx context.Context, cmd sim.Command) int {
	var g *gang
	for _, one := range p.gangs {
		if one.name == cmd.Getenv("GPUTRAIN_TRAINING") {
			g = one
		}
	}
	number, _ := strconv.Atoi(cmd.Getenv("GPUTRAIN_ATTEMPT"))
	rank := cmd.Getenv("RANK")
	if rank == "" {
		rank = cmd.Getenv("PET_NODE_RANK")
	}
	index, err := strconv.Atoi(rank)
	if g == nil || number == 0 || err != nil {
		p.Errorf("a process has the environment %q", cmd.Env)
		return 1
	}
	e := p.attempt(g, number)
	p.released(g, number, e, index, cmd)
	h := fnv.New64a()
	fmt.Fprint(h, p.seed, cmd.Task)
	rng := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	s := &share{ctx: ctx, cmd: cmd, stubborn: rng.IntN(10) == 0, grace: pick(rng, 0, 0, time.Second, 20*time.Second), g: g, e: e, index: index}
	fmt.Fprint(h, cmd.ID)
	s.slow = h.Sum64()%10 == 0
	return s.run()
}

// released checks that a process is released only once all of its attempt have started, and nothing else is on its machine.
func (p *plan) released(g *gang, number int, e *attempt, index int, cmd sim.Command) {
	id, _, _ := strings.Cut(cmd.Task, "-")
	mine := fmt.Sprintf("%s-e%d-r", id, number)
	for _, other := range sim.Running(p.cloud, cmd.ID) {
		if !strings.HasPrefix(other, mine) {
			p.Errorf("%s is released on %s beside %s", cmd.Task, cmd.ID, other)
		}
	}
	live := 0
	for _, m := range p.cloud.Machines("") {
		for _, other := range sim.Running(p.cloud, m.ID) {
			if strings.HasPrefix(other, mine) {
				live++
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.id = id
	if e.began[index] {
		p.Errorf("%s is released twice", cmd.Task)
	}
	first := len(e.began) == 0
	e.began[index] = true
	if first && live < g.shares && !p.struck(time.Now().Add(-time.Hour)) {
		p.Errorf("%s is released while %d of %d processes exist", cmd.Task, live, g.shares)
	}
}

// run returns the exit status.
func (s *share) run() int {
	guilty := s.index == s.e.guilty
	if s.e.fate == mute {
		return s.forever()
	}
	fmt.Fprintln(s.cmd.Stdout, "begins")
	for n := int64(1); n <= s.e.steps; n++ {
		every := s.e.every
		if s.slow {
			every *= 4
		}
		if !s.sleep(every) {
			return s.ended()
		}
		switch {
		case n <= s.e.after || s.e.fate == trains || s.e.fate == prints:
		case guilty:
			switch s.e.fate {
			case exits:
				close(s.e.failed)
				fmt.Fprintln(s.cmd.Stderr, "RuntimeError: it was to fail")
				return s.e.code
			case dies:
				close(s.e.failed)
				return -11
			case early:
				return 0
			case hangs:
				return s.forever()
			}
		case s.e.fate == hangs || s.e.fate == early:
			return s.forever()
		default:
			return s.orphaned()
		}
		if s.e.fate != prints {
			s.step(s.e.from + n)
		} else {
			fmt.Fprintln(s.cmd.Stdout, "works")
		}
	}
	return 0
}

// step reports a step.
func (s *share) step(n int64) {
	s.g.mu.Lock()
	s.e.printed = max(s.e.printed, n)
	s.g.mu.Unlock()
	fmt.Fprintf(s.cmd.Stdout, "gputrain: step=%d\n", n)
}

// orphaned is the end of a process whose peer fails.
func (s *share) orphaned() int {
	if !s.e.peers {
		return s.forever()
	}
	select {
	case <-s.e.failed:
	case <-s.ctx.Done():
		return s.ended()
	}
	if !s.sleep(200 * time.Millisecond) {
		return s.ended()
	}
	fmt.Fprintln(s.cmd.Stderr, "RuntimeError: Connection reset by peer")
	return 1
}

// forever waits for the end.
func (s *share) forever() int {
	for s.sleep(time.Minute) {
	}
	return s.ended()
}

// ended is the end of a process that was told to end.
func (s *share) ended() int {
	if s.grace > 0 {
		time.Sleep(s.grace)
	}
	return -15
}

// sleep reports false if the process is to end, or has been killed.
func (s *share) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
	}
	return s.stubborn && s.lives()
}

// lives reports whether the process has not been killed.
func (s *share) lives() bool {
	_, err := s.cmd.Stdout.Write(nil)
	if err == nil {
		time.Sleep(time.Second)
	}
	return err == nil
}

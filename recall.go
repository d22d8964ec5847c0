package gputrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/record"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// A keptPoolState is what a journal comes to.
type keptPoolState struct {
	spec     keptSpec
	bases    map[string]keptBase // by the machine's name
	workers  map[string]keptBase // the last of each machine
	uploads  []keptFiles
	places   map[int]keptPlace // by their numbers
	tasks    []*keptOpen       // that were not handed over, in order
	lastTask int64
	base     []record.Record // the lines that are always of use
}

// A keptOpen is a task that was not handed over.
type keptOpen struct {
	unit    keptUnit
	task    keptTask
	tries   keptTries
	outcome *keptOutcome
	at      int64        // when it was asked for, in Unix nanoseconds
	members *keptMembers // of its broadcast
}

// keptMembers are the nodes of a broadcast, which its tasks share.
type keptMembers struct {
	names []string    // of their machines
	nodes []*poolNode // nil unless each of them is there again

	cluster func() *worker.Members // what functions are told of nodes
}

// since is a time before which the task's last attempt cannot have begun.
func (k *keptOpen) since() time.Time { return time.Unix(0, max(k.at, k.tries.At)) }

// readJournal reads what another program has kept, and goes on with a copy, so that
// that one, should it live, writes where nobody reads.
func readJournal(path string) (*journal, *keptPoolState, error) {
	s := &keptPoolState{bases: map[string]keptBase{}, workers: map[string]keptBase{}, places: map[int]keptPlace{}}
	open := map[string]*keptOpen{}
	sizes := map[string]int64{}
	begun := false
	for r, err := range record.Read(path) {
		var torn *record.TornError
		switch {
		case errors.As(err, &torn):
			continue
		case errors.Is(err, os.ErrNotExist):
			return nil, nil, errors.New("it is missing: its program died before it had made anything, or could not keep it")
		case err != nil:
			return nil, nil, err
		}
		if err := s.line(r, open, sizes, &begun); err != nil {
			return nil, nil, err
		}
	}
	if !begun {
		return nil, nil, errors.New("it does not say what the pool is")
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *keptOpen) bool { return open[t.unit.ID] == nil })
	j := newJournal(path, nil)
	j.base, j.places = s.base, len(s.places)
	for id := range open {
		j.open[id] = sizes[id]
		j.live += sizes[id]
	}
	f, err := rewriteJournal(path, j.base, j.open)
	if err != nil {
		return nil, nil, err
	}
	j.file = f
	return j, s, nil
}

// line takes one line of a journal.
func (s *keptPoolState) line(r record.Record, open map[string]*keptOpen, sizes map[string]int64, begun *bool) error {
	size := int64(len(r.Body))
	switch is := lineOf(r); is {
	case keptPool, keptNode, keptUpload, keptWhere:
		return s.always(r, is, begun)
	case keptTasks:
		var b keptBatch
		if err := unmarshalKept(r.Body, &b); err != nil {
			return err
		}
		members := &keptMembers{names: b.Members}
		for _, u := range b.Units {
			t := &keptOpen{unit: u, task: b.Task, at: b.At, members: members}
			if u.Arg != nil {
				t.task.Arg = u.Arg
			}
			open[u.ID] = t
			sizes[u.ID] = size / int64(len(b.Units))
			s.tasks = append(s.tasks, t)
			if n, err := strconv.ParseInt(strings.TrimPrefix(u.ID, "t"), 10, 64); err == nil {
				s.lastTask = max(s.lastTask, n)
			}
		}
	case keptRetry:
		var t keptTries
		if err := unmarshalKept(r.Body, &t); err != nil {
			return err
		}
		if o := open[t.ID]; o != nil {
			o.tries = t
		}
	case keptResult:
		var o keptOutcome
		if err := unmarshalKept(r.Body, &o); err != nil {
			return err
		}
		if t := open[o.ID]; t != nil {
			t.outcome = &o
			sizes[o.ID] += size
		}
	case keptHanded:
		var ids []string
		if err := unmarshalKept(r.Body, &ids); err != nil {
			return err
		}
		for _, id := range ids {
			delete(open, id)
		}
	}
	return nil
}

// always takes a line that is always of use.
func (s *keptPoolState) always(r record.Record, is string, begun *bool) error {
	var err error
	switch is {
	case keptPool:
		*begun = true
		err = unmarshalKept(r.Body, &s.spec)
	case keptNode:
		var b keptBase
		if err = unmarshalKept(r.Body, &b); b.Worker != "" {
			s.workers[b.Node] = b
		} else {
			s.bases[b.Node] = b
		}
	case keptUpload:
		var f keptFiles
		err = unmarshalKept(r.Body, &f)
		s.uploads = append(s.uploads, f)
	case keptWhere:
		var p keptPlace
		err = unmarshalKept(r.Body, &p)
		s.places[p.Number] = p
	}
	if err != nil {
		return err
	}
	s.base = append(s.base, r)
	return nil
}

// restored returns the task that was kept, with those secrets that are known again.
func (k *keptTask) restored(secrets map[string]Secret) (t Task, missing error) {
	t = Task{
		Name: k.Name, Args: k.Args, Script: k.Script, Env: k.Env, Dir: k.Dir, Stdin: k.Stdin, Timeout: time.Duration(k.Timeout),
		Retries: k.Retries, HoldsLease: k.HoldsLease, Outputs: k.Outputs, Target: Target{rank: k.Rank},
	}
	for _, l := range k.Labels {
		t.Target.labels = append(t.Target.labels, label{l[0], l[1]})
	}
	if k.Function != "" {
		var arg codec.Body
		if k.Arg != nil {
			arg = codec.Body{Head: k.Arg.Head, Parts: k.Arg.Parts}
		}
		t.call = &call{function: k.Function, marshal: func() (codec.Body, error) { return arg, nil }}
		if err := functionReady(k.Function); err != nil {
			missing = err
		}
	}
	if k.TooLarge || k.Arg != nil && k.Arg.TooLarge {
		missing = fmt.Errorf("what it is given has more than %d MiB, which is not kept for Attach", keptBody>>20)
	}
	for _, name := range k.Secrets {
		value, ok := secrets[name]
		if !ok {
			missing = fmt.Errorf("it needs the secret %s, which is kept nowhere; give it to Attach by WithSecrets", name)
			continue
		}
		if t.Secrets == nil {
			t.Secrets = map[string]Secret{}
		}
		t.Secrets[name] = value
	}
	return t, missing
}

// recall makes jobs of the tasks that were kept.
func (p *pool) recall(kept *keptPoolState) {
	p.recalled = &recalled{bases: kept.bases, workers: kept.workers, units: map[string]*recalledUnit{}}
	c := &Compute{p: p, ctx: p.ctx}
	for _, k := range kept.tasks {
		task, missing := k.task.restored(p.opts.secrets)
		b := c.newBatch()
		b.results = make(chan Result, 1)
		u := b.unit(k.unit.Index, task)
		u.id, u.label, u.kept, u.missing = k.unit.ID, k.unit.Label, true, missing
		u.attempts, u.failures, u.losses, u.usd, u.unpriced = k.tries.Attempts, k.tries.Failures, k.tries.Losses, k.tries.USD, k.tries.Unpriced
		b.units = []*unit{u}
		p.mu.Lock()
		u.turn = p.tasks.newTurn() // before whatever this program asks for
		p.mu.Unlock()
		job := c.newJob(b)
		if k.outcome != nil {
			r := k.outcome.result(k.unit.Index, kept.places[k.outcome.Where].node(), k.task.Function)
			close(u.over)
			job.show(keptSpool(r.Stdout, r.StdoutBytes, r.StdoutFile), keptSpool(r.Stderr, r.StderrBytes, r.StderrFile))
			b.results <- r
		}
		p.recalled.units[u.id] = &recalledUnit{unit: u, kept: k, taken: k.outcome != nil}
		p.recalled.order = append(p.recalled.order, u.id)
		job.follow(b)
	}
}

// recalled is what Attach has yet to find a place for.
type recalled struct {
	bases, workers map[string]keptBase
	units          map[string]*recalledUnit
	order          []string
}

type recalledUnit struct {
	unit  *unit
	kept  *keptOpen
	taken bool // it is over, or a node has it
}

var nodeIDPattern = regexp.MustCompile(`^(t[0-9]+)-a([0-9]+)-s([0-9]+)$`)

// take goes on with what was found on a node, before that takes anything new.
func (n *poolNode) take(found []supervisor.Found) {
	for _, f := range found {
		if m := nodeIDPattern.FindStringSubmatch(f.ID); m != nil {
			n.takeTask(f, m[1], number(m[2]), number(m[3]))
			continue
		}
		if w := n.p.recalled.workers[n.name]; w.Worker == f.ID && !f.Over {
			n.worker.adopt(w)
			continue
		}
		n.super.End(f.ID) // a step of the bootstrap, a worker that is dead
	}
}

func number(s string) int {
	i, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return i
}

// claim gives a task that was found on the node its slot again, unless it is not
// wanted. One that is over needs none: the next one has its slot.
func (n *poolNode) claim(task string, attempt, slot int, over bool) *recalledUnit {
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.recalled.units[task]
	switch {
	case r == nil || r.taken || attempt <= r.unit.attempts:
		return nil
	case over:
	case slot < 0 || slot >= len(n.slots) || n.slots[slot]:
		return nil
	default:
		n.slots[slot] = true
		n.busy++
		p.tasks.update(n)
	}
	r.taken = true
	r.unit.attempts = attempt
	return r
}

// passOnFound does what follows an attempt that was found: the slot that it had, if
// any, goes to the next.
func (n *poolNode) passOnFound(slot int, over bool) {
	if over {
		return
	}
	if next := n.p.passOn(n, slot); next != nil {
		n.p.running.Go(func() { n.p.work(next, n, slot) })
	}
}

// takeTask follows a command that was found.
func (n *poolNode) takeTask(f supervisor.Found, task string, attempt, slot int) {
	p := n.p
	r := n.claim(task, attempt, slot, f.Over)
	if r == nil {
		n.super.End(f.ID)
		return
	}
	u := r.unit
	if k := r.kept.unit; k.Pin != "" {
		u.pin = n // for a broadcast: what is done here is done
	}
	p.running.Go(func() {
		result, failure := n.follow(u.batch.context(n), u, f.ID, func(ctx context.Context, sinks supervisor.Sinks) (supervisor.Exit, error) {
			return n.super.Resume(ctx, supervisor.Spec{ID: f.ID, Dir: u.task.Dir, Timeout: u.task.Timeout, Grace: cancelGrace}, r.kept.since(), sinks)
		})
		n.passOnFound(slot, f.Over)
		p.conclude(u, n, result, failure, func() { n.super.Release(f.ID) })
	})
}

// resumeRest queues the tasks that no node has.
func (p *pool) resumeRest() {
	p.findMembers()
	var waiting []*unit
	for _, id := range p.recalled.order {
		r := p.recalled.units[id]
		if r.taken {
			continue
		}
		u := r.unit
		switch {
		case u.missing != nil:
			p.conclude(u, nil, Result{ExitCode: -1}, u.failure(nil, CauseNeverStarted, u.missing), func() {})
		case r.kept.unit.Pin != "" && !r.kept.pinAgain(u):
			p.conclude(u, nil, Result{ExitCode: -1}, u.failure(nil, CauseNodeLost, fmt.Errorf("%w: %s, which was to run it", ErrNodeLost, r.kept.unit.Pin)), func() {})
		default:
			waiting = append(waiting, u)
		}
	}
	p.submit(waiting)
}

// findMembers finds the nodes of broadcasts by the names of their machines.
func (p *pool) findMembers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	byName := map[string]*poolNode{}
	for _, n := range p.nodes {
		if !n.state.over() {
			byName[n.name] = n
		}
	}
	sought := map[*keptMembers]bool{}
	for _, id := range p.recalled.order {
		m := p.recalled.units[id].kept.members
		if sought[m] {
			continue
		}
		sought[m] = true
		for _, name := range m.names {
			n := byName[name]
			if n == nil {
				m.nodes = nil
				break
			}
			m.nodes = append(m.nodes, n)
		}
		m.cluster = sync.OnceValue(func() *worker.Members { return membersOf(m.nodes) })
	}
}

// pinAgain gives a unit of a broadcast its node, if all of the broadcast's are there.
func (k *keptOpen) pinAgain(u *unit) bool {
	members := k.members.nodes
	if u.index < 0 || u.index >= len(members) || members[u.index].name != k.unit.Pin {
		return false
	}
	u.pin, u.members, u.cluster = members[u.index], members, k.members.cluster
	return true
}

// adopt goes on with a worker that an earlier program has started: its calls are
// collected, and it gets no new ones, since it may be another program's.
func (h *workerHost) adopt(w keptBase) {
	n := h.n
	life, cancel := context.WithCancel(n.ctx)
	proc := &workerProc{
		ready: make(chan struct{}), exited: make(chan struct{}), cancel: cancel, retired: true, calls: 1,
		scratch: path.Join(n.facts.Root, scratchDir, w.Worker), output: newWorkerOutput(n, w.Worker),
	}
	divided := make(chan struct{}) // closed when it is known whose output it is
	h.mu.Lock()
	h.starts = max(h.starts, w.Ships)
	h.former = append(h.former, proc)
	h.mu.Unlock()
	socket := path.Join(n.facts.Root, w.Worker)
	n.p.running.Go(func() {
		held := func(w io.Writer) io.Writer { return heldWriter{w, divided} }
		proc.exit, proc.exitEr = n.super.Resume(life, supervisor.Spec{ID: w.Worker, Grace: time.Second}, time.Time{}, supervisor.Sinks{
			Stdout: held(proc.output.streams[0]), Stderr: held(proc.output.streams[1]), Live: n.p.out.live(),
		})
		<-divided
		proc.output.end()
		h.mu.Lock()
		h.left = append(h.left, socket, proc.scratch)
		h.mu.Unlock()
		close(proc.exited)
	})
	client, err := worker.Dial(life, h.attach(program{remote: w.Binary}, socket), worker.Hello{
		Adopt: true, Generation: uint64(n.p.generation), Grace: functionGrace, Node: n.nodeFacts(proc.scratch),
		ResultBytes: n.p.opts.limits.resultBytes(), Reachable: n.isUp,
	})
	if err != nil {
		close(divided)
		cancel()
		<-proc.exited
		return
	}
	proc.client = client
	calls := n.foundCalls(proc)
	close(divided)
	close(proc.ready)
	n.p.running.Go(func() {
		<-proc.exited
		client.Fail(errors.New(describeExit(proc.exit, proc.exitEr)))
	})
	for _, c := range calls {
		n.takeCall(c)
	}
	h.leave(proc, false) // ends it where nothing was collected
}

// A heldWriter holds back what is written until a channel is closed.
type heldWriter struct {
	w     io.Writer
	until <-chan struct{}
}

func (h heldWriter) Write(p []byte) (int, error) {
	<-h.until
	return h.w.Write(p)
}

// A foundAttempt is a call that was found in a worker and is waited for.
type foundAttempt struct {
	attemptedCall
	id       uint64
	finished bool
}

// foundCalls divides what a worker has printed among the calls that were found in it,
// and returns those that are wanted.
func (n *poolNode) foundCalls(proc *workerProc) (calls []*foundAttempt) {
	var found []foundCall
	for _, held := range proc.client.Held() {
		var r *recalledUnit
		if !held.Stream {
			r = n.claim(held.Place.TaskID, held.Place.Attempt, held.Place.Slot, held.Finished)
		}
		if r == nil {
			proc.client.Drop(held.ID)
			found = append(found, foundCall{HeldCall: held})
			continue
		}
		if r.kept.unit.Pin != "" {
			r.unit.pin = n
		}
		c := &foundAttempt{attemptedCall{
			u: r.unit, proc: proc, place: held.Place, output: proc.output.of(r.unit), since: r.kept.since(), followed: now(), ran: held.Ran,
		}, held.ID, held.Finished}
		calls = append(calls, c)
		found = append(found, foundCall{held, c.output})
	}
	proc.output.resume(found)
	return calls
}

// takeCall waits for a call that was found in a worker.
func (n *poolNode) takeCall(c *foundAttempt) {
	p, u, proc, slot := n.p, c.u, c.proc, c.place.Slot
	n.worker.mu.Lock()
	proc.calls++
	n.worker.mu.Unlock()
	p.running.Go(func() {
		result, failure, release, gone := n.answer(u.ctx, &c.attemptedCall, func() (codec.Body, func(), error) {
			return proc.client.CollectHold(u.ctx, c.id, u.task.Timeout, &c.stats)
		})
		if gone != nil {
			p.conclude(u, n, result, failure, release)
			<-gone
			n.passOnFound(slot, c.finished)
			return
		}
		n.passOnFound(slot, c.finished)
		p.conclude(u, n, result, failure, release)
	})
}

//go:build linux

package gputrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

const (
	// soakTasks is how many tasks the soak has; CI has it have 20 000.
	soakTasks = "GPUTRAIN_SOAK"
	// soakSeed repeats the choices of a run.
	soakSeed = "GPUTRAIN_SOAK_SEED"
)

// number returns what an environment variable says, or a default.
func number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A soaked task is one of the soak, with what must become of it.
type soaked struct {
	task gputrain.Task
	want func(gputrain.Result) error
}

// soakKinds make a task each. Every run of one adds a line "number attempt"
// to the file ran.
var soakKinds = []func(id int, ran string, rng *rand.Rand) soaked{soakCommand, soakFailure, soakCall, soakCall}

// TestSoak has many small tasks of all kinds run on eight OpenSSH servers,
// while every second something else goes wrong. Every task must have one
// result, which is what it must be. Commands run once. So do calls, but for those whose
// worker is killed: each attempt at them that was begun is in the results' count.
// Afterwards goroutines, memory and open files are what they were before.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	total := int(number(t, soakTasks, 2000))
	seed := number(t, soakSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", soakTasks, total, soakSeed, seed)
	var hosts []*ownHost
	for range 8 {
		hosts = append(hosts, newHost(t))
	}
	pool := openHosts(t, gputrain.Spec{Concurrency: 4}, nil, hosts...)
	warm := newSoak(t, pool, seed, 200) // what is made once is there then
	warm.work(0)
	warm.account(0)
	s := newSoak(t, pool, seed, total)
	before := takeVitals(t, pool)

	done := make(chan bool)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { s.work(uint64(i + 1)) })
	}
	go func() { all.Wait(); close(done) }()
	faults, kills := strikeHosts(t, hosts, rand.New(rand.NewPCG(seed, 99)), done)
	s.account(kills)
	t.Logf("%d tasks; %d faults, of which %d workers; %d calls were begun again, %d streams failed", total, faults, kills, s.again.Load(), s.lost.Load())

	for _, h := range hosts {
		h.link.Cut() // the servers of older connections keep their log open
	}
	var after vitals
	if !settles(func() bool { after = takeVitals(t, pool); return after.like(before) }) {
		t.Errorf("before: %+v\nafter:  %+v", before, after)
	}
	t.Logf("before: %+v", before)
	t.Logf("after:  %+v", after)
}

// A soak keeps count.
type soak struct {
	t     testing.TB
	pool  *gputrain.Compute
	ran   string
	seed  uint64
	total int

	next  atomic.Int64
	again atomic.Int64 // attempts at calls, of which the worker was killed
	lost  atomic.Int64 // streams, likewise

	mu      sync.Mutex
	results []int // how many attempts each task took; see failed
}

func newSoak(t testing.TB, pool *gputrain.Compute, seed uint64, total int) *soak {
	s := &soak{t: t, pool: pool, ran: filepath.Join(t.TempDir(), "ran"), seed: seed, total: total, results: make([]int, total)}
	write(t, s.ran, nil)
	return s
}

// work takes one chunk of tasks after another until all are taken.
func (s *soak) work(worker uint64) {
	rng := rand.New(rand.NewPCG(s.seed, worker))
	for {
		n := 1 + rng.IntN(60)
		first := int(s.next.Add(int64(n))) - n
		if first >= s.total {
			return
		}
		s.some(first, min(n, s.total-first), rng)
	}
}

// some runs some tasks, by one of the ways there are, and checks their results.
func (s *soak) some(first, n int, rng *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool := s.pool.WithContext(ctx)
	cancels := rng.IntN(20) == 0
	if cancels {
		time.AfterFunc(time.Duration(rng.IntN(300))*time.Millisecond, cancel)
	}
	var made []soaked
	var tasks []gputrain.Task
	for i := range n {
		m := soakKinds[rng.IntN(len(soakKinds))](first+i, s.ran, rng)
		made, tasks = append(made, m), append(tasks, m.task)
	}
	take := func(i int, r gputrain.Result) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.results[first+i] != 0 {
			s.t.Errorf("task %d has two results", first+i)
		}
		s.results[first+i] = r.Attempts
		if errors.Is(r.Err, context.Canceled) && cancels {
			s.results[first+i] = failed(r.Attempts)
		} else if err := made[i].want(r); err != nil {
			s.t.Errorf("task %d: %v", first+i, err)
		}
	}
	ways := 3
	if soakStream != nil {
		ways = 4
	}
	switch rng.IntN(ways) {
	case 0:
		results, err := pool.Gather(tasks...)
		if len(results) != n && !(cancels && errors.Is(err, context.Canceled)) {
			s.t.Errorf("%d results of %d: %v", len(results), n, err)
		}
		for i, r := range results {
			take(i, r)
		}
		if len(results) == 0 {
			s.none(first, n)
		}
	case 1:
		got := 0
		for r := range pool.Stream(tasks...) {
			if r.Index < 0 { // the context had ended before
				s.none(first, n)
				return
			}
			take(r.Index, r)
			got++
		}
		if got != n {
			s.t.Errorf("the stream had %d results of %d", got, n)
		}
	case 2:
		var jobs []*gputrain.Job
		for _, task := range tasks {
			jobs = append(jobs, pool.Start(task))
		}
		for i, job := range jobs {
			r, _ := job.Wait()
			take(i, r)
		}
	case 3:
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				r := gputrain.Result{Index: i}
				r.Attempts, r.Err = soakStream(pool, first+i, s.ran)
				if te, ok := errors.AsType[*gputrain.TaskError](r.Err); ok && te.Cause == gputrain.CauseWorkerLost {
					s.lost.Add(1) // a stream that may have begun is not begun again
					s.fail(first+i, r.Attempts)
					return
				}
				made[i].want = func(r gputrain.Result) error { return r.Err }
				take(i, r)
			})
		}
		all.Wait()
	}
}

// soakStream runs one stream, and returns how many attempts it took.
var soakStream func(pool *gputrain.Compute, id int, ran string) (attempts int, err error)

// failed is what the results have for a task whose last attempt failed, and may not have run.
func failed(attempts int) int { return -1 - attempts }

func (s *soak) fail(id, attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[id] = failed(attempts)
}

// none notes tasks that nothing was begun for.
func (s *soak) none(first, n int) {
	for i := range n {
		s.fail(first+i, 0)
	}
}

// account compares what ran with the results.
func (s *soak) account(kills int) {
	t := s.t
	type run struct{ id, attempt int }
	runs := map[run]int{}
	most := map[int]int{}
	text, err := os.ReadFile(s.ran)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r run
		if n, err := fmt.Sscanf(line, "%d %d\n", &r.id, &r.attempt); n != 2 || err != nil {
			t.Errorf("the ledger has the line %q: %v", line, err)
		}
		runs[r]++
		most[r.id] = max(most[r.id], r.attempt)
	}
	for r, n := range runs {
		if n > 1 {
			t.Errorf("attempt %d of task %d ran %d times", r.attempt, r.id, n)
		}
	}
	for id, attempts := range s.results {
		switch {
		case attempts == 0:
			t.Errorf("task %d has no result", id)
		case attempts > 0 && runs[run{id, attempts}] != 1:
			t.Errorf("task %d has the result of attempt %d, which did not run", id, attempts)
		case attempts > 1:
			s.again.Add(int64(attempts - 1))
		}
		if attempts < 0 {
			attempts = -1 - attempts
		}
		if most[id] > attempts {
			t.Errorf("task %d ran in attempt %d, and its result is of attempt %d", id, most[id], attempts)
		}
	}
	if failed := s.again.Load() + s.lost.Load(); failed > int64(kills*4) { // as many as run on a node at once
		t.Errorf("%d attempts failed by %d workers that were killed", failed, kills)
	}
}

// soakCommand is a command that reads, waits and prints a little.
func soakCommand(id int, ran string, rng *rand.Rand) soaked {
	in := bytes.Repeat([]byte{byte('a' + id%26)}, rng.IntN(2)*rng.IntN(6000))
	wait := ""
	if rng.IntN(10) == 0 {
		wait = "sleep 0.1; "
	}
	task := gputrain.Script(`echo "$ID $GPUTRAIN_ATTEMPT" >>"$RAN"; ` + wait + `echo "out $ID"; echo "err $ID" >&2; [ -z "$IN" ] || cat`)
	task.Env = map[string]string{"ID": strconv.Itoa(id), "RAN": ran}
	if len(in) > 0 {
		task.Stdin, task.Env["IN"] = in, "1"
	}
	return soaked{task, func(r gputrain.Result) error {
		if r.Err != nil || r.Attempts != 1 {
			return fmt.Errorf("%d attempts at a command, %w", r.Attempts, r.Err)
		}
		if want := fmt.Sprintf("out %d\n%s", id, in); string(r.Stdout) != want || string(r.Stderr) != fmt.Sprintf("err %d\n", id) {
			return fmt.Errorf("it printed %q and %q, and not %q", r.Stdout, r.Stderr, want)
		}
		return nil
	}}
}

// soakFailure is a command that fails.
func soakFailure(id int, ran string, rng *rand.Rand) soaked {
	code := 1 + rng.IntN(100)
	task := gputrain.Cmd("sh", "-c", `echo "$1 $GPUTRAIN_ATTEMPT" >>"$2"; echo "fails $1" >&2; exit $3`, "sh", strconv.Itoa(id), ran, strconv.Itoa(code))
	return soaked{task, func(r gputrain.Result) error {
		te, _ := errors.AsType[*gputrain.TaskError](r.Err)
		if te == nil || te.Cause != gputrain.CauseExit || te.ExitCode != code || te.Tail != fmt.Sprintf("fails %d", id) || r.Attempts != 1 {
			return fmt.Errorf("want exit code %d in one attempt: %d attempts, %w", code, r.Attempts, r.Err)
		}
		return nil
	}}
}

// A soakChore is what soakFunc is asked for.
type soakChore struct {
	ID, Size int
	Ran      string
	Wait     time.Duration
	In       []byte
}

var soakFunc = gputrain.Func("soak", func(ctx context.Context, in soakChore) ([]byte, error) {
	if err := appendLine(in.Ran, fmt.Sprintln(in.ID, gputrain.ThisNode(ctx).Attempt)); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(in.Wait):
	}
	return append(payload(in.ID, in.Size), in.In...), nil
})

// soakCall is a call, which is tried again if its worker is killed.
func soakCall(id int, ran string, rng *rand.Rand) soaked {
	in := soakChore{ID: id, Ran: ran, Size: rng.IntN(2) * rng.IntN(20_000), In: payload(id+1, rng.IntN(2)*rng.IntN(20_000))}
	if rng.IntN(10) == 0 {
		in.Wait = 100 * time.Millisecond
	}
	task := soakFunc.Call(in)
	task.Retries = 20
	return soaked{task, func(r gputrain.Result) error {
		got, err := soakFunc.Value(r)
		if err != nil {
			return fmt.Errorf("after %d attempts: %w", r.Attempts, err)
		}
		if want := append(payload(id, in.Size), in.In...); !bytes.Equal(got, want) {
			return fmt.Errorf("it returned %d other bytes than the %d", len(got), len(want))
		}
		return nil
	}}
}

// strikeHosts has something go wrong every second until done. It returns how often
// it did, and how many workers were killed.
func strikeHosts(t testing.TB, hosts []*ownHost, rng *rand.Rand, done <-chan bool) (faults, kills int) {
	while := func(d time.Duration) {
		select {
		case <-done:
		case <-time.After(d):
		}
	}
	moment := func() { while(time.Duration(100+rng.IntN(700)) * time.Millisecond) }
	strikes := []func(h *ownHost){
		func(h *ownHost) { h.link.Cut() },
		func(h *ownHost) {
			for _, h := range hosts {
				h.link.Cut()
			}
		},
		func(h *ownHost) { h.link.CutAfter(rng.Int64N(100_000)) },
		func(h *ownHost) { h.link.Blackhole(true); moment(); h.link.Blackhole(false) },
		func(h *ownHost) { h.link.Blackhole(true); moment(); h.link.Cut(); h.link.Blackhole(false) },
		func(h *ownHost) { h.link.Refuse(true); h.link.Cut(); moment(); h.link.Refuse(false) },
		func(h *ownHost) { h.srv.Kill(); moment(); h.srv.Resume() },
		func(h *ownHost) { h.srv.Restart() },
		func(h *ownHost) { h.link.Delay(20 * time.Millisecond); moment(); h.link.Delay(0) },
		func(h *ownHost) { kills += h.killWorker() },
		func(h *ownHost) { kills += h.killWorker(); h.link.Cut() },
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return faults, kills
		case <-tick.C:
			strikes[rng.IntN(len(strikes))](hosts[rng.IntN(len(hosts))])
			faults++
		}
	}
}

// killWorker kills the process that runs functions on the host, and returns how many those were.
func (h *ownHost) killWorker() (n int) {
	for _, p := range processesWith("HOME=" + h.home) {
		number, _, _ := strings.Cut(p, " ")
		env, _ := os.ReadFile("/proc/" + number + "/environ")
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.HasPrefix(v, []byte("GPUTRAIN_TASK=worker-")) }) {
			pid, _ := strconv.Atoi(number)
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				n++
			}
		}
	}
	return n
}

// vitals are what must not grow.
type vitals struct {
	Goroutines, Files int
	HeapKiB           uint64
	Workers           []int // their goroutines
}

// workerVitals returns how many goroutines the worker has.
var workerVitals = gputrain.Func("worker-vitals", func(context.Context, struct{}) (int, error) { return runtime.NumGoroutine(), nil })

func takeVitals(t testing.TB, pool *gputrain.Compute) (v vitals) {
	t.Helper()
	task := workerVitals.Call(struct{}{})
	task.Retries = 3 // the last worker that was killed may not be missed yet
	results, err := pool.Broadcast(task)
	if err != nil {
		t.Error(err)
	}
	for _, r := range results {
		n, _ := workerVitals.Value(r)
		v.Workers = append(v.Workers, n)
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	v.HeapKiB = m.HeapAlloc >> 10
	v.Goroutines = runtime.NumGoroutine()
	files, _ := os.ReadDir("/proc/self/fd")
	v.Files = len(files)
	return v
}

// like reports whether nothing has grown. What differs in size without a leak (buffers of
// connections, which are other ones than before) is far below what a kilobyte for each task would be.
func (v vitals) like(before vitals) bool {
	return v.Goroutines <= before.Goroutines && v.Files <= before.Files && v.HeapKiB <= before.HeapKiB+4096 &&
		slices.Max(v.Workers) <= slices.Max(before.Workers)
}

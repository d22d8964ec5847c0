//go:build linux

package matrix

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
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

const (
	// soakTasks names the variable with the number of tasks. CI sets it to 20 000.
	soakTasks = "GPUTRAIN_SOAK"
	// soakSeed names the variable that repeats the choices of a run.
	soakSeed = "GPUTRAIN_SOAK_SEED"
)

// number returns the value of an environment variable, or a default.
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

// A soaked task is a task of the soak, with a check of its result.
type soaked struct {
	task gputrain.Task
	want func(gputrain.Result) error
}

// soakKinds return a task each. Every run of a task adds a line "number attempt" to the file ran.
var soakKinds = []func(id int, ran string, rng *rand.Rand) soaked{soakCommand, soakFailure, soakCall, soakCall}

// TestSoak runs many small tasks of all kinds on eight OpenSSH servers, with a random fault every second. Every task
// must have one correct result. Commands run once. So do calls, except those whose worker is killed: the results count
// every attempt that was begun. Afterwards goroutines, memory and open files are as before.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes a minute")
	}
	total := int(number(t, soakTasks, 2000))
	seed := number(t, soakSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", soakTasks, total, soakSeed, seed)
	var hosts []*e2etest.OwnHost
	for range 8 {
		hosts = append(hosts, e2etest.NewHost(t))
	}
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 4}, nil, hosts...)
	warm := newSoak(t, pool, seed, 200) // so that everything that is created once exists
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
		h.Link.Cut() // the servers of older connections keep their log open
	}
	var after vitals
	if !e2etest.Settles(func() bool { after = takeVitals(t, pool); return after.like(before) }) {
		t.Errorf("before: %+v\nafter:  %+v", before, after)
	}
	t.Logf("before: %+v", before)
	t.Logf("after:  %+v", after)
}

// A soak counts attempts and results.
type soak struct {
	t     testing.TB
	pool  *gputrain.Compute
	ran   string
	seed  uint64
	total int

	next  atomic.Int64
	again atomic.Int64 // attempts at calls that failed because their worker was killed
	lost  atomic.Int64 // streams that failed for the same reason

	mu      sync.Mutex
	results []int // attempts of each task; see failed
}

func newSoak(t testing.TB, pool *gputrain.Compute, seed uint64, total int) *soak {
	s := &soak{t: t, pool: pool, ran: filepath.Join(t.TempDir(), "ran"), seed: seed, total: total, results: make([]int, total)}
	e2etest.Write(t, s.ran, nil)
	return s
}

// work runs chunks of tasks until all are done.
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

// some runs some tasks in one of several ways, and checks their results.
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
					s.lost.Add(1) // a stream that may have begun is not retried
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

// soakStream runs one stream, and returns the number of attempts.
var soakStream func(pool *gputrain.Compute, id int, ran string) (attempts int, err error)

// failed is the value in results for a task whose last attempt failed, and may not have run.
func failed(attempts int) int { return -1 - attempts }

func (s *soak) fail(id, attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[id] = failed(attempts)
}

// none records tasks of which no attempt was begun.
func (s *soak) none(first, n int) {
	for i := range n {
		s.fail(first+i, 0)
	}
}

// account compares the runs in the file ran with the results.
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

// soakCommand returns a command that reads, waits and prints a little.
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
			return fmt.Errorf("it printed %q and %q, but not %q", r.Stdout, r.Stderr, want)
		}
		return nil
	}}
}

// soakFailure returns a command that fails. One in eight leaves a file.
func soakFailure(id int, ran string, rng *rand.Rand) soaked {
	code := 1 + rng.IntN(100)
	task := gputrain.Cmd("sh", "-c", `echo "$1 $GPUTRAIN_ATTEMPT" >>"$2"; echo "fails $1" | tee "$GPUTRAIN_SCRATCH/left" >&2; exit $3`, "sh", strconv.Itoa(id), ran, strconv.Itoa(code))
	if rng.IntN(8) == 0 {
		task.Outputs = []string{"left"}
	}
	return soaked{task, func(r gputrain.Result) error {
		if task.Outputs != nil {
			if b, err := os.ReadFile(filepath.Join(r.OutputDir, "left")); string(b) != fmt.Sprintf("fails %d\n", id) {
				return fmt.Errorf("what it left is %q: %w, %w", b, err, r.Err)
			}
		}
		te, _ := errors.AsType[*gputrain.TaskError](r.Err)
		if te == nil || te.Cause != gputrain.CauseExit || te.ExitCode != code || te.Tail != fmt.Sprintf("fails %d", id) || r.Attempts != 1 {
			return fmt.Errorf("want exit code %d in one attempt: %d attempts, %w", code, r.Attempts, r.Err)
		}
		return nil
	}}
}

// A soakChore is the argument of soakFunc.
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

// soakCall returns a call, which is retried if its worker is killed.
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
			return fmt.Errorf("it returned %d bytes, which differ from the %d that were wanted", len(got), len(want))
		}
		return nil
	}}
}

// strikeHosts applies a random fault every second until done. It returns the number of faults and of killed workers.
func strikeHosts(t testing.TB, hosts []*e2etest.OwnHost, rng *rand.Rand, done <-chan bool) (faults, kills int) {
	while := func(d time.Duration) {
		select {
		case <-done:
		case <-time.After(d):
		}
	}
	moment := func() { while(time.Duration(100+rng.IntN(700)) * time.Millisecond) }
	strikes := []func(h *e2etest.OwnHost){
		func(h *e2etest.OwnHost) { h.Link.Cut() },
		func(h *e2etest.OwnHost) {
			for _, h := range hosts {
				h.Link.Cut()
			}
		},
		func(h *e2etest.OwnHost) { h.Link.CutAfter(rng.Int64N(100_000)) },
		func(h *e2etest.OwnHost) { h.Link.Blackhole(true); moment(); h.Link.Blackhole(false) },
		func(h *e2etest.OwnHost) { h.Link.Blackhole(true); moment(); h.Link.Cut(); h.Link.Blackhole(false) },
		func(h *e2etest.OwnHost) { h.Link.Refuse(true); h.Link.Cut(); moment(); h.Link.Refuse(false) },
		func(h *e2etest.OwnHost) { h.Server.Kill(); moment(); h.Server.Resume() },
		func(h *e2etest.OwnHost) { h.Server.Restart() },
		func(h *e2etest.OwnHost) { h.Link.Delay(20 * time.Millisecond); moment(); h.Link.Delay(0) },
		func(h *e2etest.OwnHost) { kills += h.KillWorker() },
		func(h *e2etest.OwnHost) { kills += h.KillWorker(); h.Link.Cut() },
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

// vitals are numbers that must not grow.
type vitals struct {
	Goroutines, Files int
	HeapKiB           uint64
	Workers           []int // goroutines of each
}

// workerVitals returns the number of the worker's goroutines.
var workerVitals = gputrain.Func("worker-vitals", func(context.Context, struct{}) (int, error) { return runtime.NumGoroutine(), nil })

func takeVitals(t testing.TB, pool *gputrain.Compute) (v vitals) {
	t.Helper()
	task := workerVitals.Call(struct{}{})
	task.Retries = 3 // the death of the last killed worker may not be noticed yet
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

// like reports whether nothing has grown. Differences without a leak (new connections have other buffers) are far less
// than a kilobyte for each task.
func (v vitals) like(before vitals) bool {
	return v.Goroutines <= before.Goroutines && v.Files <= before.Files && v.HeapKiB <= before.HeapKiB+4096 &&
		slices.Max(v.Workers) <= slices.Max(before.Workers)
}

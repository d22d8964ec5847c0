//go:build unix

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A lie sends what a test's node sends instead of each of its lines: see simnode.Node.Lie. Nil is honest.
type lie func(line string, say func(string))

// liars is a cloud in which some machines lie: lies returns the lie of a machine, by its name.
type liars struct {
	sim.Config
	exec simnode.Config
	lies func(name string) lie
	// run, if set, may handle a command first.
	run func(p sshd.Program) (code int, done bool)

	mu    *sync.Mutex
	keys  map[string]driver.HostKey
	nodes map[string]*sshd.Server
	sims  *[]*simnode.Node
}

func newLiars(c *e2etest.SimCloud, lies func(name string) lie) *liars {
	return &liars{
		Config: sim.Config{Cloud: c.Cloud}, lies: lies, mu: &sync.Mutex{},
		keys: map[string]driver.HostKey{}, nodes: map[string]*sshd.Server{}, sims: &[]*simnode.Node{},
		exec: simnode.Config{CPUs: 2, MemoryBytes: 8 << 30, DiskBytes: 50 << 30, Exec: func(ctx context.Context, cmd simnode.Command) int {
			run := sim.Command{Args: cmd.Args, Env: cmd.Env, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr}
			if len(run.Args) > 2 && run.Args[0] == "sh" {
				run.Script = run.Args[2]
			}
			return e2etest.Words(ctx, run)
		}},
	}
}

// end stops all machines.
func (p *liars) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.nodes {
		s.HangUp()
	}
	for _, n := range *p.sims {
		n.End()
		n.Wait()
	}
	for _, s := range p.nodes {
		s.Close()
	}
}

func (p *liars) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &liarDriver{d, d.(driver.Scripter), d.(driver.LeaseMarker), p}, nil
}

type liarDriver struct {
	driver.Driver
	driver.Scripter
	driver.LeaseMarker
	p *liars
}

func (d *liarDriver) Launch(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
	if err := d.serve(r); err != nil {
		return nil, err
	}
	return d.Driver.Launch(ctx, r)
}

// serve starts the servers of the machines that are about to be launched.
func (d *liarDriver) serve(r driver.Launch) error {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	for _, n := range r.Nodes {
		host, _, clients, err := sshd.Keys(string(n.HostKey.Private), r.Pool.AuthorizedKey)
		if err != nil {
			return err
		}
		node := simnode.New(d.p.exec)
		tell := d.p.lies(n.Name)
		if tell == nil {
			tell = func(line string, say func(string)) { say(line) }
		}
		lying := node.Lie(tell)
		server, err := sshd.New(sshd.Config{HostKey: host, AuthorizedKeys: clients, Run: func(ctx context.Context, p sshd.Program) int {
			if d.p.run != nil {
				if code, done := d.p.run(p); done {
					return code
				}
			}
			return lying(ctx, p)
		}})
		if err != nil {
			return err
		}
		d.p.nodes[n.Name] = server
		*d.p.sims = append(*d.p.sims, node)
	}
	return nil
}

// Dial connects to the test's own machine instead of the cloud's.
func (d *liarDriver) Dial(_ context.Context, in driver.Instance) (net.Conn, error) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	return d.p.nodes[in.Name].Dial()
}

// amongLiars opens a pool in virtual time, some of whose nodes lie.
func amongLiars(t *testing.T, spec gputrain.Spec, lies func(name string) lie, f func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute), opts ...gputrain.Option) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		cloud := newLiars(c, lies)
		defer cloud.end()
		p, err := gputrain.Open(t.Context(), cloud, spec, append([]gputrain.Option{gputrain.WithStateDir(c.State), gputrain.WithResultsDir(t.TempDir()), gputrain.WithEvents(c.Tell)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		c.Pools = append(c.Pools, p)
		f(t, c, p)
		c.CloseAndCheck(t, p)
	})
}

// isFirst reports whether a machine is the first one of a rank.
func isFirst(name, rank string) bool { return strings.HasSuffix(name, "-"+rank) }

// A node that does not enforce a task's Timeout is lost: the task ends as timed out, other tasks of that node run
// elsewhere, and the other node is not affected.
func TestTimeoutThatANodeDoesNotKeep(t *testing.T) {
	lies := func(name string) lie {
		if !isFirst(name, "0") {
			return nil
		}
		return func(line string, say func(string)) {
			if !strings.HasPrefix(line, "D ") { // no task ever ends on this node
				say(line)
			}
		}
	}
	amongLiars(t, gputrain.Spec{Nodes: 2, Concurrency: 2}, lies, func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute) {
		begun := time.Now()
		late := p.Start(gputrain.Task{Args: []string{"sleep", "1h"}, Timeout: time.Minute, Target: gputrain.OnRank(0)})
		other := p.Start(gputrain.Task{Args: []string{"echo", "again"}, Target: gputrain.OnRank(0)})
		good := p.Start(gputrain.Task{Args: []string{"sleep", "1h"}, Target: gputrain.OnRank(1)})
		r, err := late.Wait()
		if !errors.Is(err, gputrain.ErrTimeout) || errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("%v", err)
		}
		most := time.Minute + 10*time.Second + overdue.Grace + time.Second
		if took := time.Since(begun); took > most || r.Elapsed > took {
			t.Errorf("after %v, elapsed %v", took, r.Elapsed)
		}
		if usd, known := r.CostUSD.USD(); known && usd > 100*most.Hours() {
			t.Errorf("it cost %v", usd)
		}
		if r, err := other.Wait(); err != nil || string(r.Stdout) != "again\n" || r.Attempts != 2 {
			t.Errorf("the other task: %q in %d attempts, %v", r.Stdout, r.Attempts, err)
		}
		if r, err := good.Wait(); err != nil || r.Attempts != 1 || time.Since(begun) > 61*time.Minute {
			t.Errorf("the good node's: %d attempts after %v, %v", r.Attempts, time.Since(begun), err)
		}
		if n := c.CountEvents(gputrain.EventNode, "lost"); n != 1 || c.CountLaunches() != 3 {
			t.Errorf("%d nodes were lost of %d", n, c.CountLaunches())
		}
	})
}

// Whatever time a node reports for a task, the program is charged at most for the time that it waited.
func TestElapsedThatIsALie(t *testing.T) {
	lies := func(string) lie {
		return func(line string, say func(string)) {
			if w := strings.Fields(line); w[0] == "D" {
				w[5] = "8000000000000"
				line = strings.Join(w, " ") + " "
			}
			say(line)
		}
	}
	amongLiars(t, gputrain.Spec{}, lies, func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute) {
		begun := time.Now()
		r, err := p.Run(gputrain.Cmd("sleep", "10s"))
		if took := time.Since(begun); err != nil || r.Elapsed < 0 || r.Elapsed > took {
			t.Errorf("%v of %v, %v", r.Elapsed, took, err)
		}
		usd, _ := r.CostUSD.USD()
		perHour, known := r.Node.HourlyUSD.USD()
		if most := perHour * time.Since(begun).Hours(); !known || usd > most {
			t.Errorf("%v USD of %v", usd, most)
		}
	})
}

// A phase that the node does not end fails with its time limit.
func TestPhaseTimeoutThatANodeDoesNotKeep(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		cloud := newLiars(c, func(string) lie {
			return func(line string, say func(string)) {
				if !strings.HasPrefix(line, "D boot-") {
					say(line)
				}
			}
		})
		defer cloud.end()
		begun := time.Now()
		_, err := gputrain.Open(t.Context(), cloud, gputrain.Spec{Image: gputrain.Image{Setup: []string{"true"}, PhaseTimeout: time.Minute}}, gputrain.WithStateDir(c.State))
		if !strings.Contains(fmt.Sprint(err), "did not keep a time limit") {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Hour {
			t.Errorf("after %v", took)
		}
	})
}

// A node whose helper commands print without end is rejected, and the output does not fill memory.
func TestAnswersWithoutEnd(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		cloud := newLiars(c, func(string) lie { return nil })
		cloud.exec.GPUs = []simnode.GPU{{Name: "NVIDIA A100", UUID: "GPU-1"}}
		defer cloud.end()
		var said atomic.Int64 // replacement machines may print at the same time
		cloud.run = func(p sshd.Program) (int, bool) {
			if !strings.HasPrefix(p.Command, "nvidia-smi") {
				return 0, false
			}
			for b := bytes.Repeat([]byte("GPU 0: x (UUID: GPU-1)\n"), 1000); ; {
				n, err := p.Stdout.Write(b)
				if said.Add(int64(n)) > 1<<30 || err != nil {
					return 1, true
				}
			}
		}
		_, err := gputrain.Open(t.Context(), cloud, gputrain.Spec{Accelerator: accelerators.A100()}, gputrain.WithStateDir(c.State))
		if err == nil || !strings.Contains(err.Error(), "the answer is too long: more than") {
			t.Errorf("%v", err)
		}
		if said.Load() > 1<<30 {
			t.Error("the program read the endless output to its end")
		}
	})
}

// Output beyond Limits.OutputBytes is shown and counted, but not stored. The result and the job's reader report that it
// was cut.
func TestOutputBytes(t *testing.T) {
	const most, size = 3 << 20, 8 << 20
	var shown byteCount
	e2etest.InCloud(t, sim.Options{Exec: func(_ context.Context, cmd sim.Command) int {
		for range size / 1024 {
			fmt.Fprintln(cmd.Stdout, strings.Repeat("x", 1023))
		}
		return 0
	}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{}, gputrain.WithLimits(gputrain.Limits{OutputBytes: most}), gputrain.WithResultsDir(t.TempDir()), gputrain.WithOutput(&shown, nil))
		job := p.Start(gputrain.Cmd("print"))
		r, err := job.Wait()
		if err != nil || !r.Truncated || r.StdoutBytes != size || len(r.Stdout) != e2etest.KeptOutputBytes {
			t.Errorf("%v, truncated %v, %d bytes, %d kept", err, r.Truncated, r.StdoutBytes, len(r.Stdout))
		}
		if info, err := os.Stat(r.StdoutFile); err != nil || info.Size() != most {
			t.Errorf("on disk: %v, %v", info, err)
		}
		n, err := io.Copy(io.Discard, job.Stdout())
		if n != most || !errors.Is(err, gputrain.ErrLimit) || !strings.Contains(err.Error(), "WithLimits") {
			t.Errorf("%d bytes, %v", n, err)
		}
		if shown.n < size {
			t.Errorf("%d bytes were shown", shown.n)
		}
		if r, err := p.Run(gputrain.Cmd("print")); err != nil || !r.Truncated || r.StderrFile != "" {
			t.Errorf("%v, truncated %v, %q", err, r.Truncated, r.StderrFile)
		}
		c.CloseAndCheck(t, p)
	})
}

// A byteCount counts the bytes that are written to it.
type byteCount struct{ n int64 }

func (c *byteCount) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// blob returns a value of a size, and blobs yields such values until the caller stops.
var (
	blob = gputrain.Func("lying/blob", func(_ context.Context, size int) ([]byte, error) {
		return make([]byte, size), nil
	})
	blobs = gputrain.GeneratorFunc("lying/blobs", func(_ context.Context, size int, yield func([]byte) bool) error {
		for yield(make([]byte, size)) {
		}
		return nil
	})
)

// A result or a stream value larger than Limits.ResultBytes fails its call. The error names the limit, and the next
// call succeeds.
func TestResultBytes(t *testing.T) {
	const most = 1 << 20
	h := e2etest.NewHost(t)
	p := e2etest.OpenHosts(t, gputrain.Spec{}, []gputrain.Option{gputrain.WithLimits(gputrain.Limits{ResultBytes: most})}, h)
	for name, call := range map[string]func(size int) error{
		"result": func(size int) error {
			_, err := blob.Run(p, size)
			return err
		},
		"stream": func(size int) error {
			for _, err := range blobs.Run(p, size) {
				return err
			}
			return errors.New("the stream had no value")
		},
	} {
		for range 2 {
			if err := call(2 * most); !errors.Is(err, gputrain.ErrLimit) || !strings.Contains(err.Error(), "Limits.ResultBytes of WithLimits") {
				t.Errorf("%s: %v", name, err)
			}
			if err := call(most / 2); err != nil {
				t.Errorf("%s within the limit: %v", name, err)
			}
		}
	}
}

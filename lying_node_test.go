//go:build unix

package gputrain_test

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
	"github.com/gputrain/gputrain/providers/sim"
)

// A lie is what a node of a test says in place of each of its lines: see
// simnode.Node.Lie. Nil is honest.
type lie func(line string, say func(string))

// liars is a cloud some of whose machines lie: lies says which, by their names.
type liars struct {
	sim.Config
	exec simnode.Config
	lies func(name string) lie
	// run, where it is set, is asked first.
	run func(p sshd.Program) (code int, done bool)

	mu    *sync.Mutex
	keys  map[string]gputrain.HostKey
	nodes map[string]*sshd.Server
	sims  *[]*simnode.Node
}

func newLiars(c *simCloud, lies func(name string) lie) *liars {
	return &liars{
		Config: sim.Config{Cloud: c.Cloud}, lies: lies, mu: &sync.Mutex{},
		keys: map[string]gputrain.HostKey{}, nodes: map[string]*sshd.Server{}, sims: &[]*simnode.Node{},
		exec: simnode.Config{CPUs: 2, MemoryBytes: 8 << 30, DiskBytes: 50 << 30, Exec: func(ctx context.Context, cmd simnode.Command) int {
			run := sim.Command{Args: cmd.Args, Env: cmd.Env, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr}
			if len(run.Args) > 2 && run.Args[0] == "sh" {
				run.Script = run.Args[2]
			}
			return words(ctx, run)
		}},
	}
}

// end ends what the machines consist of.
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

func (p *liars) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &liarDriver{d, d.(gputrain.SelfDestructor), d.(gputrain.LeaseMarker), p}, nil
}

type liarDriver struct {
	gputrain.Driver
	gputrain.SelfDestructor
	gputrain.LeaseMarker
	p *liars
}

func (d *liarDriver) Launch(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if err := d.serve(r); err != nil {
		return nil, err
	}
	return d.Driver.Launch(ctx, r)
}

// serve starts the servers of the machines that are to be launched.
func (d *liarDriver) serve(r gputrain.LaunchRequest) error {
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

// Dial reaches a machine of the test's own in place of the cloud's.
func (d *liarDriver) Dial(_ context.Context, in gputrain.Instance) (net.Conn, error) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	return d.p.nodes[in.Name].Dial()
}

// amongLiars opens a pool of which some nodes lie, in virtual time.
func amongLiars(t *testing.T, spec gputrain.Spec, lies func(name string) lie, f func(t *testing.T, c *simCloud, p *gputrain.Compute), opts ...gputrain.Option) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		cloud := newLiars(c, lies)
		defer cloud.end()
		p, err := gputrain.Open(t.Context(), cloud, spec, append([]gputrain.Option{gputrain.WithStateDir(c.state), gputrain.WithResultsDir(t.TempDir()), gputrain.WithEvents(c.tell)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		c.pools = append(c.pools, p)
		f(t, c, p)
		c.end(t, p)
	})
}

// isFirst reports whether a machine is the first of a rank.
func isFirst(name, rank string) bool { return strings.HasSuffix(name, "-"+rank) }

// A node that does not keep a task's Timeout is lost: the task ends as timed out, what else
// ran there runs elsewhere, and the other node is not disturbed.
func TestTimeoutThatANodeDoesNotKeep(t *testing.T) {
	lies := func(name string) lie {
		if !isFirst(name, "0") {
			return nil
		}
		return func(line string, say func(string)) {
			if !strings.HasPrefix(line, "D ") { // nothing ever ends here
				say(line)
			}
		}
	}
	amongLiars(t, gputrain.Spec{Nodes: 2, Concurrency: 2}, lies, func(t *testing.T, c *simCloud, p *gputrain.Compute) {
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
		if n := c.count(gputrain.EventNode, "lost"); n != 1 || c.launches() != 3 {
			t.Errorf("%d nodes were lost of %d", n, c.launches())
		}
	})
}

// Whatever a node says of how long a task ran, no more is charged than this program waited.
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
	amongLiars(t, gputrain.Spec{}, lies, func(t *testing.T, c *simCloud, p *gputrain.Compute) {
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

// A phase that the node does not end is one that was not done in time.
func TestPhaseTimeoutThatANodeDoesNotKeep(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		cloud := newLiars(c, func(string) lie {
			return func(line string, say func(string)) {
				if !strings.HasPrefix(line, "D boot-") {
					say(line)
				}
			}
		})
		defer cloud.end()
		begun := time.Now()
		_, err := gputrain.Open(t.Context(), cloud, gputrain.Spec{Image: gputrain.Image{Setup: []string{"true"}, PhaseTimeout: time.Minute}}, gputrain.WithStateDir(c.state))
		if !strings.Contains(fmt.Sprint(err), "did not keep a time limit") {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Hour {
			t.Errorf("after %v", took)
		}
	})
}

// A node whose helper commands answer without end is no node, and takes no memory.
func TestAnswersWithoutEnd(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		cloud := newLiars(c, func(string) lie { return nil })
		cloud.exec.GPUs = []simnode.GPU{{Name: "NVIDIA A100", UUID: "GPU-1"}}
		defer cloud.end()
		var said atomic.Int64 // machines that replace each other say it at the same time
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
		_, err := gputrain.Open(t.Context(), cloud, gputrain.Spec{Accelerator: accelerators.A100()}, gputrain.WithStateDir(c.state))
		if err == nil || !strings.Contains(err.Error(), "without end") {
			t.Errorf("%v", err)
		}
		if said.Load() > 1<<30 {
			t.Error("it was listened to for ever")
		}
	})
}

// More output than Limits.OutputBytes is shown and counted, and not kept; what is kept
// says so.
func TestOutputBytes(t *testing.T) {
	const most, size = 3 << 20, 8 << 20
	var shown byteCount
	inCloud(t, sim.Options{Exec: func(_ context.Context, cmd sim.Command) int {
		for range size / 1024 {
			fmt.Fprintln(cmd.Stdout, strings.Repeat("x", 1023))
		}
		return 0
	}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{}, gputrain.WithLimits(gputrain.Limits{OutputBytes: most}), gputrain.WithResultsDir(t.TempDir()), gputrain.WithOutput(&shown, nil))
		job := p.Start(gputrain.Cmd("print"))
		r, err := job.Wait()
		if err != nil || !r.Truncated || r.StdoutBytes != size || len(r.Stdout) != gputrain.DefaultKeptOutputBytes {
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
		c.end(t, p)
	})
}

// A byteCount counts what is written to it.
type byteCount struct{ n int64 }

func (c *byteCount) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// blob and blobs return values of a length, and hold one up.
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

// A result, or a value of a stream, of more than Limits.ResultBytes fails its call with an
// error that says which limit, and the next call goes on.
func TestResultBytes(t *testing.T) {
	const most = 1 << 20
	h := newHost(t)
	p := openHosts(t, gputrain.Spec{}, []gputrain.Option{gputrain.WithLimits(gputrain.Limits{ResultBytes: most})}, h)
	for name, call := range map[string]func(size int) error{
		"result": func(size int) error {
			_, err := blob.Run(p, size)
			return err
		},
		"stream": func(size int) error {
			for _, err := range blobs.Run(p, size) {
				return err
			}
			return errors.New("nothing came")
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

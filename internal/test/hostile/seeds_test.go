package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/internal/test/seeds"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// TestHostileSeeds makes nodes lie at random. Each seed determines the client's actions and the node's answers.
//
// GPUTRAIN_HOSTILE sets the seeds: their number, or the first and the last.
func TestHostileSeeds(t *testing.T) {
	count := 300
	if testing.Short() {
		count = 20
	}
	first, count := seeds.FromEnv(t, "GPUTRAIN_HOSTILE", count)
	var shards []sidebyside.Test
	var next atomic.Uint64
	for shard := range min(count, 6*runtime.GOMAXPROCS(0)) { // slow seeds mostly wait
		shards = append(shards, sidebyside.Test{Name: fmt.Sprint("shard", shard), Run: func(t *testing.T) {
			w := &world{t: t}
			for w.failed < 5 {
				i := next.Add(1) - 1
				if i >= uint64(count) {
					break
				}
				w.try(first + i)
			}
		}})
	}
	sidebyside.Run(t, len(shards), shards)
}

// A world has what the seeds of a shard share, because it is slow to create.
type world struct {
	t       *testing.T
	files   *rig
	socket  string // socket of a worker
	pool    *gputrain.Compute
	cloud   *cloud
	home    *hostile.Home // home of the pool
	trained *hostile.Home // home of the trainings
	copied  int           // checkpoints that have come from them
	failed  int
}

// try runs one seed.
func (w *world) try(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	levels := []struct {
		name  string
		share int // percentage of the seeds
		try   func(*rand.Rand) error
		limit time.Duration
	}{
		{"files", 60, w.tryFiles, patience},
		{"training", 4, w.tryTraining, patience},
		{"supervisor", 14, w.trySupervisor, patience},
		{"worker", 12, w.tryWorker, patience},
		{"simulated pool", 8, w.trySimulated, patience},
		// A node that takes no more of the program may have a slow link, and is given up later.
		{"pool", 2, w.tryPool, patience + ssh.StallPatience + overdue.Grace},
	}
	at := r.IntN(100)
	for _, l := range levels {
		if at -= l.share; at >= 0 {
			continue
		}
		var err error
		began := time.Now()
		hung := time.AfterFunc(l.limit, func() {
			panic(fmt.Sprintf("seed %d hangs (%s): GPUTRAIN_HOSTILE=%d-%[3]d go test -run TestHostileSeeds", seed, l.name, seed))
		})
		err = l.try(r)
		hung.Stop()
		if took := time.Since(began); took > 5*time.Second {
			w.t.Logf("seed %d (%s) took %v", seed, l.name, took)
		}
		if err != nil {
			w.failed++
			w.t.Errorf("seed %d (%s): %v\nGPUTRAIN_HOSTILE=%d-%[4]d go test -run TestHostileSeeds", seed, l.name, err, seed)
		}
		return
	}
}

// A client waits at most moment for a silent node, in real time.
const moment = 300 * time.Millisecond

// newFiles returns a rig whose node has some files. Each seed makes its own connection.
func newFiles(t testing.TB) *rig {
	t.Helper()
	r := withShell(t, hostile.NewHome(t))
	r.client.Close()
	write(t, filepath.Join(r.work, "folder", "file"), strings.Repeat("good\n", 300))
	write(t, filepath.Join(r.work, "folder", "deep", "other"), "other")
	write(t, filepath.Join(r.work, "file"), "good")
	return r
}

// tryFiles makes a node lie about its files.
func (w *world) tryFiles(r *rand.Rand) error {
	t := w.t
	if w.files == nil {
		w.files = newFiles(t)
	}
	rig, home := w.files, w.files.home
	rig.client = ssh.New(rig.login)
	defer rig.client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	rig.node.Lie(hostile.Random(r, hostile.Aims{Names: []string{"file", "folder/file", "folder/deep/other", "deep/other"}, Outside: home.Out(r.IntN(9)), Talkative: r.IntN(4) > 0}))
	defer rig.node.Lie(hostile.Honest{})
	if rig.client.Connect(ctx) != nil {
		return nil
	}
	remote := rig.remote(r.IntN(4) > 0)
	var wrong []error
	for range 1 + r.IntN(2) {
		switch r.IntN(6) {
		case 0:
			download(ctx, remote, "file", home.Taken)
		case 1:
			download(ctx, remote, "folder", home.Taken)
		case 2, 3:
			files, err := remote.Fetch(ctx, []string{pickGlob(r)}, home.Taken, transfer.FetchOptions{})
			if err == nil {
				wrong = append(wrong, checkSums(home.Taken, files))
			}
		case 4:
			remote.Upload(ctx, filepath.Join(rig.work, "file"), "up", transfer.Options{})
		case 5: // upload what was received
			remote.Upload(ctx, home.Taken, "taken", transfer.Options{})
		}
	}
	if found := home.Changes(); found != nil {
		wrong = append(wrong, errors.New(strings.Join(found, "; ")))
		home.Repair()
	}
	if size := home.Size(); size > 4<<20 {
		wrong = append(wrong, fmt.Errorf("%d bytes have arrived", size))
	}
	if rig.node.Leaked() {
		wrong = append(wrong, errors.New("the node has received the secret"))
		w.files = nil
	}
	home.Empty()
	return errors.Join(wrong...)
}

func pickGlob(r *rand.Rand) string {
	return []string{"**", "*", "folder/*", "file", "folder"}[r.IntN(5)]
}

// trySupervisor makes a node lie about its tasks, in virtual time.
func (w *world) trySupervisor(r *rand.Rand) (err error) {
	bubble.Test(w.t, func(t *testing.T) {
		n := simnode.New(simnode.Config{CPUs: 3, Exec: speak})
		defer n.Wait()
		defer n.End()
		rig, e := lying(n.Run)
		if e != nil {
			err = e
			return
		}
		defer rig.close()
		aims := hostile.Aims{IDs: []string{"a", "b"}, Flood: 1 << 20}
		l := hostile.Random(r, aims)
		late := r.IntN(2) == 0
		if !late {
			rig.node.Lie(l)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if rig.client.Connect(ctx) != nil {
			return
		}
		s, e := supervisor.Start(ctx, rig.client, supervisor.Config{PoolID: "p", Lease: time.Minute})
		if e != nil {
			return
		}
		if late {
			rig.node.Lie(l)
			rig.node.HangUp()
		}
		done := make(chan error)
		for _, id := range aims.IDs {
			go func() {
				var out, errs bytes.Buffer
				x, e := s.Run(ctx, supervisor.Spec{ID: id, Script: "speak", Timeout: time.Minute, Grace: time.Second},
					supervisor.Sinks{Stdout: &out, Stderr: &errs})
				if e == nil && (x.StdoutBytes != int64(out.Len()) || x.StderrBytes != int64(errs.Len())) {
					e = fmt.Errorf("%s: %d and %d bytes of %d and %d", id, out.Len(), errs.Len(), x.StdoutBytes, x.StderrBytes)
				} else if e == nil && out.Len()+errs.Len() > 64<<20 {
					e = fmt.Errorf("%s has printed %d bytes", id, out.Len()+errs.Len())
				} else {
					e = nil // a node may lie about its own task
				}
				done <- e
			}()
		}
		for range aims.IDs {
			err = errors.Join(err, <-done)
		}
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		s.Close(clean, true) // must return
	})
	return err
}

// speak runs a task of a simulated node.
func speak(ctx context.Context, c simnode.Command) int {
	io.WriteString(c.Stdout, strings.Repeat("said\n", 2000))
	select {
	case <-ctx.Done():
		return -15
	case <-time.After(time.Second):
	}
	io.WriteString(c.Stderr, "and that was all\n")
	return 3
}

// lying is newRig, but only in memory and without a test.
func lying(run func(context.Context, sshd.Program) int) (*simulated, error) {
	login, err := makeKey()
	if err != nil {
		return nil, err
	}
	key, err := makeKey()
	if err != nil {
		return nil, err
	}
	clients := []xssh.PublicKey{login.PublicKey()}
	inner, err := sshd.New(sshd.Config{HostKey: key, AuthorizedKeys: clients, Run: run})
	if err != nil {
		return nil, err
	}
	s := &simulated{inner: inner, node: hostile.New(hostile.Config{
		HostKey: key, AuthorizedKeys: clients, Behind: behind(func(context.Context) (net.Conn, error) { return inner.Dial() }, login, key.PublicKey()),
	})}
	s.client = ssh.New(ssh.Config{Dial: s.node.Dial, User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(login)}, HostKey: xssh.FixedHostKey(key.PublicKey())})
	return s, nil
}

type simulated struct {
	inner  *sshd.Server
	node   *hostile.Node
	client *ssh.Client
}

func (s *simulated) close() {
	s.client.Close()
	s.node.Close()
	s.inner.Close()
}

func init() {
	worker.Register("hostile/raw", func(ctx context.Context, arg codec.Body, s *worker.Stream) (codec.Body, error) {
		if len(arg.Head) == 0 {
			return codec.Body{}, errors.New("the worker sent nothing")
		}
		return codec.Body{Head: bytes.Repeat(arg.Head, 1000)}, nil
	})
}

// tryWorker makes a worker lie about its calls.
func (w *world) tryWorker(r *rand.Rand) error {
	if w.socket == "" {
		w.startWorker()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), moment)
	defer cancel()
	honest := r.IntN(3) // number of connections that may be honest
	open := func(context.Context) (io.ReadWriteCloser, error) {
		conn, err := net.Dial("unix", w.socket)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Write([]byte("c")); err != nil {
			return nil, err
		}
		if honest--; honest >= 0 && r.IntN(2) == 0 {
			return conn, nil
		}
		return hostile.Stream(conn, hostile.RandomStream(r, hostile.Aims{Flood: 1 << 20})), nil
	}
	c, err := worker.Dial(ctx, open, worker.Hello{Generation: r.Uint64() >> 1, Grace: time.Millisecond})
	if err != nil {
		return nil
	}
	defer c.Close()
	done := make(chan error)
	for _, arg := range []string{"a", "", "b"} {
		go func() {
			got, err := c.Call(ctx, worker.Request{Function: "hostile/raw", Arg: codec.Body{Head: []byte(arg)}})
			if err == nil && got.Size() > 16<<20 {
				done <- fmt.Errorf("a result of %d bytes", got.Size())
				return
			}
			done <- nil
		}()
	}
	for range 3 {
		err = errors.Join(err, <-done)
	}
	return err
}

// startWorker starts a real, honest worker.
func (w *world) startWorker() {
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		w.t.Fatal(err)
	}
	w.socket = filepath.Join(dir, "s")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), worker.Env+"="+worker.ServeMode(w.socket))
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(w.socket); err == nil {
			return
		}
		if time.Since(began) > patience {
			w.t.Fatal("the worker does not start")
		}
	}
}

// trySimulated makes one of a pool's two nodes lie about its tasks, in virtual time.
func (w *world) trySimulated(r *rand.Rand) (err error) {
	state := w.t.TempDir()
	results := w.t.TempDir()
	bubble.Test(w.t, func(t *testing.T) {
		own := sim.New(sim.Options{Exec: func(ctx context.Context, c sim.Command) int {
			return speak(ctx, simnode.Command{Stdout: c.Stdout, Stderr: c.Stderr})
		}})
		defer own.Close()
		c := &cloud{Provider: sim.Config{Cloud: own}, nodes: map[string]*made{}}
		defer c.close()
		pool, e := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 2, MaxReplacements: -1}, gputrain.WithStateDir(state), gputrain.WithResultsDir(results))
		if e != nil {
			err = e
			return
		}
		l := hostile.Random(r, hostile.Aims{Flood: 1 << 20})
		c.lie(0, l)
		if r.IntN(2) == 0 {
			c.at(0).HangUp()
		}
		good := gputrain.Script("speak")
		good.Target = gputrain.OnRank(1)
		bad := gputrain.Task{Script: "speak", Target: gputrain.OnRank(0), Timeout: time.Minute}
		bounded, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		lied := pool.WithContext(bounded).Start(bad)
		results, _ := pool.Gather(good, good)
		for _, r := range results {
			if len(r.Stdout) != 10_000 || r.ExitCode != 3 {
				err = errors.Join(err, fmt.Errorf("the good node: %d bytes, %d: %w", len(r.Stdout), r.ExitCode, r.Err))
			}
		}
		lied.Wait()
		pool.Close() // must return
	})
	return err
}

// tryPool makes one of a pool's two nodes lie about anything.
func (w *world) tryPool(r *rand.Rand) error {
	if w.pool == nil {
		if err := w.openPool(); err != nil {
			return err
		}
	}
	w.cloud.lie(0, hostile.Random(r, hostile.Aims{
		Names: []string{"file", "out/file"}, Outside: w.home.Out(r.IntN(9)), Talkative: true,
	}))
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*moment)
	defer cancel()
	pool := w.pool.WithContext(ctx)
	var wrong []error
	for range 1 + r.IntN(2) {
		switch r.IntN(4) {
		case 0:
			pool.Upload(filepath.Join(w.home.Work), "up")
		case 1:
			pool.Download("out", w.home.Taken)
		case 2:
			task := gputrain.Script("mkdir -p out; echo good >out/file; echo said")
			task.Outputs, task.Timeout = []string{"out/*"}, time.Second
			if r.IntN(2) == 0 { // the files of a failure come in another way
				task.Script += "; exit 3"
			}
			results, _ := pool.Broadcast(task)
			for _, r := range results {
				wrong = append(wrong, checkOutputs(r))
			}
		case 3:
			double.Run(pool, 21)
		}
	}
	w.cloud.lie(0, hostile.Honest{})
	if n, err := double.Run(w.pool, 21); err == nil && n != 42 {
		wrong = append(wrong, fmt.Errorf("afterwards the good node doubles 21 to %d", n))
	}
	for _, n := range w.pool.Nodes() {
		if n.Rank == 1 && n.State != gputrain.NodeReady {
			wrong = append(wrong, fmt.Errorf("the good node is %v", n.State))
		}
		if n.State != gputrain.NodeReady {
			wrong = append(wrong, w.closePool())
			break
		}
	}
	if found := w.home.Changes(); found != nil {
		wrong = append(wrong, errors.New(strings.Join(found, "; ")))
		w.home.Repair()
	}
	if w.cloud.leaked() {
		wrong = append(wrong, errors.New("a node has received the secret"))
	}
	if w.pool == nil {
		w.home.Empty()
	}
	return errors.Join(wrong...)
}

// checkOutputs compares the local files with the result's report of them.
func checkOutputs(r gputrain.Result) error {
	var wrong []error
	for _, f := range r.Outputs {
		wrong = append(wrong, checkSum(filepath.Join(r.OutputDir, f.Name), f.Size, f.SHA256))
	}
	return errors.Join(wrong...)
}

func (w *world) openPool() (err error) {
	if w.home == nil {
		w.home = hostile.NewHome(w.t)
		w.t.Cleanup(func() {
			if w.pool != nil {
				w.closePool()
			}
		})
	}
	w.cloud = newCloud(w.t, local.Config{Dir: w.t.TempDir()}, w.home)
	w.pool, err = gputrain.Open(w.t.Context(), w.cloud, gputrain.Spec{Nodes: 2, MaxReplacements: -1},
		gputrain.WithStateDir(w.t.TempDir()), gputrain.WithResultsDir(filepath.Join(w.home.Taken, "results")))
	return err
}

func (w *world) closePool() error {
	err := w.pool.Close()
	w.pool = nil
	return err
}

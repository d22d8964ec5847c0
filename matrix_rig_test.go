//go:build linux

package gputrain_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/opensshtest"
	"github.com/gputrain/gputrain/providers/container"
)

// A rig is a pool of containers, each behind a link with faults. The pool
// talks to an OpenSSH server of its own in each, which can be killed: with
// that which the provider starts the container ends.
type rig struct {
	pool   *gputrain.Compute
	shared string // /shared on every node

	mu     sync.Mutex
	links  map[string]*opensshtest.Link // by container
	rest   map[int]string               // what a node is like when nothing is done there
	ended  map[int]bool                 // nodes that were killed
	passed int64
	mark   int64         // where the bytes stop; 0 means nowhere
	gate   chan struct{} // closed when they go on
}

const sparePort = "2222"

// opening is how many rigs are made at once, so that they do not wait for each other.
var opening = make(chan bool, 2)

func openRig(t *testing.T, nodes int, spec gputrain.Spec, runArgs ...string) *rig {
	t.Helper()
	r := &rig{shared: t.TempDir(), links: map[string]*opensshtest.Link{}, rest: map[int]string{}, ended: map[int]bool{}}
	w := &wrapped{Provider: container.Config{RunArgs: append([]string{"--publish", "127.0.0.1::" + sparePort}, runArgs...)}}
	w.dial = func(ctx context.Context, i gputrain.Instance) (net.Conn, error) {
		link, err := r.link(t, i.ID)
		if err != nil {
			return nil, err
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", link.Addr)
		if err != nil {
			return nil, err
		}
		return &stoppable{conn, r}, nil
	}
	spec.Nodes, spec.Concurrency = nodes, 8
	spec.MaxReplacements = -1
	spec.Mounts = []gputrain.Mount{{Source: r.shared, Target: "/shared"}}
	opening <- true
	defer func() { <-opening }()
	pool, err := gputrain.Open(t.Context(), w, spec, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	r.pool = pool
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		wantNothingOf(t, pool.ID())
	})
	if _, err := norm.Broadcast(pool, point{3, 4}); err != nil { // so that the worker is there
		t.Fatal(err)
	}
	for _, n := range r.live() {
		r.rest[n.Rank] = r.look(t, n)
	}
	return r
}

// link returns the way to a container, and makes it the first time.
func (r *rig) link(t testing.TB, id string) (*opensshtest.Link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[id]; l != nil {
		return l, nil
	}
	startSpare(t, id)
	at := docker(t, "port", id, sparePort+"/tcp")
	if at == "" {
		return nil, fmt.Errorf("no port of %s", id)
	}
	l := opensshtest.Proxy(t, at)
	r.links[id] = l
	return l, nil
}

func startSpare(t testing.TB, id string) {
	docker(t, "exec", "--detach", id, "sh", "/run/gputrain/sshd", "-D", "-p", sparePort)
}

// killSpare kills the server that the pool talks to, with those of its
// connections. The container's own is the first child of its init.
func killSpare(t testing.TB, id string) {
	docker(t, "exec", id, "sh", "-c", `read -r own others </proc/1/task/1/children
		more=1
		while [ $more = 1 ]; do
			more=0
			for d in /proc/[0-9]*; do
				read -r name <$d/comm && [ "$name" = sshd ] && [ $d != /proc/$own ] && kill -KILL ${d#/proc/} && more=1
			done 2>/dev/null
		done; true`)
}

// live returns the nodes that were not killed.
func (r *rig) live() []gputrain.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(r.pool.Nodes(), func(n gputrain.Node) bool { return r.ended[n.Rank] })
}

func (r *rig) isEnded(rank int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[rank]
}

func (r *rig) node(rank int) gputrain.Node { return r.pool.Nodes()[rank] }

func (r *rig) linkOf(rank int) *opensshtest.Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links[r.pool.Nodes()[rank].ID]
}

// inEach runs shell text in every container, beside the pool. Where memory is
// short, the kernel may choose that very shell, which is asked again.
func (r *rig) inEach(t testing.TB, text string) map[int]string {
	said := map[int]string{}
	for _, n := range r.live() {
		until(t, "memory in the container", func() bool {
			out, err := exec.Command("docker", "exec", n.ID, "sh", "-c", text).Output()
			said[n.Rank] = strings.TrimSpace(string(out))
			if e := (*exec.ExitError)(nil); errors.As(err, &e) && e.ExitCode() == 137 {
				return false
			}
			if err != nil {
				t.Errorf("in the container of node %d, %s: %v", n.Rank, text, err)
			}
			return true
		})
	}
	return said
}

// hold stops the bytes of all nodes once so many more have passed; letGo lets them go on.
func (r *rig) hold(after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark, r.gate = r.passed+after, make(chan struct{})
}

func (r *rig) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed >= r.mark
}

func (r *rig) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mark > 0 {
		r.mark = 0
		close(r.gate)
	}
}

func (r *rig) pass(n int) {
	r.mu.Lock()
	r.passed += int64(n)
	stop, gate := r.mark > 0 && r.passed >= r.mark, r.gate
	r.mu.Unlock()
	if stop {
		<-gate
	}
}

// stoppable is a connection that the rig can stop.
type stoppable struct {
	net.Conn
	r *rig
}

func (s *stoppable) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.r.pass(n)
	return n, err
}

func (s *stoppable) Write(p []byte) (int, error) {
	s.r.pass(len(p))
	return s.Conn.Write(p)
}

var (
	digits = regexp.MustCompile(`[0-9]+`)
	hashes = regexp.MustCompile(`[0-9a-f]{64}`)
	// A task's files stay until those of many can be removed at once. Whether it
	// still runs is seen by its processes.
	taskFile = regexp.MustCompile(`/t/((?:t[0-9]+-a|worker-)[0-9]+)\.([a-z]+)$`)
	// A worker's folder for its calls' scratch directories goes with the worker.
	workerScratch = regexp.MustCompile(`/scratch/worker-[0-9]+$`)
	// Directories for attempts are made ahead, so many at once, and empty.
	scratchAhead = regexp.MustCompile(`/s/[A-Z0-9]+-[0-9]+$`)
	// The supervisor's shells wait for the next task, and copy what the worker
	// prints. Nothing that a test runs has such a name.
	ownShell = regexp.MustCompile(`^(bash|cat)$`)
)

// A connection is a process of the SSH server. How many there are is seen at the
// end only: much at once takes more than one, which are kept for a while, and
// have the shorter name while nothing runs over them.
var (
	connection = regexp.MustCompile(`(?m)\bsshd: root(@notty)?$`)
	unused     = regexp.MustCompile(`(?m)\bsshd: root$`)
)

// connections returns how many there are, and over how many of them nothing runs.
func connections(t testing.TB, n gputrain.Node) (all, idle int) {
	top := docker(t, "top", n.ID, "-eo", "pid,args")
	return len(connection.FindAllString(top, -1)), len(unused.FindAllString(top, -1))
}

// look says what runs on a node, and what files are there, but for what
// differs each time: numbers, and the files of tasks that are over.
func (r *rig) look(t testing.TB, n gputrain.Node) string {
	var lines []string
	for i, line := range strings.Split(docker(t, "top", n.ID, "-eo", "pid,args"), "\n") {
		if line = strings.TrimLeft(line, " 0123456789"); i > 0 && !connection.MatchString(line) && !ownShell.MatchString(line) {
			lines = append(lines, "runs "+line)
		}
	}
	// What is just being removed, find complains of.
	for _, f := range strings.Fields(docker(t, "exec", n.ID, "sh", "-c", "find /root/.gputrain /tmp /run/gputrain 2>/dev/null; true")) {
		if !taskFile.MatchString(f) && !workerScratch.MatchString(f) && !scratchAhead.MatchString(f) {
			lines = append(lines, "has "+f)
		}
	}
	for i, l := range lines {
		lines[i] = digits.ReplaceAllString(hashes.ReplaceAllString(l, "HASH"), "#")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// wantAtRest has every node do something, and then be as it was before.
func (r *rig) wantAtRest(t testing.TB) {
	t.Helper()
	live := r.live()
	if len(live) == 0 {
		return
	}
	until(t, "nodes that are ready, but for those that were killed", func() bool {
		return !slices.ContainsFunc(r.pool.Nodes(), func(n gputrain.Node) bool {
			return (n.State == gputrain.NodeReady) == r.isEnded(n.Rank) || n.State == gputrain.NodeUnreachable
		})
	})
	if got, err := norm.Broadcast(r.pool, point{3, 4}); err != nil || len(got) != len(live) {
		t.Errorf("afterwards, calls: %v, %v", got, err)
	}
	if all, err := r.pool.Broadcast(gputrain.Cmd("echo", "on")); err != nil || len(all) != len(live) {
		t.Errorf("afterwards, commands: %v, %v", all, err)
	}
	for _, n := range live {
		var now string
		if !settles(func() bool { now = r.look(t, n); return now == r.rest[n.Rank] }) {
			t.Errorf("node %d is not as before:\n%s", n.Rank, difference(r.rest[n.Rank], now))
			r.rest[n.Rank] = now // said once
		}
	}
}

// wantLittleLeft sees that the connections that were needed for a while are closed. It has so many tasks run that the files of those before
// them must be gone. Of a task that was started over another connection, two empty files may stay.
func (r *rig) wantLittleLeft(t testing.TB) {
	t.Helper()
	live := r.live()
	if len(live) == 0 {
		return
	}
	const many = 40
	for range many {
		if _, err := r.pool.Broadcast(gputrain.Cmd("true")); err != nil {
			t.Error(err)
			return
		}
	}
	job := r.pool.Start(gputrain.Cmd("true"))
	job.Wait()
	newest, _ := strconv.Atoi(strings.TrimPrefix(job.ID(), "t"))
	old := newest - 2*many*len(live)
	for _, n := range live {
		// A worker, or the node's shell, that was started again while the first
		// connection had no room goes on over another one.
		if all, idle := 0, 0; !settles(func() bool { all, idle = connections(t, n); return all >= 1 && all <= 2 && idle == 0 }) {
			t.Errorf("node %d has %d connections, and nothing runs over %d of them", n.Rank, all, idle)
		}
	}
	for rank, dirs := range r.inEach(t, `find ~/.gputrain/pools/*/s -mindepth 1 -maxdepth 1`) {
		// Those made ahead, and those of the last tasks; a cut may leave as many again.
		if n := len(strings.Fields(dirs)); n > 4*many {
			t.Errorf("node %d has %d scratch directories", rank, n)
		}
	}
	for rank, files := range r.inEach(t, `find ~/.gputrain/pools/*/t -type f -size +0`) {
		for _, f := range strings.Fields(files) {
			m := taskFile.FindStringSubmatch(f)
			if m == nil {
				continue
			}
			if m[2] == "start" || m[2] == "status" {
				continue
			}
			var id int
			if n, _ := fmt.Sscanf(m[1], "t%d-", &id); n == 1 && id < old {
				t.Errorf("node %d still has %s; the newest task is t%d", rank, f, newest)
			}
		}
	}
}

// difference says what a has that b has not, and the other way round.
func difference(a, b string) string {
	var out strings.Builder
	was, is := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, l := range is {
		if i := slices.Index(was, l); i >= 0 {
			was = slices.Delete(was, i, i+1)
		} else {
			fmt.Fprintf(&out, "\tnew: %s\n", l)
		}
	}
	for _, l := range was {
		fmt.Fprintf(&out, "\tgone: %s\n", l)
	}
	return out.String()
}

// sums returns the hashes of what is below a folder of the nodes, by "rank/path".
func (r *rig) sums(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	for rank, said := range r.inEach(t, `cd ~/.gputrain/pools/*/work && [ -e `+dir+` ] && cd `+dir+` && find . -type f -exec sha256sum {} +; true`) {
		for line := range strings.Lines(said) {
			sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ./")
			all[fmt.Sprintf("%d/%s", rank, path)] = sum
		}
	}
	return all
}

// localSums returns the same of a folder here, by path.
func localSums(t testing.TB, dir string) map[string]string {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		sums[strings.TrimPrefix(path, dir+"/")] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return sums
}

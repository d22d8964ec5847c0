//go:build linux

package matrix

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
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
)

// A rig is a pool of containers, each behind a link with faults. The pool uses an additional OpenSSH server in each
// container, which can be killed. The death of the provider's own server would end the container.
type rig struct {
	pool   *gputrain.Compute
	shared string // /shared on every node

	mu      sync.Mutex
	retries []string                     // why attempts are repeated
	links   map[string]*opensshtest.Link // by container
	rest    map[int]string               // processes and files of a node at rest, by rank
	ended   map[int]bool                 // nodes that were killed
	passed  int64
	mark    int64         // the number of passed bytes at which all connections stop; 0 means never
	gate    chan struct{} // closed when they continue
}

const sparePort = "2222"

// opening limits how many rigs are opened at once, so that they do not slow each other.
var opening = make(chan bool, 2)

func openRig(t *testing.T, nodes int, spec gputrain.Spec, runArgs ...string) *rig {
	t.Helper()
	r := &rig{shared: t.TempDir(), links: map[string]*opensshtest.Link{}, rest: map[int]string{}, ended: map[int]bool{}}
	w := &e2etest.Wrapped{Provider: container.Config{RunArgs: append([]string{"--publish", "127.0.0.1::" + sparePort}, runArgs...)}}
	w.OnDial = func(ctx context.Context, i driver.Instance) (net.Conn, error) {
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
	spec.Secrets = map[string]gputrain.Secret{"MATRIX_SECRET": matrixSecret}
	spec.Mounts = []gputrain.Mount{{Source: r.shared, Target: "/shared"}}
	opening <- true
	defer func() { <-opening }()
	pool, err := gputrain.Open(t.Context(), w, spec, gputrain.WithResultsDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventRetry {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.retries = append(r.retries, fmt.Sprintf("%v: attempt %d at task %s on node %d: %v", e.Time.Format(time.TimeOnly), e.Attempt, e.Task, e.Node, e.Err))
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	r.pool = pool
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		e2etest.WantNothingOf(t, pool.ID())
	})
	if _, err := e2etest.Norm.Broadcast(pool, e2etest.Point{X: 3, Y: 4}); err != nil { // starts the worker
		t.Fatal(err)
	}
	for _, n := range r.live() {
		r.rest[n.Rank] = r.lookAtRest(t, n)
	}
	return r
}

// link returns the link to a container. The first call creates it.
func (r *rig) link(t testing.TB, id string) (*opensshtest.Link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[id]; l != nil {
		return l, nil
	}
	startSpare(t, id)
	at := e2etest.Docker(t, "port", id, sparePort+"/tcp")
	if at == "" {
		return nil, fmt.Errorf("no port of %s", id)
	}
	l := opensshtest.Proxy(t, at)
	r.links[id] = l
	return l, nil
}

func startSpare(t testing.TB, id string) {
	e2etest.Docker(t, "exec", "--detach", id, "sh", "/run/gputrain/sshd", "-D", "-p", sparePort)
}

// killSpare kills the server that the pool uses, and the servers of its connections. The container's own server is the
// first child of its init.
func killSpare(t testing.TB, id string) {
	e2etest.Docker(t, "exec", id, "sh", "-c", `read -r own others </proc/1/task/1/children
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

// inEach runs shell text in every container, independently of the pool. If memory is short, the kernel may kill that
// shell (137), or what would start it (126 and 128, of the container engine). Then inEach runs it again.
func (r *rig) inEach(t testing.TB, text string) map[int]string {
	said := map[int]string{}
	for _, n := range r.live() {
		e2etest.Until(t, "memory in the container", func() bool {
			out, err := exec.Command("docker", "exec", n.ID, "sh", "-c", text).Output()
			said[n.Rank] = strings.TrimSpace(string(out))
			if e := (*exec.ExitError)(nil); errors.As(err, &e) && slices.Contains([]int{126, 128, 137}, e.ExitCode()) {
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

// hold stops all connections once after more bytes have passed. letGo continues them.
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

// A stoppable is a connection that the rig can stop.
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
	// A task's files remain until those of many tasks can be removed at once. The processes show whether it still runs.
	taskFile = regexp.MustCompile(`/t/(t[0-9]+-a[0-9]+-[sd][0-9a-v]+|worker-[0-9]+)\.([a-z]+)$`)
	// A worker's folder for the scratch directories of its calls is removed with the worker.
	workerScratch = regexp.MustCompile(`/scratch/worker-[0-9]+$`)
	// Directories for attempts are created ahead, many at once, and empty.
	scratchAhead = regexp.MustCompile(`/s/[A-Z0-9]+-[0-9]+$`)
	// The supervisor's shells wait for the next task, and copy the output of the worker. No process of a test has such
	// a name.
	ownShell = regexp.MustCompile(`^(bash|cat)$`)
)

// connection matches processes of the SSH server. Their number is checked only at the end: concurrent work opens
// additional connections, which are kept for a while. An unused connection has the shorter name.
var (
	connection = regexp.MustCompile(`(?m)\bsshd: root(@notty)?$`)
	unused     = regexp.MustCompile(`(?m)\bsshd: root$`)
)

// connections returns the number of connections, and how many of them are unused.
func connections(t testing.TB, n gputrain.Node) (all, idle int) {
	top := e2etest.Docker(t, "top", n.ID, "-eo", "pid,args")
	return len(connection.FindAllString(top, -1)), len(unused.FindAllString(top, -1))
}

// look describes a node's processes and files, without what always differs: numbers, and the files of tasks that have
// ended.
func (r *rig) look(t testing.TB, n gputrain.Node) string {
	var lines []string
	for i, line := range strings.Split(e2etest.Docker(t, "top", n.ID, "-eo", "pid,args"), "\n") {
		if line = strings.TrimLeft(line, " 0123456789"); i > 0 && !connection.MatchString(line) && !ownShell.MatchString(line) {
			lines = append(lines, "runs "+line)
		}
	}
	// find reports an error for files that are just being removed.
	for _, f := range strings.Fields(e2etest.Docker(t, "exec", n.ID, "sh", "-c", "find /root/.gputrain /tmp /run/gputrain 2>/dev/null; true")) {
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

// lookAtRest is look once a node has been the same for a while: a shell that is about to become another program has its own name
// until then.
func (r *rig) lookAtRest(t testing.TB, n gputrain.Node) string {
	last := r.look(t, n)
	for same := 0; same < 2; {
		time.Sleep(200 * time.Millisecond)
		now := r.look(t, n)
		if same++; now != last {
			last, same = now, 0
		}
	}
	return last
}

// wantAtRest runs a call and a command on every node, and then checks that the node is as before.
func (r *rig) wantAtRest(t testing.TB) {
	t.Helper()
	live := r.live()
	if len(live) == 0 {
		return
	}
	e2etest.Until(t, "nodes that are ready, but for those that were killed", func() bool {
		return !slices.ContainsFunc(r.pool.Nodes(), func(n gputrain.Node) bool {
			return (n.State == gputrain.NodeReady) == r.isEnded(n.Rank) || n.State == gputrain.NodeUnreachable
		})
	})
	if got, err := e2etest.Norm.Broadcast(r.pool, e2etest.Point{X: 3, Y: 4}); err != nil || len(got) != len(live) {
		t.Errorf("afterwards, calls: %v, %v", got, err)
	}
	if all, err := r.pool.Broadcast(gputrain.Cmd("echo", "on")); err != nil || len(all) != len(live) {
		t.Errorf("afterwards, commands: %v, %v", all, err)
	}
	for _, n := range live {
		var now string
		if !e2etest.Settles(func() bool { now = r.look(t, n); return now == r.rest[n.Rank] }) {
			t.Errorf("node %d is not as before:\n%s", n.Rank, difference(r.rest[n.Rank], now))
			r.rest[n.Rank] = now // report it only once
		}
	}
}

// wantLittleLeft checks that additional connections are closed. It runs so many tasks that the files of earlier ones
// must be removed. A task that started over another connection may leave two empty files.
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
		// A worker, or the node's shell, that was restarted while the first connection was full, or not back yet, continues
		// over another one. If both do, nothing runs over the first, which stays.
		if all, idle := 0, 0; !e2etest.Settles(func() bool {
			all, idle = connections(t, n)
			return idle == 0 && (all == 1 || all == 2) || idle == 1 && (all == 2 || all == 3)
		}) {
			t.Errorf("node %d has %d connections, and nothing runs over %d of them", n.Rank, all, idle)
		}
	}
	for rank, dirs := range r.inEach(t, `find ~/.gputrain/pools/*/s -mindepth 1 -maxdepth 1`) {
		// Those created ahead, and those of the last tasks. A cut may leave as many again.
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

// difference describes the lines that only a or only b has.
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

// sums returns the hashes of the files below a folder of the nodes, by "rank/path".
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

// localSums returns the hashes of the files below a folder here, by path.
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

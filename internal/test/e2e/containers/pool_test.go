package containers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// meetingPort is the port of rank 0 in meet. Each container has its own ports.
const meetingPort = "29555"

// meet does what distributed training does first: rank 0 listens at the address that all ranks
// received, and the others connect. It returns which ranks connected, and by which of rank 0's
// names.
var meet = gputrain.Func("meet", func(ctx context.Context, aliases []string) ([]string, error) {
	n := gputrain.ThisNode(ctx)
	names := append([]string{n.MasterAddr, n.Pool + "-0"}, aliases...)
	if n.Rank > 0 {
		for _, name := range names {
			if err := visit(ctx, name, fmt.Sprintf("%d by %s", n.Rank, name)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	listener, err := net.Listen("tcp", ":"+meetingPort)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	defer listener.Close()
	var came []string
	for range (n.Nodes - 1) * len(names) {
		conn, err := listener.Accept()
		if err != nil {
			return came, errors.Join(context.Cause(ctx), err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err != nil {
			return came, err
		}
		came = append(came, strings.TrimSpace(line))
	}
	slices.Sort(came)
	return came, nil
})

// visit sends a line to rank 0, once rank 0 listens.
func visit(ctx context.Context, host, line string) error {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, meetingPort))
		if err == nil {
			defer conn.Close()
			_, err = fmt.Fprintln(conn, line)
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestContainerPool uses every feature of a pool with three containers.
func TestContainerPool(t *testing.T) {
	e2etest.NeedDocker(t)
	src, shared, results := t.TempDir(), t.TempDir(), t.TempDir()
	e2etest.WriteText(t, filepath.Join(src, "keep.py"), "print('kept')\n")
	e2etest.WriteText(t, filepath.Join(src, "drop.log"), "no\n")
	e2etest.WriteText(t, filepath.Join(shared, "given"), "from outside\n")

	pool := e2etest.OpenContainers(t, container.Config{Labels: map[string]string{"team": "red"}}, gputrain.Spec{
		Nodes: 3, VCPUs: 0.5, MemoryGiB: 0.5,
		Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}, {Source: src, Target: "/readonly", ReadOnly: true}},
		Image: gputrain.Image{
			Apt:     []string{"python3"}, // already in the image: no mirror is used
			Env:     map[string]string{"GREETING": "hello world"},
			Include: []string{src}, Exclude: []string{"*.log"},
			Setup: []string{`echo "$GREETING" >setup.txt`},
		},
	}, gputrain.WithResultsDir(results))
	nodes := pool.Nodes()

	t.Run("labels", func(t *testing.T) {
		for _, n := range nodes {
			got := e2etest.Docker(t, "inspect", "--format", `{{index .Config.Labels "gputrain.pool"}} {{index .Config.Labels "team"}}`, n.ID)
			if got != pool.ID()+" red" {
				t.Errorf("node %d has the labels %q", n.Rank, got)
			}
		}
		if got := e2etest.Docker(t, "network", "ls", "-q", "--filter", "label=gputrain.pool="+pool.ID(), "--filter", "label=team=red"); got == "" {
			t.Error("the network lacks the labels")
		}
	})
	t.Run("image", func(t *testing.T) {
		task := gputrain.Script(`cat setup.txt; ls "$SRC"; python3 "$SRC/keep.py"; echo "$GREETING"`)
		task.Env = map[string]string{"SRC": filepath.Base(src)}
		r, err := pool.Run(task)
		if err != nil || string(r.Stdout) != "hello world\nkeep.py\nkept\nhello world\n" {
			t.Errorf("got %q, %v", r.Stdout, err)
		}
	})
	t.Run("limits", func(t *testing.T) {
		r, err := pool.Run(gputrain.Script(`cd /sys/fs/cgroup; cat memory.max memory/memory.limit_in_bytes 2>/dev/null
			cat cpu.max cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us 2>/dev/null | tr '\n' ' '; echo`))
		if err != nil || strings.TrimSpace(strings.Join(strings.Fields(string(r.Stdout)), " ")) != "536870912 50000 100000" {
			t.Errorf("the cgroup's limit is %q, %v", r.Stdout, err)
		}
		if n := nodes[0]; n.MemoryGiB != 0.5 {
			t.Errorf("node 0 reports %g GiB", n.MemoryGiB)
		}
	})
	t.Run("mounts", func(t *testing.T) {
		_, err := pool.Broadcast(gputrain.Script(`grep -q outside /shared/given && echo $GPUTRAIN_RANK >/shared/rank-$GPUTRAIN_RANK &&
			! touch /readonly/x 2>/dev/null`))
		if err != nil {
			t.Error(err)
		}
		if got, _ := filepath.Glob(filepath.Join(shared, "rank-?")); len(got) != 3 {
			t.Errorf("the nodes wrote %v", got)
		}
	})
	t.Run("commands", func(t *testing.T) {
		r, err := pool.Run(gputrain.Cmd("python3", "-c", "import sys; print(sys.argv[1:])", "it's", "a  b"))
		if err != nil || string(r.Stdout) != `["it's", 'a  b']`+"\n" {
			t.Errorf("got %q, %v", r.Stdout, err)
		}
		all, err := pool.Broadcast(gputrain.Script(`cat /etc/hostname; echo "$GPUTRAIN_MASTER_ADDR $GPUTRAIN_NODES"`))
		for i, r := range all {
			if want := fmt.Sprintf("%s\n%s 3\n", nodes[i].Name, nodes[0].PrivateAddr); err != nil || string(r.Stdout) != want {
				t.Errorf("node %d said %q; want %q; %v", i, r.Stdout, want, err)
			}
		}
	})
	t.Run("functions", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		came, err := meet.Broadcast(pool.WithContext(ctx), []string{"node-0"})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, rank := range []string{"1", "2"} {
			for _, name := range []string{nodes[0].PrivateAddr, nodes[0].Name, "node-0"} {
				want = append(want, rank+" by "+name)
			}
		}
		slices.Sort(want)
		if !slices.Equal(came[0], want) {
			t.Errorf("got:  %q\nwant: %q", came[0], want)
		}
		sums, err := e2etest.Norm.Gather(pool, e2etest.Point{X: 3, Y: 4}, e2etest.Point{X: 2e6, Y: 0}, e2etest.Point{X: 1, Y: 1}, e2etest.Point{X: 0, Y: 2})
		if !errors.Is(err, e2etest.ErrTooFar) || !slices.Equal(sums, []float64{25, 0, 2, 4}) {
			t.Errorf("got %v, %v", sums, err)
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		e2etest.WriteText(t, filepath.Join(dir, "tree", "sub", "f"), "data")
		if err := pool.Upload(filepath.Join(dir, "tree"), "there"); err != nil {
			t.Fatal(err)
		}
		task := gputrain.Script(`cat there/sub/f >out.$GPUTRAIN_NODE_RANK; mkdir -p back; echo $GPUTRAIN_NODE_RANK >back/rank`)
		task.Outputs = []string{"out.*"}
		all, err := pool.Broadcast(task)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			if len(r.Outputs) != 1 || e2etest.ReadText(t, filepath.Join(r.OutputDir, fmt.Sprintf("out.%d", i))) != "data" {
				t.Errorf("node %d left %+v", i, r.Outputs)
			}
		}
		if err := pool.Download("back", dir); err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			if got := e2etest.ReadText(t, filepath.Join(dir, fmt.Sprint(i), "back", "rank")); got != fmt.Sprintf("%d\n", i) {
				t.Errorf("node %d sent back %q", i, got)
			}
		}
	})
	t.Run("kept", func(t *testing.T) {
		task := gputrain.Script(`echo $GPUTRAIN_NODE_RANK >new; mv new kept; [ $GPUTRAIN_NODE_RANK != 1 ] || exit 7; exec sleep 600`)
		task.Critical, task.Outputs = true, []string{"kept"}
		all, err := pool.Broadcast(task)
		var failed *gputrain.TaskError
		if !errors.As(err, &failed) || failed.Node.Rank != 1 || failed.ExitCode != 7 || len(all) != len(nodes) {
			t.Fatalf("%v", err)
		}
		for i, r := range all { // a share that had not begun has left nothing
			if (i == 1 || r.Outputs != nil) && e2etest.ReadText(t, filepath.Join(r.OutputDir, "kept")) != fmt.Sprintf("%d\n", i) {
				t.Errorf("node %d left %+v", i, r.Outputs)
			}
			if i != 1 && !errors.Is(r.Err, context.Canceled) {
				t.Errorf("node %d: %v", i, r.Err)
			}
		}
		dir := t.TempDir()
		if err := pool.Download("kept", dir, gputrain.From(gputrain.OnRank(1))); err != nil || e2etest.ReadText(t, filepath.Join(dir, "1", "kept")) != "1\n" || e2etest.Exists(filepath.Join(dir, "0")) {
			t.Errorf("from rank 1: %v", err)
		}
	})
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	e2etest.WantNothingOf(t, pool.ID())
	if left, _ := filepath.Glob(filepath.Join(results, "*", "outputs", "out.?")); len(left) != 3 {
		t.Errorf("after Close the results are %v", left)
	}
}

func TestContainersWithoutAnEngine(t *testing.T) {
	_, err := gputrain.Open(t.Context(), container.Config{Binary: "/nonexistent"}, gputrain.Spec{})
	if !errors.Is(err, gputrain.ErrUnavailable) || !strings.Contains(err.Error(), "set Binary") {
		t.Errorf("no command: %v", err)
	}
	e2etest.NeedDocker(t) // only the engine's command can report that its daemon is not running
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	_, err = gputrain.Open(t.Context(), container.Config{Binary: "docker"}, gputrain.Spec{})
	if !errors.Is(err, gputrain.ErrUnavailable) || !strings.Contains(err.Error(), "start the engine") {
		t.Errorf("no daemon: %v", err)
	}
}

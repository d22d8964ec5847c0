package gputrain_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// meetingPort is what rank 0 of meet listens at: each container has ports of its own.
const meetingPort = "29555"

// meet is what distributed training does first: rank 0 listens at the address
// that all were given, and the others connect. It returns who came, and by
// which of rank 0's names.
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

// visit says a line to rank 0, once that listens.
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

// TestContainerPool has three containers do everything that a pool can.
func TestContainerPool(t *testing.T) {
	needDocker(t)
	src, shared, results := t.TempDir(), t.TempDir(), t.TempDir()
	writeText(t, filepath.Join(src, "keep.py"), "print('kept')\n")
	writeText(t, filepath.Join(src, "drop.log"), "no\n")
	writeText(t, filepath.Join(shared, "given"), "from outside\n")

	pool := openContainers(t, container.Config{Labels: map[string]string{"team": "red"}}, gputrain.Spec{
		Nodes: 3, VCPUs: 0.5, MemoryGiB: 0.5,
		Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}, {Source: src, Target: "/readonly", ReadOnly: true}},
		Image: gputrain.Image{
			Apt:     []string{"python3"}, // the image has it: no mirror is asked
			Env:     map[string]string{"GREETING": "hello world"},
			Include: []string{src}, Exclude: []string{"*.log"},
			Setup: []string{`echo "$GREETING" >setup.txt`},
		},
	}, gputrain.WithResultsDir(results))
	nodes := pool.Nodes()

	t.Run("labels", func(t *testing.T) {
		for _, n := range nodes {
			got := docker(t, "inspect", "--format", `{{index .Config.Labels "gputrain.pool"}} {{index .Config.Labels "team"}}`, n.ID)
			if got != pool.ID()+" red" {
				t.Errorf("node %d has the labels %q", n.Rank, got)
			}
		}
		if got := docker(t, "network", "ls", "-q", "--filter", "label=gputrain.pool="+pool.ID(), "--filter", "label=team=red"); got == "" {
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
			t.Errorf("the cgroup says %q, %v", r.Stdout, err)
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
			t.Errorf("came: %q\nwant: %q", came[0], want)
		}
		sums, err := norm.Gather(pool, point{3, 4}, point{2e6, 0}, point{1, 1}, point{0, 2})
		if !errors.Is(err, errTooFar) || !slices.Equal(sums, []float64{25, 0, 2, 4}) {
			t.Errorf("got %v, %v", sums, err)
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		writeText(t, filepath.Join(dir, "tree", "sub", "f"), "data")
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
			if len(r.Outputs) != 1 || readText(t, filepath.Join(r.OutputDir, fmt.Sprintf("out.%d", i))) != "data" {
				t.Errorf("node %d left %+v", i, r.Outputs)
			}
		}
		if err := pool.Download("back", dir); err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			if got := readText(t, filepath.Join(dir, fmt.Sprint(i), "back", "rank")); got != fmt.Sprintf("%d\n", i) {
				t.Errorf("node %d sent back %q", i, got)
			}
		}
	})
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantNothingOf(t, pool.ID())
	if left, _ := filepath.Glob(filepath.Join(results, "*", "outputs", "out.?")); len(left) != 3 {
		t.Errorf("after Close the results are %v", left)
	}
}

func TestContainersWithoutAnEngine(t *testing.T) {
	_, err := gputrain.Open(t.Context(), container.Config{Binary: "/nonexistent"}, gputrain.Spec{})
	if !errors.Is(err, gputrain.ErrUnavailable) || !strings.Contains(err.Error(), "set Binary") {
		t.Errorf("no command: %v", err)
	}
	needDocker(t) // only an engine's command can say that its daemon is gone
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	_, err = gputrain.Open(t.Context(), container.Config{Binary: "docker"}, gputrain.Spec{})
	if !errors.Is(err, gputrain.ErrUnavailable) || !strings.Contains(err.Error(), "start the engine") {
		t.Errorf("no daemon: %v", err)
	}
}

// openContainers returns a pool of containers that ends with the test, and is
// then gone without a trace. They have Python, which Debian's own image lacks, if the
// image of scripts/container-image is here.
func openContainers(t testing.TB, cfg container.Config, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	if cfg.Image == "" && exec.Command("docker", "image", "inspect", container.HomeMadeImage).Run() == nil {
		cfg.Image = container.HomeMadeImage
	}
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(t.Context(), cfg, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		wantNothingOf(t, pool.ID())
	})
	return pool
}

// wantNothingOf asks the engine for what a pool has left, by label and by name.
// An id may also be the beginning of one.
func wantNothingOf(t testing.TB, id string) {
	t.Helper()
	for _, filter := range []string{"label=gputrain.pool=" + id, "name=" + id} {
		if left := docker(t, "ps", "--all", "--filter", filter, "--format", "{{.Names}} {{.Status}}"); left != "" {
			t.Errorf("containers are left:\n%s", left)
		}
		if left := docker(t, "network", "ls", "--filter", filter, "--format", "{{.Name}}"); left != "" {
			t.Errorf("networks are left:\n%s", left)
		}
	}
}

// docker runs the engine's command beside the pool, and returns what it prints.
func docker(t testing.TB, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("docker", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func writeText(t testing.TB, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

func readText(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

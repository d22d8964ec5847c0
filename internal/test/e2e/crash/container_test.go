//go:build unix

package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// linger writes its node's rank to a file. Its first attempt does not end by itself.
var linger = gputrain.Func("linger", func(ctx context.Context, file string) (int, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 0, err
	}
	n := gputrain.ThisNode(ctx)
	_, err = fmt.Fprintln(f, n.NodeRank)
	if err = errors.Join(err, f.Close()); err != nil || n.Attempt > 1 {
		return n.NodeRank, err
	}
	<-ctx.Done()
	return 0, ctx.Err()
})

// lingerer returns a command that does the same as linger.
func lingerer(file string) gputrain.Task {
	return gputrain.Script(`echo "$GPUTRAIN_NODE_RANK" >>` + file + `; [ "$GPUTRAIN_ATTEMPT" != 1 ] || exec sleep 600`)
}

// tasksOfALostContainerRunElsewhere loses nodes in every way in which containers can be lost, while commands and
// functions run on them.
func tasksOfALostContainerRunElsewhere(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, id string){
		"killed":    func(t *testing.T, id string) { e2etest.Docker(t, "kill", id) },
		"stopped":   func(t *testing.T, id string) { e2etest.Docker(t, "stop", "--time", "1", id) },
		"restarted": restart,
		// The SSH server is the first child of the container's init. Init ends with it, and so does the shell that
		// kills it, before that shell can report its exit.
		"sshd killed": func(t *testing.T, id string) {
			e2etest.Docker(t, "exec", "--detach", id, "sh", "-c", `read -r first others </proc/1/task/1/children; kill -KILL "$first"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "killed" {
				t.Skip("scripts/test -deep runs it: another way of losing a container runs")
			}
			t.Parallel()
			shared := t.TempDir()
			pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{MaxReplacements: -1,
				Nodes: 2, Concurrency: 4, Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}},
			})
			nodes := pool.Nodes()
			// Tasks go to the nodes in turn: each node gets a command and a function.
			tasks := []gputrain.Task{lingerer("/shared/0"), lingerer("/shared/1"), linger.Call("/shared/2"), linger.Call("/shared/3")}
			var jobs []*gputrain.Job
			for _, task := range tasks {
				jobs = append(jobs, pool.Start(task))
			}
			ran := func(i int) string { return filepath.Join(shared, fmt.Sprint(i)) }
			for i := range tasks {
				e2etest.Until(t, fmt.Sprint("task ", i), func() bool { return e2etest.Lines(ran(i)) == 1 })
			}

			lose(t, nodes[0].ID)
			for _, i := range []int{0, 2} {
				if r, err := jobs[i].Wait(); err != nil || r.Attempts != 2 || r.Node.Rank != 1 || e2etest.ReadText(t, ran(i)) != "0\n1\n" {
					t.Errorf("task %d: %d attempts, on node %d, %v; it ran on %q", i, r.Attempts, r.Node.Rank, err, e2etest.ReadText(t, ran(i)))
				}
			}
			if got := pool.Nodes()[0].State; got != gputrain.NodeLost {
				t.Errorf("node 0 is %v", got)
			}

			// Without any node there is an error instead of an endless wait.
			lose(t, nodes[1].ID)
			for _, i := range []int{1, 3} {
				if _, err := jobs[i].Wait(); !errors.Is(err, gputrain.ErrNodeLost) || e2etest.ReadText(t, ran(i)) != "1\n" {
					t.Errorf("task %d: %v; it ran on %q", i, err, e2etest.ReadText(t, ran(i)))
				}
			}
			if _, err := pool.Run(gputrain.Cmd("true")); !errors.Is(err, gputrain.ErrNodeLost) {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

// restart makes the engine stop a container and start it again. The pool may have removed the container in between, as
// the node was lost by then.
func restart(t *testing.T, id string) {
	t.Helper()
	out, err := exec.Command("docker", "restart", "--time", "1", id).CombinedOutput()
	gone := bytes.Contains(out, []byte("marked for removal")) || bytes.Contains(out, []byte("No such container"))
	if err != nil && !gone {
		t.Errorf("docker restart: %v\n%s", err, out)
	}
}

// pausedContainerGoesOn freezes a node until its connection is given up, and then lets it continue. Nothing is lost,
// and nothing is started again.
func pausedContainerGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: a dead connection is noticed after a minute")
	}
	shared := t.TempDir()
	states := make(chan string, 100)
	pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{
		Concurrency: 2, Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}},
	}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventNode {
			states <- e.State
		}
	}))
	await := func(state string) {
		t.Helper()
		for late := time.After(3 * time.Minute); ; {
			select {
			case s := <-states:
				if s == state {
					return
				}
			case <-late:
				t.Fatalf("the node does not become %s", state)
			}
		}
	}
	await("ready")
	const last = 20000 // number of lines, which are written meanwhile
	command := pool.Start(gputrain.Script(fmt.Sprintf(`echo x >>/shared/command
		i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done; until [ -e /shared/go ]; do sleep 0.05; done; echo end`, last)))
	function := pool.Start(attend.Call("/shared"))
	for _, name := range []string{"command", "function"} {
		e2etest.Until(t, name, func() bool { return e2etest.Exists(filepath.Join(shared, name)) })
	}

	id := pool.Nodes()[0].ID
	e2etest.Until(t, "a pause", func() bool { // pausing can fail while processes start and end
		out, err := exec.Command("docker", "pause", id).CombinedOutput()
		if err != nil {
			t.Logf("docker pause: %v: %s", err, out)
		}
		return err == nil
	})
	await("unreachable")
	e2etest.WriteText(t, filepath.Join(shared, "go"), "")
	e2etest.Docker(t, "unpause", id)
	await("ready")
	r, err := command.Wait()
	var want strings.Builder
	for i := range last {
		fmt.Fprintln(&want, i+1)
	}
	if string(r.Stdout) != want.String()+"end\n" || err != nil || r.Attempts != 1 {
		t.Errorf("the command wrote %d bytes in %d attempts, %v", r.StdoutBytes, r.Attempts, err)
	}
	if r, err := function.Wait(); err != nil || r.Attempts != 1 {
		t.Errorf("the function ran in %d attempts, %v", r.Attempts, err)
	}
	for _, name := range []string{"command", "function"} {
		if n := e2etest.Lines(filepath.Join(shared, name)); n != 1 {
			t.Errorf("the %s was started %d times", name, n)
		}
	}
}

// attend adds a line to a file when it runs, and waits until another file exists.
var attend = gputrain.Func("attend", func(ctx context.Context, dir string) (int, error) {
	f, err := os.OpenFile(filepath.Join(dir, "function"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintln(f, "x"); err != nil {
		return 0, err
	}
	for !e2etest.Exists(filepath.Join(dir, "go")) && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	return 0, errors.Join(ctx.Err(), f.Close())
})

func outOfMemoryInAContainer(t *testing.T) {
	pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{MemoryGiB: 0.25})
	wantOOM := func(what string, err error) {
		t.Helper()
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.Cause != gputrain.CauseOutOfMemory || !errors.Is(err, gputrain.ErrOutOfMemory) {
			t.Errorf("the %s ended with %v", what, err)
		}
	}
	_, err := pool.Run(gputrain.Cmd("python3", "-c", `x = b"x" * (1 << 30)`))
	wantOOM("command", err)
	_, err = e2etest.Allocate.Run(pool, 1<<10)
	wantOOM("function", err)
	if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
		t.Errorf("a call after that: %v, %v", got, err)
	}
	if r, err := pool.Run(gputrain.Cmd("python3", "-c", "print(len(b'x' * (1 << 20)))")); err != nil || string(r.Stdout) != "1048576\n" {
		t.Errorf("a command after that: %q, %v", r.Stdout, err)
	}
}

func fullDiskInAContainer(t *testing.T) {
	pool := e2etest.OpenContainers(t, container.Config{RunArgs: []string{"--tmpfs", "/root:size=64m,exec"}}, gputrain.Spec{})
	wantFull := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s ended with %v", what, err)
		}
	}
	// The output of a task is removed with the task, so there is space again.
	_, err := pool.Run(gputrain.Cmd("head", "-c", "200000000", "/dev/zero"))
	wantFull("a task that prints too much", err)
	if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
		t.Errorf("a call after that: %v, %v", got, err)
	}
	// A file remains.
	_, err = pool.Run(gputrain.Script("cat /dev/zero >big"))
	wantFull("a task that writes too much", err)
	_, err = pool.Run(gputrain.Cmd("head", "-c", "1000000", "/dev/zero"))
	wantFull("a task that finds no room", err)
	e2etest.Docker(t, "exec", pool.Nodes()[0].ID, "sh", "-c", "rm ~/.gputrain/pools/*/work/big")
	if r, err := pool.Run(gputrain.Cmd("echo", "room")); err != nil || string(r.Stdout) != "room\n" {
		t.Errorf("once there is room: %q, %v", r.Stdout, err)
	}
}

func killedWorkerIsReplaced(t *testing.T) {
	began := make(chan bool, 1)
	pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{Concurrency: 2}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventTask && e.State == "started" && e.Name == "hangs" {
			began <- true
		}
	}))
	worker, err := pid.Run(pool, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	call := pool.Start(e2etest.Hang.With(gputrain.Task{Name: "hangs"}).Call(struct{}{}))
	<-began
	if _, err := pool.Run(gputrain.Script(fmt.Sprint("kill -KILL ", worker))); err != nil {
		t.Fatal(err)
	}
	_, err = call.Wait()
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.Cause != gputrain.CauseWorkerLost || te.Signal != "KILL" {
		t.Errorf("the call ended with %v", err)
	}
	if next, err := pid.Run(pool, struct{}{}); err != nil || next == worker {
		t.Errorf("the next worker is %d after %d, %v", next, worker, err)
	}
}

var pid = gputrain.Func("pid", func(context.Context, struct{}) (int, error) { return os.Getpid(), nil })

//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// linger notes in a file where it runs. Its first attempt does not end by itself.
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

// lingerer is a command that does what linger does.
func lingerer(file string) gputrain.Task {
	return gputrain.Script(`echo "$GPUTRAIN_NODE_RANK" >>` + file + `; [ "$GPUTRAIN_ATTEMPT" != 1 ] || exec sleep 600`)
}

// TestTasksOfALostContainerRunElsewhere loses nodes in every way in which
// containers are lost, while commands and functions run on them.
func TestTasksOfALostContainerRunElsewhere(t *testing.T) {
	needDocker(t)
	for name, lose := range map[string]func(t *testing.T, id string){
		"killed":    func(t *testing.T, id string) { docker(t, "kill", id) },
		"stopped":   func(t *testing.T, id string) { docker(t, "stop", "--time", "1", id) },
		"restarted": func(t *testing.T, id string) { docker(t, "restart", "--time", "1", id) },
		// The SSH server is the first child of the container's init, which ends with it.
		"sshd killed": func(t *testing.T, id string) {
			docker(t, "exec", id, "sh", "-c", `read -r first others </proc/1/task/1/children; kill -KILL "$first"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := t.TempDir()
			pool := openContainers(t, container.Config{}, gputrain.Spec{
				Nodes: 2, Concurrency: 4, Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}},
			})
			nodes := pool.Nodes()
			// Tasks go to the nodes in turn: each has a command and a function.
			tasks := []gputrain.Task{lingerer("/shared/0"), lingerer("/shared/1"), linger.Call("/shared/2"), linger.Call("/shared/3")}
			var jobs []*gputrain.Job
			for _, task := range tasks {
				jobs = append(jobs, pool.Start(task))
			}
			ran := func(i int) string { return filepath.Join(shared, fmt.Sprint(i)) }
			for i := range tasks {
				until(t, fmt.Sprint("task ", i), func() bool { return lines(ran(i)) == 1 })
			}

			lose(t, nodes[0].ID)
			for _, i := range []int{0, 2} {
				if r, err := jobs[i].Wait(); err != nil || r.Attempts != 2 || r.Node.Rank != 1 || readText(t, ran(i)) != "0\n1\n" {
					t.Errorf("task %d: %d attempts, on node %d, %v; it ran on %q", i, r.Attempts, r.Node.Rank, err, readText(t, ran(i)))
				}
			}
			if got := pool.Nodes()[0].State; got != gputrain.NodeLost {
				t.Errorf("node 0 is %v", got)
			}

			// Without any node there is an error, and no wait without end.
			lose(t, nodes[1].ID)
			for _, i := range []int{1, 3} {
				if _, err := jobs[i].Wait(); !errors.Is(err, gputrain.ErrNodeLost) || readText(t, ran(i)) != "1\n" {
					t.Errorf("task %d: %v; it ran on %q", i, err, readText(t, ran(i)))
				}
			}
			if _, err := pool.Run(gputrain.Cmd("true")); !errors.Is(err, gputrain.ErrNodeLost) {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

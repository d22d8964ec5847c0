//go:build linux

package matrix

import (
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
)

// A releaseTime says when held work is released.
type releaseTime int

const (
	whenever releaseTime = iota // before or after the end of the fault, at random
	early                       // during the fault, which ends when all results have arrived
	never                       // the fault ends the work. Copies are released: they notice the fault only then
)

// A matrixFault is one kind of fault.
type matrixFault struct {
	name     string
	strike   func(c *combination)
	mend     func(c *combination)
	released releaseTime

	// want returns what is wrong with the outcome of one piece, or "". hits returns what is wrong with the number of
	// pieces that failed or ran again.
	want func(c *combination, o outcome) string
	hits func(c *combination, n int) string

	nodes     int
	shapes    []workShape
	spec      gputrain.Spec
	runArgs   []string
	hogs      bool // one held piece uses more memory than available
	fillsDisk bool
	apart     bool // each kind of work has its own pool
	idle      bool // the fault mostly waits
}

// once is the want of a fault that must not affect the work.
func once(_ *combination, o outcome) string {
	if o.err != nil || o.attempts != 1 {
		return "want success, in one attempt"
	}
	return ""
}

func none(_ *combination, n int) string {
	if n > 0 {
		return "want none"
	}
	return ""
}

func some(_ *combination, n int) string {
	if n == 0 {
		return "want some: the fault missed"
	}
	return ""
}

var allShapes = []workShape{shapeSingle, shapeGather, shapeBroadcast}

// blackout is the duration of a black hole.
const blackout = 30 * time.Second

var matrixFaults = []*matrixFault{
	{
		// All results arrive, each once.
		name: "black hole", nodes: 2, shapes: allShapes, apart: true, idle: true,
		strike: func(c *combination) {
			for _, n := range c.someNodes() {
				c.r.linkOf(n.Rank).Blackhole(true)
			}
			time.Sleep(blackout)
		},
		mend: func(c *combination) {
			for _, n := range c.r.live() {
				c.r.linkOf(n.Rank).Blackhole(false)
			}
		},
		want: once, hits: none,
	},
	{
		// Single and gathered tasks run again on another node, as long as there is one. A broadcast's share, or a copy,
		// belongs to one node only.
		name: "node killed", nodes: 4, shapes: []workShape{shapeSingle, shapeGather, shapeBroadcast, shapeLast}, apart: true,
		strike: func(c *combination) {
			lost := []gputrain.Node{c.r.node(c.target)}
			if c.shape == shapeLast {
				lost = c.r.live()
			}
			for _, n := range lost {
				e2etest.Docker(c.t, "kill", n.ID)
				c.r.mu.Lock()
				c.r.ended[n.Rank] = true
				c.r.mu.Unlock()
			}
		},
		want: func(c *combination, o outcome) string {
			lost := errors.Is(o.err, gputrain.ErrNodeLost)
			te, isTask := errors.AsType[*gputrain.TaskError](o.err)
			switch {
			case c.kind.transfer:
				if o.err == nil { // the copy had ended before
					return ""
				}
				if !lost || !strings.Contains(o.err.Error(), fmt.Sprintf("node %d: ", c.target)) {
					return "want ErrNodeLost, which names the node"
				}
			case c.kind.stream && lost && c.shape != shapeLast: // a stream that has begun cannot begin again elsewhere
				if te == nil || te.Node.Rank != c.target {
					return "want success: another node was lost"
				}
			case c.kind.stream && c.shape == shapeSingle:
				return "want ErrNodeLost: its values were on their way"
			case c.shape == shapeLast || c.shape == shapeBroadcast && o.node == c.target:
				if !lost || !isTask || te.Cause != gputrain.CauseNodeLost || te.Node.Rank != o.node {
					return "want ErrNodeLost, as the task's error"
				}
			case o.err != nil || o.attempts > 2 || o.node == c.target && o.attempts > 1:
				return "want success, on another node if this one was lost"
			}
			return ""
		},
		hits: func(c *combination, n int) string {
			if c.shape != shapeGather && n > 1 || n == 0 && !c.kind.transfer {
				return "want one, and some of a gather"
			}
			return ""
		},
	},
	{
		// All results arrive, each once.
		name: "connection reset", nodes: 2, shapes: allShapes,
		strike: func(c *combination) {
			for cuts := c.rng.IntN(3); cuts >= 0; cuts-- {
				for _, n := range c.someNodes() {
					c.r.linkOf(n.Rank).Cut()
				}
				time.Sleep(time.Duration(c.rng.IntN(100)) * time.Millisecond)
			}
		},
		want: once, hits: none,
	},
	{
		// All results arrive, each once.
		name: "sshd killed", nodes: 2, shapes: allShapes,
		strike: func(c *combination) {
			for _, n := range c.r.live() {
				killSpare(c.t, n.ID)
			}
			time.Sleep(time.Duration(c.rng.IntN(500)) * time.Millisecond)
		},
		mend: func(c *combination) {
			for _, n := range c.r.live() {
				startSpare(c.t, n.ID)
			}
		},
		want: once, hits: none,
	},
	{
		// Calls that ran in the worker fail with it, or run again if their task allows it.
		name: "worker killed", nodes: 2, shapes: allShapes,
		strike: func(c *combination) {
			e2etest.Docker(c.t, "exec", c.r.node(c.target).ID, "sh", "-c", killWorkers)
			// If no call was running, the next one may be sent to the dead worker, and fail.
			c.also = func() {
				e2etest.Until(c.t, "calls that find a worker", func() bool {
					_, err := e2etest.Norm.Broadcast(c.r.pool, e2etest.Point{X: 3, Y: 4})
					if te, ok := errors.AsType[*gputrain.TaskError](err); err != nil && (!ok || te.Cause != gputrain.CauseWorkerLost) {
						c.t.Errorf("a call after the worker's death: %v", err)
					}
					return err == nil
				})
			}
		},
		want: func(c *combination, o outcome) string {
			if !c.kind.function {
				return once(c, o)
			}
			te, _ := errors.AsType[*gputrain.TaskError](o.err)
			switch {
			case o.err == nil && o.attempts <= 1+c.retries(o.piece):
				return ""
			case te == nil || te.Cause != gputrain.CauseWorkerLost || te.Signal != "KILL":
				return "want success, or CauseWorkerLost by SIGKILL"
			case c.retries(o.piece) > 0:
				return "want another attempt"
			case te.Node.Rank != c.target:
				return "this node's worker was not killed"
			}
			return ""
		},
		hits: func(c *combination, n int) string {
			switch {
			case !c.kind.function:
				return none(c, n)
			case c.shape == shapeGather && n > 8:
				return "no more ran there at once"
			case c.shape != shapeGather && n != 1:
				return "want one"
			}
			return some(c, n)
		},
	},
	{
		name: "cancelled", nodes: 2, shapes: allShapes, released: never,
		strike: func(c *combination) { c.work.cancel() },
		want: func(c *combination, o outcome) string {
			te, _ := errors.AsType[*gputrain.TaskError](o.err)
			switch {
			case o.err == nil:
				return ""
			case !errors.Is(o.err, context.Canceled):
				return "want context.Canceled"
			case !c.kind.transfer && (te == nil || te.Cause != gputrain.CauseCancelled):
				return "want CauseCancelled"
			}
			return ""
		},
		hits: some,
	},
	{
		// Operations that need the disk fail with an error that names it. All others succeed.
		name: "disk full", nodes: 2, shapes: allShapes, released: early, fillsDisk: true,
		runArgs: []string{"--tmpfs", "/root:size=96m,exec"},
		strike: func(c *combination) {
			if c.kind.name == "download" {
				return // a download has its full disk on this machine
			}
			c.r.inEach(c.t, `cat /dev/zero >/root/filler 2>/dev/null; true`)
		},
		mend: func(c *combination) { c.r.inEach(c.t, `rm -f /root/filler`) },
		want: func(c *combination, o outcome) string {
			te, _ := errors.AsType[*gputrain.TaskError](o.err)
			switch {
			case o.err == nil:
				return ""
			case !strings.Contains(strings.ToLower(o.err.Error()), "no space left on device"):
				return "want an error that names the disk"
			case c.kind.transfer && !errors.Is(o.err, syscall.ENOSPC):
				return "want ENOSPC"
			case !c.kind.transfer && te == nil:
				return "want a TaskError"
			}
			return ""
		},
		hits: some,
	},
	{
		// The process that used too much memory fails. If it was the worker, its other calls fail too.
		name: "out of memory", nodes: 2, shapes: allShapes, released: early, hogs: true,
		spec: gputrain.Spec{MemoryGiB: 0.3},
		strike: func(c *combination) {
			if !c.kind.transfer {
				return // the work itself uses too much
			}
			hog := gputrain.Cmd("python3", "-c", `x = b"x" * (1 << 30)`)
			if c.rng.IntN(2) == 0 {
				hog = e2etest.Allocate.Call(1 << 10)
			}
			job := c.r.pool.Start(hog)
			c.also = func() {
				if r, err := job.Wait(); !errors.Is(err, gputrain.ErrOutOfMemory) {
					c.t.Errorf("the task that took too much memory on node %d ended with %v", r.Node.Rank, err)
				}
			}
		},
		want: func(c *combination, o outcome) string {
			te, _ := errors.AsType[*gputrain.TaskError](o.err)
			retried := c.kind.function && o.attempts <= 1+c.retries(o.piece)
			switch {
			case o.err == nil && (o.attempts == 1 || retried):
				return ""
			case c.kind.transfer || te == nil || te.Cause != gputrain.CauseOutOfMemory:
				return "want success, or CauseOutOfMemory"
			}
			return ""
		},
		hits: func(c *combination, n int) string {
			switch {
			case c.kind.transfer:
				return none(c, n)
			case c.kind.function && c.shape == shapeGather && n > 16: // a hog that is retried kills another worker
				return "no more ran there at once"
			case !c.kind.function && c.shape == shapeGather && n != 1:
				return "want the one that took it"
			}
			return some(c, n)
		},
	},
}

// killWorkers is shell text that kills the workers of a node. It ignores one that ends by itself meanwhile.
const killWorkers = `for f in $(grep -lsF GPUTRAIN_TASK=worker- /proc/[0-9]*/environ); do p=${f%/environ}; kill -KILL ${p#/proc/} || [ ! -e $p ] || exit 1; done`

// No error but that of a process that is gone is ignored.
func TestKillWorkers(t *testing.T) {
	bin := t.TempDir()
	e2etest.WriteText(t, filepath.Join(bin, "grep"), "#!/bin/sh\necho \"$FOUND\"\n")
	if err := os.Chmod(filepath.Join(bin, "grep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for found, fails := range map[string]bool{"": false, "/proc/999999999/environ": false, bin + "/environ": true} {
		cmd := exec.Command("/bin/sh", "-c", killWorkers)
		cmd.Env = []string{"PATH=" + bin, "FOUND=" + found}
		if out, err := cmd.CombinedOutput(); (err != nil) != fails {
			t.Errorf("%q: %v: %s", found, err, out)
		}
	}
}

// someNodes returns the target of the fault, or all nodes, at random.
func (c *combination) someNodes() []gputrain.Node {
	if c.rng.IntN(2) == 0 {
		return c.r.live()
	}
	return []gputrain.Node{c.r.node(c.target)}
}

//go:build unix

package gangs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A meeting is a gang of functions. Each adds a line to a file. In the attempt in which they succeed, all meet over TCP.
type meeting struct {
	Dir string
	// Fail is what node 1 does in the first attempt: "panic", "error" or "exit"; "stubborn" also keeps node 0 from ending.
	Fail string
}

// meet returns the number of nodes that rank 0 has met.
var meet = gputrain.Func("gangs/meet", func(ctx context.Context, m meeting) (int, error) {
	n := gputrain.ThisNode(ctx)
	if err := note(m.Dir, fmt.Sprintf("%d %d of %d from %q", n.Attempt, n.Rank, n.Nodes, filepath.Base(n.Resume))); err != nil {
		return 0, err
	}
	gputrain.ReportStep(ctx, gputrain.Step{N: int64(n.Attempt), Of: 2})
	if n.Attempt == 1 && m.Fail != "" {
		return failAs(ctx, m, n)
	}
	return met(ctx, n, filepath.Join(m.Dir, "address"))
})

// failAs is the end of a node's call in the first attempt. Node 1 fails after node 0 has saved a checkpoint.
func failAs(ctx context.Context, m meeting, n gputrain.NodeInfo) (int, error) {
	saved := filepath.Join(m.Dir, "saved")
	if n.Rank == 0 {
		tmp := filepath.Join(n.Checkpoints, ".tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Rename(tmp, filepath.Join(n.Checkpoints, "step-1")), os.WriteFile(saved, nil, 0o600)); err != nil {
			return 0, err
		}
		if m.Fail == "stubborn" {
			select {}
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for ctx.Err() == nil && !e2etest.Exists(saved) {
		time.Sleep(20 * time.Millisecond)
	}
	switch m.Fail {
	case "panic":
		panic("the reactor")
	case "exit":
		os.Exit(7)
	}
	return 0, errors.New("it is broken")
}

// met has all ranks but 0 dial rank 0, which counts them.
func met(ctx context.Context, n gputrain.NodeInfo, file string) (int, error) {
	if n.Rank > 0 {
		for {
			addr, _ := os.ReadFile(file)
			if nc, err := net.Dial("tcp", string(addr)); err == nil {
				return n.Rank, nc.Close()
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(n.MasterAddr, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if err := os.WriteFile(file+".new", []byte(l.Addr().String()), 0o600); err != nil {
		return 0, err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return 0, err
	}
	for i := range n.Nodes - 1 {
		nc, err := l.Accept()
		if err != nil {
			return i, err
		}
		nc.Close()
	}
	return n.Nodes, nil
}

func TestFunctions(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	r, err := pool.Train(named("x", meet.Call(meeting{Dir: string(d)})))
	if err != nil {
		t.Fatal(err)
	}
	for i, rank := range r.Ranks {
		want := i
		if i == 0 {
			want = 3
		}
		if got, err := meet.Value(rank); err != nil || got != want || rank.Node.Rank != i {
			t.Errorf("rank %d: %d, %v", i, got, err)
		}
	}
	d.want(t, `1 0 of 3 from "."`, `1 1 of 3 from "."`, `1 2 of 3 from "."`)
	if r.Step != 1 {
		t.Errorf("step %d", r.Step)
	}
}

// A function that fails ends all, also one that ignores its context, and the next attempt works.
func TestFunctionsThatFail(t *testing.T) {
	slow(t)
	for how, want := range map[string]gputrain.Cause{
		"panic": gputrain.CausePanic, "error": gputrain.CauseFunction, "exit": gputrain.CauseWorkerLost, "stubborn": gputrain.CauseFunction,
	} {
		t.Run(how, func(t *testing.T) {
			d := newDiary(t)
			pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
			training := named("x", meet.Call(meeting{string(d), how}))
			training.Restarts = 1
			training.Task.Checkpoints = gputrain.Checkpoints{Every: time.Second}
			r, err := pool.Train(training)
			if err != nil || len(r.Attempts) != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			root := failure(t, r.Attempts[0].Err).Failures[0]
			if root.Cause != want || root.Rank != 1 || root.Node.Rank != 1 || root.Step != 1 && how != "exit" { // which loses what was to be sent
				t.Errorf("%+v", root)
			}
			if how == "panic" && (!strings.Contains(root.Error(), "the reactor") || root.Stack == "") {
				t.Errorf("%v", root)
			}
			if n, err := meet.Value(r.Ranks[0]); n != 2 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			d.want(t, `1 0 of 2 from "."`, `1 1 of 2 from "."`, `2 0 of 2 from "step-1"`, `2 1 of 2 from "step-1"`)
			if filepath.Base(r.Checkpoint) != "step-1" || r.Attempts[1].Resumed != "step-1" {
				t.Errorf("%+v", r)
			}
			if n, err := e2etest.Norm.Broadcast(pool, e2etest.Point{X: 1}); err != nil || len(n) != 2 {
				t.Errorf("%v, %v", n, err)
			}
		})
	}
}

// leave starts a process in a session of its own in the first attempt, and fails. Later it says whether that process lives.
var leave = gputrain.Func("gangs/leave", func(ctx context.Context, dir string) (bool, error) {
	n := gputrain.ThisNode(ctx)
	file := filepath.Join(dir, fmt.Sprint("pid", n.Rank))
	if n.Attempt == 1 {
		out, err := exec.Command("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!").Output()
		if err != nil {
			return false, err
		}
		if err := os.WriteFile(file, out, 0o600); err != nil {
			return false, err
		}
		for ctx.Err() == nil && !(e2etest.Exists(filepath.Join(dir, "pid0")) && e2etest.Exists(filepath.Join(dir, "pid1"))) {
			time.Sleep(20 * time.Millisecond)
		}
		return false, errors.New("it is broken")
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline") // empty for a zombie
	return err == nil && len(state) > 0, nil
})

// What functions of an older attempt have started does not live in the next one.
func TestFunctionsLeaveNothing(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("the system has no /proc")
	}
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", leave.Call(string(d)))
	training.Restarts = 1
	r, err := pool.Train(training)
	if err != nil {
		t.Fatal(err)
	}
	for _, rank := range r.Ranks {
		if lives, err := leave.Value(rank); err != nil || lives {
			t.Errorf("rank %d: a process of the first attempt lives: %t, %v", rank.Index, lives, err)
		}
	}
}

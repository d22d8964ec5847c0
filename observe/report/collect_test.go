package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A fakePool answers scripts.
type fakePool struct {
	answer func(mark string) string
	hangs  bool
	err    error

	mu    sync.Mutex
	ranks []int
}

func (p *fakePool) ID() string { return pool }

func (p *fakePool) Shell(ctx context.Context, rank int, stdin io.Reader, stdout, stderr io.Writer) error {
	p.mu.Lock()
	p.ranks = append(p.ranks, rank)
	p.mu.Unlock()
	text, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	if p.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if p.answer != nil {
		io.WriteString(stdout, p.answer(regexp.MustCompile(`gputrain-[A-Z0-9]+`).FindString(string(text))))
	}
	return p.err
}

func TestCollection(t *testing.T) {
	run := sampleRun()
	run.Nodes[0].State = "ready" // a task has failed on it
	run.Nodes[1].State = "ready" // nothing has
	b := bundleOf(run)
	node := &fakePool{err: errors.New("exit code 1"), answer: func(mark string) string {
		return "Welcome!\n" + mark + " dmesg.txt\nOut of memory: Killed process 77 (python3)\n" + mark + " exit 0\n\n" + mark + " ps.txt\nUSER PID COMMAND\nroot 1 python3 --weights /data/private.bin\nroot 2 sh\n" +
			mark + " exit 0\n" + mark + " dmesg.txt\nonce more\n" + mark + " unknown.txt\nx"
	}}
	b.pool = node
	_, texts := files(t, b)
	folder := nodeFolder(key(0), 0)
	if got := texts[folder+"/dmesg.txt"]; got != "Out of memory: Killed process 77 (python3)\n" {
		t.Errorf("dmesg.txt is %q", got)
	}
	if got := texts[folder+"/ps.txt"]; got != "USER PID COMMAND\nroot 1 python3 [arguments redacted]\nroot 2 sh\n" {
		t.Errorf("ps.txt is %q", got)
	}
	if fmt.Sprint(node.ranks) != "[0]" {
		t.Errorf("asked were %v", node.ranks)
	}
	for _, want := range []string{folder + ": commands: exit code 1", nodeFolder(key(2), 2) + ": commands: not asked: it is lost"} {
		if !strings.Contains(texts["MISSING.txt"], want) {
			t.Errorf("MISSING.txt lacks %q:\n%s", want, texts["MISSING.txt"])
		}
	}
}

func TestNodesThatAreNotAsked(t *testing.T) {
	run := sampleRun()
	run.Nodes[0].State, run.Nodes[0].Pool = "ready", "another"
	b := bundleOf(run)
	node := &fakePool{}
	b.pool = node
	if _, texts := files(t, b); node.ranks != nil || !strings.Contains(texts["MISSING.txt"], "it is of another pool") {
		t.Errorf("asked were %v:\n%s", node.ranks, texts["MISSING.txt"])
	}
}

func TestNodesOutputIsBounded(t *testing.T) {
	run := sampleRun()
	run.Nodes[0].State = "ready"
	b := bundleOf(run)
	b.pool = &fakePool{answer: func(mark string) string { return "\n" + mark + " dmesg.txt\n" + strings.Repeat("x\n", mostNodeOutput) }}
	_, texts := files(t, b)
	if n := len(texts[nodeFolder(key(0), 0)+"/dmesg.txt"]); n > mostNodeOutput || n < mostNodeOutput/2 || !strings.Contains(texts["MISSING.txt"], "cut after 1048576 bytes") {
		t.Errorf("%d bytes; MISSING.txt:\n%s", n, texts["MISSING.txt"])
	}
}

func TestManyNodes(t *testing.T) {
	run := observe.Run{Pools: []observe.Pool{{ID: pool}}}
	for n := range 300 {
		run.Nodes = append(run.Nodes, observe.Node{Node: gputrain.Node{Rank: n}, Key: key(n), Pool: pool, State: "ready", Err: "bad"})
	}
	b := bundleOf(run)
	node := &fakePool{}
	b.pool = node
	_, texts := files(t, b)
	if len(node.ranks) != mostAsked || !strings.Contains(texts["MISSING.txt"], "100 more nodes have no folder") || !strings.Contains(texts["MISSING.txt"], "64 others were") {
		t.Errorf("asked were %d:\n%.1000s", len(node.ranks), texts["MISSING.txt"])
	}
}

func TestProcessesWithoutArguments(t *testing.T) {
	for in, want := range map[string]string{
		"USER PID %CPU COMMAND\nroot 1 0.0 /sbin/init splash\n":                        "USER PID %CPU COMMAND\nroot 1 0.0 /sbin/init [arguments redacted]",
		"PID   USER     TIME  COMMAND\n    1 root      0:00 python train.py --key abc": "PID   USER     TIME  COMMAND\n1 root 0:00 python [arguments redacted]",
		"usage: ps\nsomething --password x":                                            "2 lines in a form that is not known, left out because of their arguments",
		"":                                                                             "1 line in a form that is not known, left out because of their arguments",
	} {
		if got := withoutArguments(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

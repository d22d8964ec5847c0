package gputrain

import (
	"bytes"
	"context"
	"testing"

	"github.com/gputrain/gputrain/internal/bubble"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// divided returns a process whose stdout is shown in a buffer.
func divided(t *testing.T) (*workerOutput, *bytes.Buffer) {
	t.Helper()
	var shown bytes.Buffer
	p := &pool{out: newOutput(options{stdout: &shown}, &redactor{}), results: newResultsDir("p", t.TempDir(), "", Limits{})}
	return newWorkerOutput(&poolNode{p: p, super: &supervisor.Node{}}, "worker-1"), &shown
}

func callOf(w *workerOutput, name string) *unit {
	return &unit{id: name, label: name, attempts: 1, batch: &batch{c: &Compute{p: w.n.p}}}
}

// answered is how a call has ended when the process had printed so much to stdout.
func answered(stdout int64) worker.Stats {
	return worker.Stats{Answered: true, Printed: worker.Printed{stdout, 0}}
}

func (w *workerOutput) say(text string) {
	for _, b := range []byte(text) { // whatever the pieces are in which it comes
		w.streams[0].Write([]byte{b})
	}
}

// Output is divided by where it stands, however late it comes.
func TestOutputIsDividedByOffset(t *testing.T) {
	w, shown := divided(t)
	w.say("early\n\x00\x01gputrain-no\n" + worker.OutputMark)
	a := w.begin(callOf(w, "a"))
	at, waits := w.leave(a, answered(4), false)
	if _, all, _ := w.reached(at); all || !waits {
		t.Errorf("4 bytes are to come: all=%v, waits=%v", all, waits)
	}
	b := w.begin(callOf(w, "b"))
	w.say("a 1\nb 1\n")
	if _, all, _ := w.reached(at); !all {
		t.Error("they have come")
	}
	var r Result
	if err := a.close(&r, true); err != nil || string(r.Stdout) != "a 1\n" || r.Truncated {
		t.Errorf("a has %q, truncated=%v, %v", r.Stdout, r.Truncated, err)
	}
	c := w.begin(callOf(w, "c")) // beside b
	w.say("b or c\n")
	if _, waits := w.leave(c, answered(17), false); waits {
		t.Error("c waits, and b goes on")
	}
	w.say("x\nb 2\n")
	var rc Result
	if err := c.close(&rc, true); err != nil || len(rc.Stdout) > 0 {
		t.Errorf("c has %q, %v", rc.Stdout, err)
	}
	if _, waits := w.leave(b, answered(21), false); !waits {
		t.Error("b is the last, and does not wait")
	}
	var rb Result
	if err := b.close(&rb, true); err != nil || len(rb.Stdout) > 0 {
		t.Errorf("b has %q, %v", rb.Stdout, err)
	}
	w.say("late\n")
	w.end()
	want := "[node 0] early\n[node 0] gputrain-no\n[a] a 1\n[b] b 1\n[node 0] b or c\n[node 0] x\n[b] b 2\n[node 0] late\n"
	if got := shown.String(); got != want {
		t.Errorf("shown:\n%s", got)
	}
}

// Calls that print nothing leave nothing behind.
func TestOutputOfManySilentCalls(t *testing.T) {
	w, _ := divided(t)
	w.say(worker.OutputMark + "x\n")
	for range 1000 {
		c := w.begin(callOf(w, "a"))
		w.leave(c, answered(2), false)
	}
	if n := len(w.streams[0].parts) + len(w.streams[1].parts); n > 4 {
		t.Errorf("%d parts are kept", n)
	}
}

// What was found is divided as it says; what is older is not shown again. A node may
// say anything.
func TestOutputOfFoundCalls(t *testing.T) {
	w, shown := divided(t)
	found := func(name string, from, to int64, alone bool) foundCall {
		return foundCall{worker.HeldCall{Alone: alone, Finished: to > 0, From: worker.Printed{from}, To: worker.Printed{to}}, w.of(callOf(w, name))}
	}
	w.resume([]foundCall{found("c", 12, 0, true), found("a", 4, 8, true), {HeldCall: worker.HeldCall{From: worker.Printed{6}, To: worker.Printed{5}, Alone: true}}})
	w.say("early\n" + worker.OutputMark + "old\na 1\nd 1\nc 1\nc 2\n")
	w.end()
	if got, want := shown.String(), "[a] a 1\n[node 0] d 1\n[c] c 1\n[c] c 2\n"; got != want {
		t.Errorf("shown:\n%swant:\n%s", got, want)
	}
}

// A node that does not send what it says was printed, as one whose disk is full, does
// not hold up calls for ever, and the later ones not at all.
func TestOutputThatTheNodeHasNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := divided(t)
		w.up = func() bool { return true }
		w.say(worker.OutputMark + "so far")
		for range 2 {
			c := w.begin(callOf(w, "a"))
			var r Result
			if err := c.finish(context.Background(), &r, answered(1<<40), false); err != nil || !r.Truncated {
				t.Errorf("truncated=%v, %v", r.Truncated, err)
			}
		}
	})
}

package calls

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/worker"
)

// testRunner returns a runner that writes the shown stdout to a writer.
func testRunner(t *testing.T, stdout io.Writer) *attempt.Runner {
	secrets := &output.Redactor{}
	limits := output.Limits{Stream: 1 << 20, StreamMemory: 1 << 20, Memory: 1 << 20}
	return &attempt.Runner{
		Printer: output.NewPrinter(stdout, nil, false, secrets), Secrets: secrets,
		Results: output.NewResults(output.NewDir("p", t.TempDir(), func() (string, error) { return t.TempDir(), nil }), limits),
	}
}

// divided returns a process whose stdout is shown in a writer.
func divided(t *testing.T, shown io.Writer) *divider {
	t.Helper()
	return newDivider(testRunner(t, shown), output.Source{Label: "node 0"}, func() bool { return true }, func() func() { return func() {} })
}

func callOf(name string) *attempt.Attempt {
	return &attempt.Attempt{ID: name + "-a1", From: output.Source{Label: name}, Share: &output.Share{}}
}

// answered returns the stats of a call. The process had printed so much to stdout at its end.
func answered(stdout int64) worker.Stats {
	return worker.Stats{Answered: true, Printed: worker.Printed{stdout, 0}}
}

// say makes the process print to stdout, in pieces of one byte.
func (d *divider) say(text string) {
	for _, b := range []byte(text) {
		d.streams[0].Write([]byte{b})
	}
}

// Output is assigned to calls by its offset, however late it arrives.
func TestOutputIsDividedByOffset(t *testing.T) {
	var shown bytes.Buffer
	d := divided(t, &shown)
	d.say("early\n\x00\x01gputrain-no\n" + worker.OutputMark)
	a := d.begin(callOf("a"))
	at, waits := d.leave(a, answered(4), false)
	if _, all, _ := d.reached(at); all || !waits {
		t.Errorf("4 bytes are to come: all=%v, waits=%v", all, waits)
	}
	b := d.begin(callOf("b"))
	d.say("a 1\nb 1\n")
	if _, all, _ := d.reached(at); !all {
		t.Error("they have come")
	}
	var r attempt.Outcome
	if err := a.close(&r, true); err != nil || string(r.Stdout.Head) != "a 1\n" || r.Truncated {
		t.Errorf("a has %q, truncated=%v, %v", r.Stdout.Head, r.Truncated, err)
	}
	c := d.begin(callOf("c")) // beside b
	d.say("b or c\n")
	if _, waits := d.leave(c, answered(17), false); waits {
		t.Error("c waits, and b goes on")
	}
	d.say("x\nb 2\n")
	var rc attempt.Outcome
	if err := c.close(&rc, true); err != nil || len(rc.Stdout.Head) > 0 {
		t.Errorf("c has %q, %v", rc.Stdout.Head, err)
	}
	if _, waits := d.leave(b, answered(21), false); !waits {
		t.Error("b is the last, and does not wait")
	}
	var rb attempt.Outcome
	if err := b.close(&rb, true); err != nil || len(rb.Stdout.Head) > 0 {
		t.Errorf("b has %q, %v", rb.Stdout.Head, err)
	}
	d.say("late\n")
	d.end()
	want := "[node 0] early\n[node 0] gputrain-no\n[a] a 1\n[b] b 1\n[node 0] b or c\n[node 0] x\n[b] b 2\n[node 0] late\n"
	if got := shown.String(); got != want {
		t.Errorf("shown:\n%s", got)
	}
}

// Calls that print nothing leave nothing behind.
func TestOutputOfManySilentCalls(t *testing.T) {
	d := divided(t, io.Discard)
	d.say(worker.OutputMark + "x\n")
	for range 1000 {
		c := d.begin(callOf("a"))
		d.leave(c, answered(2), false)
	}
	if n := len(d.streams[0].parts) + len(d.streams[1].parts); n > 4 {
		t.Errorf("%d parts are kept", n)
	}
}

// The output of found calls is divided by their stats, and earlier output is not shown again. The node may report any
// stats.
func TestOutputOfFoundCalls(t *testing.T) {
	var shown bytes.Buffer
	d := divided(t, &shown)
	found := func(name string, from, to int64, alone bool) foundCall {
		return foundCall{worker.HeldCall{Alone: alone, Finished: to > 0, From: worker.Printed{from}, To: worker.Printed{to}}, d.newCall(callOf(name))}
	}
	d.resume([]foundCall{found("c", 12, 0, true), found("a", 4, 8, true), {HeldCall: worker.HeldCall{From: worker.Printed{6}, To: worker.Printed{5}, Alone: true}}})
	d.say("early\n" + worker.OutputMark + "old\na 1\nd 1\nc 1\nc 2\n")
	d.end()
	if got, want := shown.String(), "[a] a 1\n[node 0] d 1\n[c] c 1\n[c] c 2\n"; got != want {
		t.Errorf("shown:\n%swant:\n%s", got, want)
	}
}

// A node that does not send the output that it announced, as with a full disk, delays one call for a limited time,
// and later calls not at all.
func TestOutputThatTheNodeHasNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := divided(t, io.Discard)
		d.say(worker.OutputMark + "so far")
		for _, printed := range []int64{1 << 40, 1<<40 + 1} {
			c := d.begin(callOf("a"))
			var r attempt.Outcome
			if err := c.finish(context.Background(), &r, answered(printed), false); err != nil || !r.Truncated {
				t.Errorf("truncated=%v, %v", r.Truncated, err)
			}
		}
	})
}

// A call waits for its output only if something was printed while it ran. It does not wait for the output of earlier
// calls, which wait themselves.
func TestOutputOfAnEarlierCallHoldsUpNoOther(t *testing.T) {
	stuck, shown := io.Pipe()
	d := divided(t, shown)
	d.say(worker.OutputMark)
	loud := d.begin(callOf("loud"))
	written := make(chan struct{})
	go func() {
		defer close(written)
		d.streams[0].Write([]byte("12345678\n"))
	}()
	at, waits := d.leave(loud, answered(9), false)
	if _, all, _ := d.reached(at); all || !waits {
		t.Errorf("the reader has taken nothing: all=%v, waits=%v", all, waits)
	}
	silent := d.begin(callOf("silent"))
	if _, waits := d.leave(silent, answered(9), false); waits {
		t.Error("a call that printed nothing waits for the reader of an earlier one")
	}
	first, second := d.begin(callOf("first")), d.begin(callOf("second"))
	if _, waits := d.leave(first, answered(9), false); waits {
		t.Error("the first of two silent calls waits")
	}
	if _, waits := d.leave(second, answered(9), false); waits {
		t.Error("the last of two silent calls waits")
	}
	next := d.begin(callOf("next"))
	if at, waits := d.leave(next, answered(10), false); !waits || at[0] != 10 {
		t.Errorf("a call that printed waits=%v until %v", waits, at)
	}
	go io.Copy(io.Discard, stuck)
	<-written
	if _, all, _ := d.reached(at); !all {
		t.Error("the reader has taken all")
	}
	shown.Close()
}

// The output of calls that ran at the same time, and ended without waiting for it, is waited for by the last one, also
// if that prints nothing itself.
func TestOutputOfCrowdedCallsIsAwaited(t *testing.T) {
	d := divided(t, io.Discard)
	d.say(worker.OutputMark)
	a, b := d.begin(callOf("a")), d.begin(callOf("b"))
	if _, waits := d.leave(a, answered(9), false); waits {
		t.Error("a waits, and b goes on")
	}
	c := d.begin(callOf("c"))
	if _, waits := d.leave(b, answered(9), false); waits {
		t.Error("b waits, and c goes on")
	}
	if at, waits := d.leave(c, answered(9), false); !waits || at[0] != 9 {
		t.Errorf("c is the last: waits=%v until %v", waits, at)
	}
	if _, waits := d.leave(d.begin(callOf("later")), answered(9), false); waits {
		t.Error("a later call waits for what c waits for")
	}
}

//go:build unix

package simnode_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// gated returns a task that prints so many lines, waits for a file, prints as many again to both streams, and exits.
// Its scratch directory keeps it until Release.
func gated(id, gate string, lines, code int) supervisor.Spec {
	return supervisor.Spec{
		ID: id, Scratch: true, Env: map[string]string{"GATE": gate, "MANY": strconv.Itoa(lines), "CODE": strconv.Itoa(code)},
		Script: `yes begin | head -n "$MANY"; until [ -e "$GATE" ]; do sleep 0.02; done; yes end | head -n "$MANY"; yes err | head -n "$MANY" >&2; exit "$CODE"`,
	}
}

// open is a gate that is always open.
const open = "/"

// passGate is the task of gated on a simulated node.
func passGate(ctx context.Context, c simnode.Command) int {
	lines, _ := strconv.Atoi(getenv(c, "MANY"))
	io.WriteString(c.Stdout, strings.Repeat("begin\n", lines))
	for {
		if _, err := os.Stat(getenv(c, "GATE")); err == nil {
			break
		}
		if code := wait(ctx, 20*time.Millisecond); code != 0 {
			return code
		}
	}
	io.WriteString(c.Stdout, strings.Repeat("end\n", lines))
	io.WriteString(c.Stderr, strings.Repeat("err\n", lines))
	code, _ := strconv.Atoi(getenv(c, "CODE"))
	return code
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An outcome is the result of a task.
type outcome struct {
	exit      supervisor.Exit
	out, errs string
	err       error
}

// check compares an outcome with that of a gated task that ran to its end.
func (o outcome) check(t *testing.T, what string, lines, code int) {
	t.Helper()
	begin, end, errs := strings.Repeat("begin\n", lines), strings.Repeat("end\n", lines), strings.Repeat("err\n", lines)
	if o.err != nil || o.exit.Code != code || o.exit.Cause != supervisor.Exited || o.out != begin+end || o.errs != errs {
		t.Errorf("%s: %d and %d bytes of %d and %d, %+v, %v", what, len(o.out), len(o.errs), len(begin+end), len(errs), o.exit, o.err)
	}
}

func run(ctx context.Context, n *supervisor.Node, spec supervisor.Spec) (o outcome) {
	var out, errs bytes.Buffer
	o.exit, o.err = n.Run(ctx, spec, supervisor.Sinks{Stdout: &out, Stderr: &errs})
	o.out, o.errs = out.String(), errs.String()
	return o
}

// launch returns once a task runs, with a channel for its outcome.
func launch(t *testing.T, n *supervisor.Node, spec supervisor.Spec) <-chan outcome {
	t.Helper()
	started, ended := make(chan struct{}), make(chan outcome, 1)
	go func() {
		var o outcome
		o.exit, o.err = n.Run(context.WithoutCancel(t.Context()), spec, supervisor.Sinks{Started: func() { close(started) }})
		ended <- o
	}()
	select {
	case <-started:
	case o := <-ended:
		t.Fatalf("%s was over before it was seen to start: %+v", spec.ID, o)
	}
	return ended
}

// resume follows a found task. It calls first, if given, at the first output.
func resume(ctx context.Context, n *supervisor.Node, id string, first func()) (o outcome) {
	var out, errs bytes.Buffer
	sinks := supervisor.Sinks{Stdout: &out, Stderr: &errs, Live: true}
	if first != nil {
		sinks.Stdout = writer(func(b []byte) (int, error) {
			if out.Len() == 0 {
				first()
			}
			return out.Write(b)
		})
	}
	o.exit, o.err = n.Resume(ctx, supervisor.Spec{ID: id}, time.Time{}, sinks)
	o.out, o.errs = out.String(), errs.String()
	return o
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// attach takes the rig's node over for another program, which asks for another lease.
func (r *rig) attach(t *testing.T, generation int) (*client, *supervisor.Node, []supervisor.Found, error) {
	t.Helper()
	c := r.connect(t)
	cfg := supervisor.Config{PoolID: r.id, Root: r.node.Facts().Root, Generation: generation, Lease: time.Hour, TTL: time.Hour}
	n, found, err := supervisor.Attach(t.Context(), c.Client, cfg)
	if err == nil {
		closes(t, n)
	}
	return c, n, found, err
}

// A client that attaches finds the tasks that run, or ended before or while no client was there,
// but not those that were released. It gets all of their output, from the first byte on.
func TestAttach(t *testing.T) {
	both(t, time.Minute, passGate, func(t *testing.T, r *rig) {
		away, gate := t.TempDir()+"/away", t.TempDir()+"/gate"
		const many = 20_000 // lines, which go to files
		for _, spec := range []supervisor.Spec{gated("gone", open, many, 0), gated("short", open, 2, 3), gated("silent", open, 0, 0), gated("long", open, many, 4)} {
			if o := run(t.Context(), r.node, spec); o.err != nil {
				t.Fatalf("%+v", o)
			}
			if spec.ID == "gone" {
				r.node.Release("gone") // its output is large, so it goes before the next task
			}
		}
		bare := gated("bare", gate, 1, 0)
		bare.Scratch = false
		for _, spec := range []supervisor.Spec{bare, gated("ends", away, many, 5), gated("runs", gate, many, 6), gated("unwanted", gate, 0, 0), gated("whispers", gate, 1, 7)} {
			launch(t, r.node, spec)
		}
		want := []supervisor.Found{{ID: "bare"}, {ID: "ends", Over: true}, {ID: "long", Over: true}, {ID: "runs"}, {ID: "short", Over: true},
			{ID: "silent", Over: true}, {ID: "unwanted"}, {ID: "whispers"}}
		for i := range want {
			want[i].Scratch = r.node.Scratch(want[i].ID)
		}
		r.client.Close()
		touch(t, away)

		generation := 1
		next := func() (*supervisor.Node, []supervisor.Found) {
			generation++
			_, n, found, err := r.attach(t, generation)
			if err != nil {
				t.Fatal(err)
			}
			return n, found
		}
		n, found := next()
		for !slices.Contains(found, want[1]) { // the node may not have noticed its end yet
			n, found = next()
		}
		if !slices.Equal(found, want) {
			t.Errorf("found %+v; want %+v", found, want)
		}
		if f, g := n.Facts(), r.node.Facts(); f.Lease != time.Minute || f.Root != g.Root || f.WorkDir != g.WorkDir || f.OS != g.OS || f.Path != g.Path {
			t.Errorf("facts %+v, were %+v", f, g)
		}
		for _, id := range []string{"gone", "nobody", "No/id"} {
			if o := resume(t.Context(), n, id, nil); !errors.Is(o.err, supervisor.ErrUnknownTask) {
				t.Errorf("%s: %+v", id, o)
			}
		}
		for range 2 { // a task that is over stays until it is released
			resume(t.Context(), n, "short", nil).check(t, "short", 2, 3)
			resume(t.Context(), n, "silent", nil).check(t, "silent", 0, 0)
			resume(t.Context(), n, "long", nil).check(t, "long", many, 4)
			resume(t.Context(), n, "ends", r.server.HangUp).check(t, "ends", many, 5)
		}
		n.End("unwanted")
		n.End("nobody")
		for n.Scratch("unwanted") != "" { // its end has come
			time.Sleep(5 * time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if o := resume(ctx, n, "bare", cancel); o.err != nil || o.out != "begin\n" || o.exit.Code != 143 || o.exit.Cause != supervisor.Cancelled {
			t.Errorf("cancelled: %+v", o)
		}
		goOn := func() { // called at the first output
			r.server.HangUp()
			touch(t, gate)
		}
		resume(t.Context(), n, "runs", goOn).check(t, "runs", many, 6)
		resume(t.Context(), n, "whispers", nil).check(t, "whispers", 1, 7)
		run(t.Context(), n, gated("new", open, 2, 8)).check(t, "new", 2, 8)

		n, found = next()
		var left []string
		for _, f := range found {
			if !f.Over {
				t.Errorf("%s is not over", f.ID)
			}
			if f.Scratch != "" && f.ID != "unwanted" { // the others are not kept, and are removed soon
				left = append(left, f.ID)
			}
		}
		if want := []string{"ends", "long", "new", "runs", "short", "silent", "whispers"}; !slices.Equal(left, want) {
			t.Errorf("left: %v; want %v", left, want)
		}
		run(t.Context(), n, gated("newer", open, many, 0)).check(t, "newer", many, 0)
		n.Release("long") // without reading it
		n.Release("newer")
		run(t.Context(), n, gated("newest", open, 0, 0)).check(t, "newest", 0, 0)
		if _, found = next(); slices.ContainsFunc(found, func(f supervisor.Found) bool { return f.ID == "long" || f.ID == "newer" }) {
			t.Errorf("what was released is found: %+v", found)
		}
	})
}

//go:build unix

package simnode_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/supervisor"
)

var (
	everyByte = func() string {
		var b strings.Builder
		for i := range 256 {
			b.WriteByte(byte(i))
		}
		return b.String()
	}()
	long = strings.Repeat("0123456789abcde\n", 20000)
)

// scenarios are tasks as shell text and as a Go function, with the result that both must have.
var scenarios = []struct {
	name   string
	script string
	spec   supervisor.Spec // without ID, Script and Stdin
	stdin  string
	sim    func(ctx context.Context, c simnode.Command) int
	during func(r *rig, cancel func()) // called when the task has started
	after  func(cancel func())         // called at the first output
	out    string
	errs   string
	want   supervisor.Exit // Code, Signal and Cause
}{
	{name: "short", script: "echo out; echo err >&2; exit 3", out: "out\n", errs: "err\n", want: supervisor.Exit{Code: 3},
		sim: func(_ context.Context, c simnode.Command) int {
			io.WriteString(c.Stdout, "out\n")
			io.WriteString(c.Stderr, "err\n")
			return 3
		}},
	{name: "terminal", script: "cat; echo err >&2; exit 3", spec: supervisor.Spec{TTY: true}, stdin: "in\n", out: "in\nerr\n", want: supervisor.Exit{Code: 3},
		sim: func(_ context.Context, c simnode.Command) int {
			io.Copy(c.Stdout, c.Stdin)
			io.WriteString(c.Stderr, "err\n")
			return 3
		}},
	{name: "nothing", script: ":", sim: func(context.Context, simnode.Command) int { return 0 }},
	{name: "stdin, every byte", script: "cat", stdin: everyByte, out: everyByte,
		sim: func(_ context.Context, c simnode.Command) int { io.Copy(c.Stdout, c.Stdin); return 0 }},
	{name: "long", script: "cat", stdin: long, out: long,
		sim: func(_ context.Context, c simnode.Command) int { io.Copy(c.Stdout, c.Stdin); return 0 }},
	{name: "long script", script: "echo hi\n" + strings.Repeat("# nothing more to see\n", 6000), out: "hi\n",
		sim: func(_ context.Context, c simnode.Command) int {
			if len(c.Args) != 3 || len(c.Args[2]) < 6000 {
				return 1
			}
			io.WriteString(c.Stdout, "hi\n")
			return 0
		}},
	{name: "output while it runs", script: "echo a; sleep 0.2; echo b; sleep 0.2; echo c >&2", out: "a\nb\n", errs: "c\n",
		sim: func(ctx context.Context, c simnode.Command) int {
			io.WriteString(c.Stdout, "a\n")
			wait(ctx, 200*time.Millisecond)
			io.WriteString(c.Stdout, "b\n")
			wait(ctx, 200*time.Millisecond)
			io.WriteString(c.Stderr, "c\n")
			return 0
		}},
	{name: "silent for a while", script: "sleep 0.2; echo late", out: "late\n",
		sim: func(ctx context.Context, c simnode.Command) int {
			wait(ctx, 200*time.Millisecond)
			io.WriteString(c.Stdout, "late\n")
			return 0
		}},
	{name: "signal", script: "kill -SEGV $$", want: supervisor.Exit{Code: 139, Signal: "SEGV", Cause: supervisor.Signaled},
		sim: func(context.Context, simnode.Command) int { return -11 }},
	{name: "a status like a signal's", script: "exit 137", want: supervisor.Exit{Code: 137},
		sim: func(context.Context, simnode.Command) int { return 137 }},
	{name: "cancelled", script: "exec sleep 100", during: func(_ *rig, cancel func()) { cancel() }, want: supervisor.Exit{Code: 143, Signal: "TERM", Cause: supervisor.Cancelled},
		sim: func(ctx context.Context, _ simnode.Command) int { return wait(ctx, 100*time.Second) }},
	{name: "cancelled, and says goodbye", script: "exec 2>/dev/null; trap 'echo bye; exit 5' TERM; echo hi; while :; do sleep 0.01; done", after: func(cancel func()) { cancel() },
		out: "hi\nbye\n", want: supervisor.Exit{Code: 5, Cause: supervisor.Cancelled},
		sim: func(ctx context.Context, c simnode.Command) int {
			io.WriteString(c.Stdout, "hi\n")
			wait(ctx, 100*time.Second)
			io.WriteString(c.Stdout, "bye\n")
			return 5
		}},
	{name: "cancelled, and does not care", script: "trap '' TERM; echo hi; while :; do sleep 0.01; done", after: func(cancel func()) { cancel() },
		spec: supervisor.Spec{Grace: 300 * time.Millisecond}, out: "hi\n", want: supervisor.Exit{Code: 137, Signal: "KILL", Cause: supervisor.Cancelled},
		sim: func(_ context.Context, c simnode.Command) int {
			io.WriteString(c.Stdout, "hi\n")
			time.Sleep(3 * time.Second)
			io.WriteString(c.Stdout, "nobody hears this\n")
			return 0
		}},
	{name: "timeout", script: "exec sleep 100", spec: supervisor.Spec{Timeout: 200 * time.Millisecond}, want: supervisor.Exit{Code: 143, Signal: "TERM", Cause: supervisor.TimedOut},
		sim: func(ctx context.Context, _ simnode.Command) int { return wait(ctx, 100*time.Second) }},
	{name: "environment", script: `echo "$A $B $BASE ${GPUTRAIN_SCRATCH:+scratch} ${PWD##*/}"`, out: "a b base scratch work\n",
		spec: supervisor.Spec{Env: map[string]string{"A": "a"}, Secrets: map[string]string{"B": "b"}, Scratch: true},
		sim: func(_ context.Context, c simnode.Command) int {
			scratch := ""
			if getenv(c, "GPUTRAIN_SCRATCH") != "" {
				scratch = "scratch"
			}
			fmt.Fprintf(c.Stdout, "%s %s %s %s %s\n", getenv(c, "A"), getenv(c, "B"), getenv(c, "BASE"), scratch, path.Base(getenv(c, "PWD")))
			return 0
		}},
	{name: "the connection is cut", script: "echo one; sleep 1; echo two", during: func(r *rig, _ func()) { r.server.HangUp() }, out: "one\ntwo\n",
		sim: func(ctx context.Context, c simnode.Command) int {
			io.WriteString(c.Stdout, "one\n")
			wait(ctx, time.Second)
			io.WriteString(c.Stdout, "two\n")
			return 0
		}},
	{name: "cut, and over before it is back", script: "sleep 0.1; echo done", during: func(r *rig, _ func()) { r.server.HangUp() }, out: "done\n",
		sim: func(ctx context.Context, c simnode.Command) int {
			wait(ctx, 100*time.Millisecond)
			io.WriteString(c.Stdout, "done\n")
			return 0
		}},
}

func TestSameAsTheScripts(t *testing.T) {
	exec := func(ctx context.Context, c simnode.Command) int {
		for _, s := range scenarios {
			if strings.HasPrefix(c.ID, strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(s.name)+"-x") {
				return s.sim(ctx, c)
			}
		}
		return 99
	}
	both(t, time.Minute, exec, func(t *testing.T, r *rig) {
		r.node.SetBase(map[string]string{"BASE": "base"}, nil)
		if f := r.node.Facts(); f.OS != "linux" || f.Arch == "" || f.CPUs == 0 || f.MemoryBytes == 0 || f.DiskFreeBytes == 0 || f.WorkDir == "" || f.Home == "" || f.Path == "" {
			t.Errorf("facts: %+v", f)
		}
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				spec := s.spec
				spec.ID, spec.Script = fmt.Sprintf("%s-x%d", strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(s.name), seq.Add(1)), s.script
				if s.stdin != "" {
					spec.Stdin = strings.NewReader(s.stdin)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var out, errs bytes.Buffer
				sinks := supervisor.Sinks{Stdout: &out, Stderr: &errs, Live: true}
				if s.during != nil {
					sinks.Started = func() { s.during(r, cancel) }
				}
				if s.after != nil {
					sinks.Stdout = writer(func(b []byte) (int, error) {
						s.after(cancel)
						return out.Write(b)
					})
				}
				x, err := r.node.Run(ctx, spec, sinks)
				got := supervisor.Exit{Code: x.Code, Signal: x.Signal, Cause: x.Cause}
				if err != nil || got != s.want || x.DiskFull {
					t.Errorf("ended as %+v, %v; want %+v", x, err, s.want)
				}
				if out.String() != s.out || errs.String() != s.errs {
					t.Errorf("stdout of %d bytes %.40q, stderr %.40q; want %d bytes %.40q and %.40q", out.Len(), out.String(), errs.String(), len(s.out), s.out, s.errs)
				}
				r.node.Release(spec.ID)
			})
		}
	})
}

// Many tasks run at once, each with its own output.
func TestManyAtOnce(t *testing.T) {
	exec := func(_ context.Context, c simnode.Command) int {
		io.WriteString(c.Stdout, c.Args[1]+"\n")
		return 0
	}
	both(t, time.Minute, exec, func(t *testing.T, r *rig) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				var out bytes.Buffer
				text := strings.Repeat(fmt.Sprint(i, " "), 1+i*200)
				_, err := r.node.Run(t.Context(), supervisor.Spec{ID: fmt.Sprintf("many-%d", i), Args: []string{"echo", text}}, supervisor.Sinks{Stdout: &out})
				if err != nil || out.String() != text+"\n" {
					t.Errorf("%d: %d bytes, %v", i, out.Len(), err)
				}
			})
		}
		all.Wait()
	})
}

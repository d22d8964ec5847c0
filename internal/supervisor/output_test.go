package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// outputShells are the shells, and a bash that keeps here-documents in files, as bash did before 5.1. It must behave
// like the others.
var outputShells = append([]string{"env BASH_COMPAT=50 bash"}, shells...)

// eachOutputShell runs a test under each of outputShells.
func eachOutputShell(t *testing.T, f func(t *testing.T, n *Node)) {
	srv := opensshtest.Start(t)
	for _, sh := range outputShells {
		t.Run(strings.NewReplacer("env BASH_COMPAT=50 bash", "old bash", "busybox ash", "busybox").Replace(sh), func(t *testing.T) {
			needShell(t, sh)
			f(t, start(t, connect(t, srv, ""), config(t, sh)))
		})
	}
}

// A task's output is a pipe: opening it again by its name truncates nothing and keeps the order.
func TestOutputOpenedByName(t *testing.T) {
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	eachOutputShell(t, func(t *testing.T, n *Node) {
		for name, c := range map[string]struct{ script, out, errs string }{
			"stderr":  {"echo a >&2; echo b >/dev/stderr; echo c >&2; echo d", "d\n", "a\nb\nc\n"},
			"stdout":  {"echo a; echo b >/dev/stdout; echo c", "a\nb\nc\n", ""},
			"fd":      {"echo a; echo b >/dev/fd/1; echo c >/proc/self/fd/2; echo d", "a\nb\nd\n", "c\n"},
			"tee":     {"echo a >&2; echo b | tee /dev/stderr; echo c | tee /dev/stderr", "b\nc\n", "a\nb\nc\n"},
			"late":    {"echo a >&2; sleep 0.4; echo b >/dev/stderr; sleep 0.1; echo c >/dev/stderr", "", "a\nb\nc\n"},
			"between": {"yes x | head -n 100000; echo b >/dev/stdout; yes y | head -n 100000; : >/dev/stdout; echo c", lines(100000, "x") + "b\n" + lines(100000, "y") + "c\n", ""},
			"in turn": {"i=0; while [ $i -lt 50 ]; do echo o$i >/dev/stdout; echo e$i >/dev/stderr; i=$((i+1)); done", numbered("o", 50), numbered("e", 50)},
		} {
			r := run(t, n, Spec{Script: c.script})
			if r.err != nil || r.Code != 0 || r.out != c.out || r.errs != c.errs {
				t.Errorf("%s: %d and %d bytes, want %d and %d: %.80q %.80q %+v", name, len(r.out), len(r.errs), len(c.out), len(c.errs), r.out, r.errs, r.Exit)
			}
		}
	})
}

func numbered(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d\n", prefix, i)
	}
	return b.String()
}

// Every byte passes, at all sizes at which output takes another path.
func TestOutputBytes(t *testing.T) {
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	dots := bytes.Repeat([]byte(".\n"), len(noise)/2) // as in a here-document of node.sh
	file := func(data []byte) string {
		name := t.TempDir() + "/data"
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	noiseFile, dotsFile := file(noise), file(dots)
	eachOutputShell(t, func(t *testing.T, n *Node) {
		for _, size := range []int{0, 1, 2, 511, 512, 513, 1025, 1026, 1027, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20} {
			script := fmt.Sprintf("head -c %d '%s'; head -c %d '%s' >&2; exit 3", size, noiseFile, size, dotsFile)
			if size%2 == 1 { // after a pause, so that copiers carry it
				script = "sleep 0.3; " + script
			}
			r := run(t, n, Spec{Script: script})
			if r.err != nil || r.Code != 3 || r.out != string(noise[:size]) || r.errs != string(dots[:size]) {
				t.Errorf("%d bytes on both: got %d and %d, %+v %v", size, len(r.out), len(r.errs), r.Exit, r.err)
			}
		}
		for name, text := range map[string]string{"every byte": everyByte, "NUL": "\x00", "NUL last": "a\n\x00", "NUL first": "\x00a", "quotes": "'\\''$'\\001 ", "spaces": "  ", "semicolon": " ;"} {
			r := run(t, n, Spec{Script: "cat '" + file([]byte(text)) + "' | tee /dev/stderr"})
			if r.err != nil || r.out != text || r.errs != text {
				t.Errorf("%s: %q and %q, %+v %v", name, r.out, r.errs, r.Exit, r.err)
			}
		}
	})
}

// A daemon that keeps the pipes open does not delay the end of its task, and survives further printing. The task's
// output is complete.
func TestOutputHeldByADaemon(t *testing.T) {
	eachOutputShell(t, func(t *testing.T, n *Node) {
		script := "setsid sh -c 'echo $$ >pid; while [ ! -e stop ]; do echo daemon; sleep 0.02; done' & until [ -s pid ]; do sleep 0.01; done; yes x | head -n 30000; echo last >&2; exit 5"
		r := run(t, n, Spec{Script: script})
		if got := strings.ReplaceAll(r.out, "daemon\n", ""); r.err != nil || r.Code != 5 || got != strings.Repeat("x\n", 30000) || r.errs != "last\n" {
			t.Errorf("%d bytes, %+v", len(got), r.Exit)
		}
		pid := await(t, n.facts.WorkDir+"/pid")
		time.Sleep(300 * time.Millisecond)
		if gone(pid) == nil {
			t.Error("the daemon did not live on")
		}
		if err := os.WriteFile(n.facts.WorkDir+"/stop", nil, 0o600); err != nil {
			t.Error(err)
		}
		until(t, "the daemon's end", func() bool { return gone(pid) == nil })
	})
}

// A command that closes its output and runs on is not over, and its end is noticed.
func TestOutputClosed(t *testing.T) {
	eachOutputShell(t, func(t *testing.T, n *Node) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := runCtx(ctx, n, Spec{Script: "exec >/dev/null 2>&1; sleep 600"}, cancel)
		if r.err != nil || r.Cause != Cancelled {
			t.Errorf("%+v", r)
		}
		if r := run(t, n, Spec{Script: "exec >&-; sleep 0.3; echo a >&2; sleep 0.3; exit 4"}); r.Code != 4 || r.errs != "a\n" {
			t.Errorf("%+v", r)
		}
	})
}

// Output of either stream is available while the task runs.
func TestOutputLive(t *testing.T) {
	eachOutputShell(t, func(t *testing.T, n *Node) {
		for _, to := range []string{"1", "2"} {
			ctx, cancel := context.WithCancel(t.Context())
			w := newWatch()
			over := make(chan error, 1)
			go func() {
				x, err := n.Run(ctx, Spec{ID: "live-" + to, Script: "printf 'no newline' >&" + to + "; sleep 600"}, Sinks{Stdout: w, Stderr: w, Live: true})
				if err == nil && x.Cause != Cancelled {
					err = fmt.Errorf("%+v", x)
				}
				over <- err
			}()
			w.await(t, "no newline")
			cancel()
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
	})
}

// A task's output is whole though its last lines come after its command's end, as those of filters do, and what a command leaves
// in its group ends all the same.
func TestOutputAfterTheEnd(t *testing.T) {
	bash := opensshtest.Program(t, "bash", "bash")
	srv := opensshtest.Start(t)
	c := connect(t, srv, "")
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, c, config(t, shell))
		for _, tt := range []struct {
			name, script, out, errs, log string
			exit                         Exit
		}{
			{name: "tee", script: `exec > >(tee train.log) 2>&1; echo step 1; echo "Traceback: boom" >&2; exit 3`,
				out: "step 1\nTraceback: boom\n", log: "step 1\nTraceback: boom\n", exit: Exit{Code: 3, Cause: Exited}},
			{name: "two", script: `exec > >(tee train.log) 2> >(tee -a err.log >&2); seq 5; echo boom >&2; exit 4`,
				out: "1\n2\n3\n4\n5\n", errs: "boom\n", log: "1\n2\n3\n4\n5\n", exit: Exit{Code: 4, Cause: Exited}},
			{name: "late", script: `exec > >(sed s/^/x/ | { cat; sleep 0.5; echo late; }); echo a; exit 5`, out: "xa\nlate\n", exit: Exit{Code: 5, Cause: Exited}},
			{name: "background", script: `(sleep 0.5; echo late; echo later >&2) & echo a; exit 6`, out: "a\nlate\n", errs: "later\n", exit: Exit{Code: 6, Cause: Exited}},
			{name: "another session", script: `setsid sh -c 'sleep 0.5; echo late' & echo a; exit 7`, out: "a\nlate\n", exit: Exit{Code: 7, Cause: Exited}},
			{name: "much", script: `exec > >(sleep 0.3; tee train.log); yes y | head -n 100000; exit 8`, out: strings.Repeat("y\n", 100000), log: strings.Repeat("y\n", 100000), exit: Exit{Code: 8, Cause: Exited}},
			{name: "killed", script: `exec > >(sleep 0.3; tee train.log) 2>&1; sleep 600 & echo a; kill -s KILL $$`, out: "a\n", log: "a\n", exit: Exit{Code: 137, Signal: "KILL", Cause: Signaled}},
			{name: "file alone", script: `exec > >(sleep 0.3; cat >train.log) 2>/dev/null; echo a; exit 9`, log: "a\n", exit: Exit{Code: 9, Cause: Exited}},
			{name: "left", script: `sleep 600 & sleep 600 </dev/null & echo a; exit 10`, out: "a\n", exit: Exit{Code: 10, Cause: Exited}},
			{name: "left with a filter", script: `exec > >(cat; sleep 0.3; echo b); sleep 600 & echo a; exit 11`, out: "a\nb\n", exit: Exit{Code: 11, Cause: Exited}},
		} {
			r := run(t, n, Spec{Args: []string{bash, "-c", "rm -f train.log; " + tt.script}})
			tt.exit.Elapsed, tt.exit.StdoutBytes, tt.exit.StderrBytes = r.Elapsed, r.StdoutBytes, r.StderrBytes
			if r.err != nil || r.Exit != tt.exit || r.out != tt.out || r.errs != tt.errs {
				t.Errorf("%s: %+v, %v; %.100q, %.100q", tt.name, r.Exit, r.err, r.out, r.errs)
			}
			if log, _ := os.ReadFile(n.facts.WorkDir + "/train.log"); string(log) != tt.log {
				t.Errorf("%s: the log has %.100q", tt.name, log)
			}
		}
		if left := processes(t, "GPUTRAIN_NODE="+n.cfg.Name); strings.Contains(strings.Join(left, "\n"), "sleep 600") {
			t.Errorf("%s: left: %q", shell, left)
		}
	})
}

//go:build linux

package supervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// needTerminals skips a test under a shell that needs python3 for terminals, on a machine that lacks it.
func needTerminals(t *testing.T, shell string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil && shell != "perl" {
		if os.Getenv("GPUTRAIN_REQUIRE_PYTHON") != "" {
			t.Fatal("no python3 on this machine, and GPUTRAIN_REQUIRE_PYTHON is set: install it")
		}
		t.Skip("no python3")
	}
}

// A task with a terminal has one on all three streams, which is its controlling one, in a session of its own.
func TestTerminal(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		needTerminals(t, shell)
		n := start(t, connect(t, srv, ""), config(t, shell))
		n.SetBase(map[string]string{"LINES": "50"}, nil)
		tty := func(script string) Spec { return Spec{Script: script, TTY: true} }
		in := func(script, text string) Spec {
			return Spec{Script: script, TTY: true, Stdin: strings.NewReader(text)}
		}
		says := func(name string, s Spec, want string) result {
			t.Helper()
			r := run(t, n, s)
			if r.err != nil || r.out != want || r.errs != "" {
				t.Errorf("%s: %d bytes: %.100q, %q, %v; want %d: %.100q", name, len(r.out), r.out, r.errs, r.err, len(want), want)
			}
			return r
		}
		t.Run("streams", func(t *testing.T) {
			says("terminals", in(`for i in 0 1 2; do [ -t $i ] && echo $i; done; [ "$(tty)" = "$(tty <&2)" ] && echo err to >&2; echo all >/dev/tty`, ""), "0\n1\n2\nerr to\nall\n")
			says("without stdin", tty(`for i in 0 1 2; do [ -t $i ] && echo $i; done; read -r x </dev/tty || echo end`), "1\n2\nend\n")
			says("session", tty(`read -r stat </proc/$$/stat; set -- ${stat##*) }; [ "$3 $4 $6" = "$$ $$ $$" ] || echo "$3 $4 $6, not $$"`), "") // group, session, foreground
			says("bytes", tty(`printf 'a\nb\r\nc\rd\n'; printf '\001\377'`), "a\nb\r\nc\rd\n\001\xff")
			says("size", tty(`stty size <&1; echo "$TERM"`), "50 80\nxterm-256color\n")
			own := tty(`stty size <&1; echo "$TERM"`)
			own.Env = map[string]string{"COLUMNS": "132", "LINES": "many", "TERM": "vt100"}
			says("its own size", own, "24 132\nvt100\n")
			plain := run(t, n, Spec{Script: `[ -t 1 ] || echo "none, ${TERM-}"`})
			if !strings.HasPrefix(plain.out, "none, ") || strings.Contains(plain.out, "xterm-256color") {
				t.Errorf("a task without a terminal: %q", plain.out)
			}
			size := 200_000
			says("long", tty("yes out | head -c "+strconv.Itoa(size)), strings.Repeat("out\n", size/4))
		})
		t.Run("stdin", func(t *testing.T) {
			long := strings.Repeat(strings.Repeat("x", 1000)+"\n", 100)
			says("none", tty("cat; cat; read -r x || echo end"), "end\n")
			says("empty", in("cat; echo end", ""), "end\n")
			says("lines", in("cat; echo end", "one\ntwo\n"), "one\ntwo\nend\n")
			says("a line that is not ended", in("cat; echo end", "one\ntwo"), "one\ntwoend\n")
			says("long", in("cat", long), long)
			says("not read", in("exit 0", long), "")
			says("read later", in("sleep 0.2; cat | wc -c", long), strconv.Itoa(len(long))+"\n")
			says("a key", in("cat", "a typing mistike\x7f\x7f\x7fake\n"), "a typing mistake\n")
		})
		t.Run("ends", func(t *testing.T) {
			for _, code := range []int{0, 137} {
				if r := run(t, n, tty("exit "+strconv.Itoa(code))); r.err != nil || r.Code != code || r.Cause != Exited || r.Signal != "" {
					t.Errorf("exit %d: %+v", code, r)
				}
			}
			for _, name := range []string{"INT", "KILL"} {
				if r := run(t, n, tty("ulimit -c 0; kill -"+name+" $$; sleep 5")); r.err != nil || r.Signal != name || r.Cause != Signaled {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if r := run(t, n, Spec{Args: []string{"no such command"}, TTY: true}); r.Code != 127 || !strings.Contains(r.out, "no such command") || r.errs != "" {
				t.Errorf("%+v", r)
			}
			if r := run(t, n, Spec{Args: []string{"/etc/passwd"}, TTY: true}); r.Code != 126 || r.out == "" {
				t.Errorf("%+v", r)
			}
			s := tty("echo before; sleep 600")
			s.Timeout = 500 * time.Millisecond
			if r := run(t, n, s); r.err != nil || r.Cause != TimedOut || r.out != "before\n" && r.out != "" { // python3 may begin late
				t.Errorf("timeout: %+v", r)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if r := runCtx(ctx, n, tty("trap 'echo term; exit 5' TERM; while :; do sleep 0.1; done"), cancel); r.err != nil || r.Cause != Cancelled || r.out != "" && !strings.HasSuffix(r.out, "term\n") { // after the shell's own message
				t.Errorf("cancelled: %+v", r)
			}
			ctx, cancel = context.WithCancel(t.Context())
			s = tty("trap '' TERM HUP; (trap '' TERM HUP; sleep 600; sleep 600) & sleep 600; sleep 600")
			s.Grace, s.Stdin = 200*time.Millisecond, strings.NewReader(strings.Repeat("x\n", 1<<18))
			if r := runCtx(ctx, n, s, cancel); r.err != nil || r.Cause != Cancelled {
				t.Errorf("killed: %+v", r)
			}
			until(t, "the end of all sleeps", func() bool { return !sleeps(t, n) })
			if r := run(t, n, tty("(trap '' HUP; sleep 600) & echo $!; exit 6")); r.Code != 6 || r.Cause != Exited {
				t.Errorf("what it leaves: %+v", r)
			} else {
				until(t, "the child's end", func() bool { return gone(r.out) == nil })
			}
		})
		t.Run("nothing is left", func(t *testing.T) {
			until(t, "the end of what types and copies", func() bool {
				return !slices.ContainsFunc(processes(t, "GPUTRAIN_POOL="+n.cfg.PoolID), func(p string) bool {
					return strings.Contains(p, "sysread STDIN") || strings.Contains(p, "termios")
				})
			})
		})
	})
}

// A terminal survives cut connections, and the death of its client.
func TestTerminalIsResumed(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		needTerminals(t, shell)
		cfg := config(t, shell)
		first := begin(t, srv, cfg)
		bar := `for i in 1 2 3 4 5; do printf "\rstep $i"; done; until [ -e go ]; do sleep 0.05; done; [ -t 1 ] && read -r x && echo; echo "$x"; exit 9`
		first.launch(t, Spec{ID: "bar", Script: bar, TTY: true, Scratch: true, Stdin: strings.NewReader("typed\n")})
		first.kill()
		n, all := attach(t, srv, first.Node, 2)
		if _, known := all["bar"]; !known {
			t.Fatalf("%v", all)
		}
		out := newWatch()
		over := make(chan result, 1)
		go func() {
			var r result
			r.Exit, r.err = n.Resume(t.Context(), Spec{ID: "bar"}, time.Time{}, Sinks{Stdout: out, Live: true})
			over <- r
		}()
		out.await(t, "\rstep 5")
		n.mu.Lock()
		n.control.s.Close()
		n.mu.Unlock()
		touch(t, n.facts.WorkDir+"/go")
		if r := <-over; r.err != nil || r.Code != 9 || out.String() != "\rstep 1\rstep 2\rstep 3\rstep 4\rstep 5\ntyped\n" {
			t.Errorf("%+v, %q", r, out.String())
		}
	})
}

// A node that can make no terminal says what it lacks.
func TestNoTerminal(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		if shell == "perl" {
			return
		}
		cfg := config(t, shell)
		path := withoutPerl(t)
		for _, name := range []string{"python3", "python3.11", "python"} {
			os.Remove(path + "/" + name)
		}
		cfg.Shell = "env PATH=" + path + " " + shell
		n := start(t, connect(t, srv, ""), cfg)
		r := run(t, n, Spec{Script: "touch ran", TTY: true})
		if !errors.Is(r.err, ErrNotStarted) || !strings.Contains(r.err.Error(), "it needs a terminal, which takes perl or python3 on the node") {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(n.facts.WorkDir + "/ran"); err == nil {
			t.Error("the command ran")
		}
		if r := run(t, n, Spec{Script: "echo here"}); r.out != "here\n" {
			t.Errorf("a task without one: %+v", r)
		}
	})
}

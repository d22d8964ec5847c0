//go:build unix

package console

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"
)

// childOn starts the test binary as a program on a terminal.
func childOn(t *testing.T, y *tty, how string, argv ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if len(argv) == 0 {
		argv = []string{self}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = y.f, y.f, y.f
	cmd.Env = []string{childVariable + "=" + how, "TERM=xterm", "LANG=C", "PATH=" + os.Getenv("PATH"), "SELF=" + self}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	})
	return cmd
}

func hasBlock(screen []string) bool { return strings.Contains(screen[len(screen)-1], "12/18") }

// However the program ends, the terminal is whole and the block is gone.
func TestProgramEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		how  string
		end  func(*tty, *exec.Cmd)
		left string // the last line
	}{
		"SIGKILL": {"wait", func(_ *tty, c *exec.Cmd) { c.Process.Kill() }, "stays here"},
		"SIGHUP":  {"wait", func(_ *tty, c *exec.Cmd) { c.Process.Signal(syscall.SIGHUP) }, "stays here"},
		"Ctrl-C":  {"wait", func(y *tty, _ *exec.Cmd) { y.master.WriteString("\x03") }, "^C"},
		"exit":    {"exit", nil, "line 29"},
		"panic":   {"panic", nil, ""},
		"Close":   {"close", nil, "after after after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTTY(t, 80, 24)
			before, err := term.GetState(int(y.f.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			cmd := childOn(t, y, tt.how)
			if tt.end != nil {
				y.until("the block", func(s []string) bool { return hasBlock(s) && strings.Contains(strings.Join(s, "\n"), "stays here") })
				tt.end(y, cmd)
			}
			_ = cmd.Wait()
			y.until("no block", func(s []string) bool { return !strings.Contains(strings.Join(s, "\n"), "node 4") })
			y.until("the last line is "+tt.left, func(s []string) bool {
				var last string
				for _, row := range s {
					if row != "" {
						last = row
					}
				}
				return strings.Contains(last, tt.left)
			})
			if name == "panic" {
				y.until("the panic", func([]string) bool { return strings.Contains(y.all(), "panic: the program's own") })
			}
			if all := y.all(); name == "panic" && !(strings.Index(all, "gputrain: 6 nodes") < strings.Index(all, "panic: the program's own")) {
				t.Errorf("the closing line does not come before the panic's:\n%q", all)
			}
			checkWhole(t, y)
			after, err := term.GetState(int(y.f.Fd()))
			if err != nil || *before != *after {
				t.Errorf("the modes of the terminal have changed: %v", err)
			}
		})
	}
}

// A program that was stopped by Ctrl-Z, and continued, draws the block again. In the background it does not.
func TestStopAndContinue(t *testing.T) {
	for name, between := range map[string]string{"fg": "sleep 0.5", "bg": "bg; sleep 2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTTY(t, 80, 24)
			// A shell with job control. It erases everything in between.
			cmd := childOn(t, y, "wait", "/bin/sh", "-c", `set -m; "$SELF"; printf '\033[r\033[2J\033[Hstopped\n'; `+between+`; echo resumes; fg; echo over`)
			y.until("the block", func(s []string) bool { return hasBlock(s) && strings.Contains(strings.Join(s, "\n"), "stays here") })
			y.master.WriteString("\x1a")
			y.until("the shell", func(s []string) bool { return strings.Contains(strings.Join(s, "\n"), "stopped") })
			y.until("the shell's last words", func(s []string) bool {
				all := strings.Join(s, "\n")
				if !strings.Contains(all, "resumes") && hasBlock(s) {
					t.Error("the program draws in the background")
				}
				return strings.Contains(all, "resumes")
			})
			y.until("the block again", hasBlock)
			y.master.WriteString("\x03")
			_ = cmd.Wait()
			y.until("no block", func(s []string) bool { return !hasBlock(s) })
			checkWhole(t, y)
		})
	}
}

// Another program's end does not matter: the helper belongs to the View, and ends with it.
func TestHelperEnds(t *testing.T) {
	y := newTTY(t, 80, 24)
	h, err := startHelper(y.f)
	if err != nil {
		t.Fatal(err)
	}
	h.arm()
	h.disarm()
	h.close()
	if all := y.all(); all != "" {
		t.Errorf("a helper that was disarmed has written %q", all)
	}
	h, err = startHelper(y.f)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(y.f, "\x1b[1;5r")
	h.arm()
	h.close()
	checkWhole(t, y)
}

// A program that the shell has started in the background leaves the terminal's rows alone, and writes lines.
func TestBackground(t *testing.T) {
	t.Parallel()
	y := newTTY(t, 80, 24)
	cmd := childOn(t, y, "close", "/bin/sh", "-c", `set -m; "$SELF" & wait`)
	_ = cmd.Wait()
	y.until("the closing line", func(s []string) bool { return strings.Contains(strings.Join(s, "\n"), " gputrain: 6 nodes") })
	if strings.Contains(y.all(), "\x1b") {
		t.Errorf("%q", y.all())
	}
}

package tasks

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"golang.org/x/sys/unix"
)

// openTerminal returns a terminal, and a func that returns what was written to it so far.
func openTerminal(t *testing.T) (terminal *os.File, screen func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen strings.Builder
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := control.Read(b)
			mu.Lock()
			seen.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return // the other end of the terminal was closed
			}
		}
	})
	t.Cleanup(func() {
		terminal.Close()
		reading.Wait()
		control.Close()
	})
	return terminal, func() string {
		mu.Lock()
		defer mu.Unlock()
		return seen.String()
	}
}

// TestProgressIsShownLive runs a task that waits until each step of its progress is shown.
func TestProgressIsShownLive(t *testing.T) {
	t.Setenv("TERM", "xterm")
	terminal, screen := openTerminal(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1}, gputrain.WithOutput(terminal, terminal))
	seen := t.TempDir()
	bar := gputrain.Script(`
for i in 10 20 30; do
	printf '\r%s%%' $i >&2
	until [ -e "$SEEN/$i" ]; do sleep 0.02; done
done
printf '\r100%%\n' >&2
echo trained`)
	bar.Env = map[string]string{"SEEN": seen}
	bar.Name = "train"
	job := pool.Start(bar)
	for _, i := range []string{"10", "20", "30"} {
		e2etest.Until(t, i+" percent", func() bool { return strings.Contains(screen(), "[train] "+i+"%\x1b[?7h\r") })
		e2etest.WriteText(t, seen+"/"+i, "")
	}
	r, err := job.Wait()
	if err != nil || string(r.Stderr) != "\r10%\r20%\r30%\r100%\n" {
		t.Errorf("stderr is %q, %v", r.Stderr, err)
	}
	e2etest.Until(t, "whole lines of both streams", func() bool { return strings.Count(screen(), "\n") >= 2 })
	got := screen()
	if strings.Count(got, "[train] 100%\r\n") != 1 || strings.Count(got, "[train] trained\r\n") != 1 {
		t.Errorf("the screen got %q", got)
	}
}

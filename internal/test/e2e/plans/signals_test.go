//go:build unix

package plans

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// An unattended program has a pool, and handles signals as in doc.go, when End happens.
type unattended struct{ Endpoint, State, End string }

var unattendedPrograms = e2etest.NewRole("unattended", func(u unattended) error {
	if u.End == "ignored pipe" {
		signal.Ignore(syscall.SIGPIPE)
	}
	unread := make(chan os.Signal, 1) // sent when its output has no reader
	signal.Notify(unread, syscall.SIGUSR1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	pool, err := gputrain.Open(ctx, sim.Config{Endpoint: u.Endpoint}, gputrain.Spec{Nodes: 2},
		gputrain.WithStateDir(u.State), gputrain.WithResultsDir(u.State), gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		return err
	}
	defer pool.Close()
	e2etest.Say("ready")
	switch u.End {
	case "fatal":
		log.Fatal("no")
	case "hangup":
		_, err := pool.Run(gputrain.Cmd("sleep", "1h"))
		if !errors.Is(err, gputrain.ErrClosed) && !errors.Is(err, context.Canceled) { // before or during the task
			return err
		}
		return pool.Close()
	}
	<-unread
	for range 20 {
		if _, err := pool.Run(gputrain.Cmd("echo", "more")); err != nil {
			return err
		}
	}
	return pool.Close()
})

// A closed terminal ends a pool, as Ctrl-C does. If log.Fatal or SIGPIPE kills the program, the
// pool remains and Reap ends it. With SIGPIPE ignored the pool is closed.
func TestProgramsThatEndUnattended(t *testing.T) {
	for end, leaves := range map[string]bool{"hangup": false, "fatal": true, "pipe": true, "ignored pipe": false} {
		t.Run(end, func(t *testing.T) {
			cloud := sim.New(sim.Options{Exec: e2etest.Words})
			defer cloud.Close()
			endpoint, err := cloud.Serve()
			if err != nil {
				t.Fatal(err)
			}
			state := t.TempDir()
			ended := runUnattended(t, unattended{endpoint, state, end})
			switch left := cloud.Live(); {
			case leaves && len(left) == 0:
				t.Errorf("%v, and nothing is left", ended)
			case !leaves && (!ended.Success() || len(left) > 0):
				t.Errorf("%v, and this is left: %v", ended, left)
			}
			if status, _ := ended.Sys().(syscall.WaitStatus); end == "pipe" && status.Signal() != syscall.SIGPIPE {
				t.Errorf("%v; want SIGPIPE", ended)
			}
			if _, err := gputrain.StateDir(state).Reap(t.Context(), sim.Config{Endpoint: endpoint}); err != nil {
				t.Error(err)
			}
			if left := cloud.Live(); len(left) > 0 {
				t.Errorf("after Reap this is left: %v", left)
			}
		})
	}
}

// runUnattended runs the program to its end and returns its state.
func runUnattended(t *testing.T, u unattended) *os.ProcessState {
	t.Helper()
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), e2etest.RoleEnv+"="+string(unattendedPrograms)+" "+string(text), "TMPDIR="+t.TempDir())
	if _, err := cmd.StdinPipe(); err != nil { // the pipe closes when this program ends
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "ready") {
	}
	if strings.HasSuffix(u.End, "pipe") {
		stdout.Close()
		cmd.Process.Signal(syscall.SIGUSR1)
	} else if u.End == "hangup" {
		cmd.Process.Signal(syscall.SIGHUP)
	}
	for lines.Scan() {
		t.Log(lines.Text())
	}
	cmd.Wait()
	return cmd.ProcessState
}

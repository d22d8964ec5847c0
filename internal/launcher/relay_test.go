//go:build unix

package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A local session is a command of sh on this computer.
type local struct {
	io.WriteCloser
	io.Reader
	cmd  *exec.Cmd
	once sync.Once
}

func (l *local) Close() error {
	l.once.Do(func() {
		l.WriteCloser.Close()
		l.cmd.Process.Kill()
		l.cmd.Wait()
	})
	return nil
}

func openLocal(_ context.Context, command string) (io.ReadWriteCloser, error) {
	return openCommand(exec.Command("sh", "-c", command))
}

func openCommand(cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &local{WriteCloser: in, Reader: out, cmd: cmd}, cmd.Start()
}

// agentScript returns the text of the agent, as the first node writes it.
func agentScript(t *testing.T, scratch string) string {
	t.Helper()
	bin := tools(t, map[string]string{"mpirun": "echo Open MPI"})
	args, _ := twoByTwo.Command(MPI, []string{"true"}, "")
	run(t, args, "", "GPUTRAIN_SCRATCH="+scratch, "PATH="+bin+":"+os.Getenv("PATH"))
	return filepath.Join(scratch, "mpi", "agent")
}

// A started is a request that a relay has started.
type started struct {
	node    int
	command string
}

// relay runs a relay until the end of the test and returns where its requests appear.
func relay(t *testing.T, r *Relay, answer func(ctx context.Context, command string) (int, error)) <-chan started {
	t.Helper()
	requests := make(chan started, 100)
	r.Start = func(ctx context.Context, node int, command string) (int, error) {
		command, found := strings.CutPrefix(command, "export GPUTRAIN_MPI_DIR=\"$PWD\"\n")
		if !found {
			t.Errorf("the processes of %.60q do not find their folder", command)
		}
		requests <- started{node, command}
		return answer(ctx, command)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return requests
}

// TestRelay checks that a daemon's words arrive as they are, and its exit code at the agent.
func TestRelay(t *testing.T) {
	scratch := t.TempDir()
	agent := agentScript(t, scratch)
	requests := relay(t, &Relay{Open: openLocal, Scratch: scratch, Nodes: twoByTwo.Addrs}, func(_ context.Context, command string) (int, error) {
		if strings.Contains(command, " fail ") {
			return 0, errors.New("the node is gone")
		}
		return len(strings.Fields(command)), nil
	})
	long := strings.Fields("orted" + strings.Repeat(" -mca a 0123456789", 66))
	for _, tt := range []struct {
		words []string
		want  int
		runs  string
	}{
		{[]string{"orted"}, 2, "exec 'orted'"},
		{[]string{" orted", "-mca", "ess", `"env"`, "-mca", "b", "\"it's  ; a * \xff (ü)\""}, 13, "exec 'orted' -mca ess 'env' -mca b 'it'\\''s  ; a * \xff (ü)'"},
		{long, 200, "exec 'orted'" + strings.Repeat(" -mca a '0123456789'", 66)},
		{[]string{"orted", "-mca", "fail", "1"}, 255, "exec 'orted' -mca fail '1'"},
	} {
		err := exec.Command("sh", append([]string{agent, "10.0.0.5"}, tt.words...)...).Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != tt.want {
			t.Errorf("%.40q: got %v, want exit code %d", tt.words, err, tt.want)
		}
		if got := <-requests; got.node != 1 || got.command != tt.runs {
			t.Errorf("node %d got %.90q, want %.90q", got.node, got.command, tt.runs)
		}
	}
	if left, _ := filepath.Glob(scratch + "/mpi/[0-9]*"); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

// TestRelayReconnects cuts each session, also while a command runs, and checks that nothing is started twice.
func TestRelayReconnects(t *testing.T) {
	scratch := t.TempDir()
	agent := agentScript(t, scratch)
	sessions := make(chan *local, 100)
	r := &Relay{Scratch: scratch, Nodes: twoByTwo.Addrs}
	r.Open = func(ctx context.Context, command string) (io.ReadWriteCloser, error) {
		s, err := openLocal(ctx, command)
		if err == nil {
			sessions <- s.(*local)
		}
		return s, err
	}
	release := make(chan struct{})
	requests := relay(t, r, func(ctx context.Context, _ string) (int, error) {
		select {
		case <-release:
			return 7, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	cmd := exec.Command("sh", agent, "10.0.0.4", "orted")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-requests
	for range 3 { // more would count as a node on which no session works
		(<-sessions).cmd.Process.Kill()
	}
	<-sessions
	close(release)
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
	select {
	case again := <-requests:
		t.Errorf("started twice: %v", again)
	default:
	}
}

// TestRelayWithoutAgent checks that an answer to an agent that was killed blocks nothing.
func TestRelayWithoutAgent(t *testing.T) {
	scratch := t.TempDir()
	agent := agentScript(t, scratch)
	release := make(chan struct{})
	requests := relay(t, &Relay{Open: openLocal, Scratch: scratch, Nodes: twoByTwo.Addrs}, func(_ context.Context, command string) (int, error) {
		if strings.Contains(command, "first") {
			<-release
		}
		return 3, nil
	})
	first := exec.Command("sh", agent, "10.0.0.4", "orted", "-mca", "first", "1")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	<-requests
	first.Process.Kill()
	first.Wait()
	close(release)
	var exit *exec.ExitError
	if err := exec.Command("sh", agent, "10.0.0.5", "orted", "-mca", "second", "1").Run(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit code 3", err)
	}
}

// TestRelayRefuses checks what a first node may not ask for.
func TestRelayRefuses(t *testing.T) {
	request := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name, want string
		ask        func(t *testing.T, dir string)
	}{
		{"another host", `daemon on "10.9.9.9"`, request("1.request", "10.9.9.9\norted")},
		{"no host", `daemon on ""`, request("1.request", "")},
		{"another program", "something else than a daemon", request("1.request", "10.0.0.4\nsh -c 'touch /tmp/x'")},
		{"a name", "listed", request("a;b.request", "10.0.0.4\norted")},
		{"a long name", "more than 64 bytes", request(strings.Repeat("1", 100)+".request", "10.0.0.4\norted")},
		{"a large one", "listed", request("1.request", strings.Repeat("x", maxRequest+1))},
		{"many", "more than 8 daemons", func(t *testing.T, dir string) {
			for i := range 9 {
				request(fmt.Sprint(i, ".request"), "10.0.0.4\norted")(t, dir)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scratch := t.TempDir()
			if err := os.Mkdir(scratch+"/mpi", 0o777); err != nil {
				t.Fatal(err)
			}
			tt.ask(t, scratch+"/mpi")
			r := &Relay{Open: openLocal, Scratch: scratch, Nodes: twoByTwo.Addrs, Start: func(ctx context.Context, _ int, _ string) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}}
			if err := r.Run(t.Context()); !errors.Is(err, ErrRelay) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A brokenSession is over before it says anything.
type brokenSession struct{}

func (brokenSession) Read([]byte) (int, error)    { return 0, io.EOF }
func (brokenSession) Write(p []byte) (int, error) { return len(p), nil }
func (brokenSession) Close() error                { return nil }

// TestRelayGivesUp checks that a node on which no session works ends the relay.
func TestRelayGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened, failure := 0, errors.New("no session")
		r := &Relay{Scratch: "scratch", Nodes: twoByTwo.Addrs, Open: func(context.Context, string) (io.ReadWriteCloser, error) {
			if opened++; opened%2 == 0 {
				return nil, failure
			}
			return brokenSession{}, nil
		}}
		if err := r.Run(t.Context()); !errors.Is(err, failure) || opened != mostSessions {
			t.Errorf("got %v after %d sessions", err, opened)
		}
	})
}

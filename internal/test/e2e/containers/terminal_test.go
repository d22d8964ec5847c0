//go:build linux

package containers

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// bar draws progress if it has a terminal, and waits for the file go between two steps.
const bar = `test -t 1 && test -t 2 || exit 9; printf '\r 50%%'; until [ -e go ]; do sleep 0.05; done; printf '\r100%%\n'; read -r x; echo "$x" >&2; stty size <&1`

func terminalTask() gputrain.Task {
	t := gputrain.Script(bar)
	t.TTY, t.Stdin, t.Name = true, []byte("typed\n"), "bar"
	return t
}

const drawn = "\r 50%\r100%\ntyped\n24 80\n"

// A command with a terminal draws its progress, survives cut connections and its program, and ends as any other.
func TestTerminal(t *testing.T) {
	var host *e2etest.OwnHost
	for name, provider := range map[string]func(t *testing.T) driver.Provider{
		"local": func(t *testing.T) driver.Provider { return local.Config{Dir: t.TempDir()} },
		"hosts": func(t *testing.T) driver.Provider {
			host = e2etest.NewHost(t)
			return ssh.Config{Hosts: []ssh.Host{host.Host()}}
		},
		"container": func(t *testing.T) driver.Provider {
			e2etest.NeedDocker(t)
			cfg := container.Config{}
			if exec.Command("docker", "image", "inspect", container.HomeMadeImage).Run() == nil {
				cfg.Image = container.HomeMadeImage
			}
			return cfg
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, state, ctx := provider(t), gputrain.WithStateDir(t.TempDir()), context.Background()
			var shown printed
			pool, err := gputrain.Open(ctx, p, gputrain.Spec{Concurrency: 2}, state, gputrain.WithOutput(&shown, &shown))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			fails := gputrain.Script("echo it failed >&2; exit 3")
			fails.TTY = true
			var failed *gputrain.TaskError
			if r, err := pool.Run(fails); !errors.As(err, &failed) || failed.ExitCode != 3 || failed.Tail != "it failed" || len(r.Stderr) > 0 || string(r.Stdout) != "it failed\n" {
				t.Errorf("%q, %q, %v", r.Stdout, r.Stderr, err)
			}
			slow := gputrain.Cmd("sleep", "600")
			slow.TTY, slow.Timeout = true, 300*time.Millisecond
			if _, err := pool.Run(slow); !errors.As(err, &failed) || failed.Cause != gputrain.CauseTimeout {
				t.Errorf("%v", err)
			}
			slow.Timeout = 0
			cancelled := pool.Start(slow)
			job := pool.Start(terminalTask())
			if _, err := job.Stdout().Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancelled.Cancel()
			if _, err := cancelled.Wait(); !errors.As(err, &failed) || failed.Cause != gputrain.CauseCancelled {
				t.Errorf("%v", err)
			}
			if name == "hosts" {
				host.Link.Cut()
			}
			if _, err := pool.Run(gputrain.Cmd("true")); err != nil { // the connection is back
				t.Error(err)
			}
			id, err := pool.Detach()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := job.Wait(); !errors.Is(err, gputrain.ErrClosed) {
				t.Errorf("%v", err)
			}

			again, err := gputrain.Attach(ctx, p, id, state, gputrain.WithOutput(&shown, &shown))
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			jobs := again.Jobs()
			if len(jobs) != 1 {
				t.Fatalf("%d jobs", len(jobs))
			}
			if _, err := again.Run(gputrain.Cmd("touch", "go")); err != nil {
				t.Error(err)
			}
			if r, err := jobs[0].Wait(); err != nil || string(r.Stdout) != drawn || len(r.Stderr) > 0 {
				t.Errorf("%q, %q, %v", r.Stdout, r.Stderr, err)
			}
			if r, err := again.Run(terminalTask()); err != nil || string(r.Stdout) != drawn {
				t.Errorf("after Attach: %q, %v", r.Stdout, err)
			}
			if text := shown.String(); !strings.Contains(text, "[bar] 100%\n[bar] typed\n") {
				t.Errorf("shown: %q", text)
			}
		})
	}
}

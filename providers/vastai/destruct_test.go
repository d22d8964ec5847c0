package vastai

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A test waits for an event for at most eventTimeout.
const eventTimeout = time.Minute

// byItself returns a fake whose instances run their onstart.
func byItself(t *testing.T, rows ...row) *fake {
	f := startFake(t, rows...)
	f.runOnStart = true
	return f
}

func ended(t *testing.T, m *fakecloud.Machine) {
	t.Helper()
	select {
	case <-m.Down():
	case <-time.After(eventTimeout):
		t.Error("the machine goes on")
	}
}

// machine returns the machine of an instance, which may be gone.
func (f *fake) machine(id string) (m *fakecloud.Machine) {
	f.Do(func() { m = f.booted[id] })
	return m
}

// A machine whose client is gone destroys its instance, with its own key and any tool
// that speaks HTTP.
func TestSelfDestruct(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "wget", "python3"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(tool)
			if err != nil {
				t.Skipf("%s is not installed", tool)
			}
			if tool == "python3" { // python3 may be a script that looks for the real one
				out, err := exec.Command(tool, "-c", "import sys; print(sys.executable)").Output()
				if path = strings.TrimSpace(string(out)); err != nil || path == "" {
					t.Skipf("python3 does not run: %v", err)
				}
			}
			if help, _ := exec.Command(tool, "--help").CombinedOutput(); tool == "wget" && !strings.Contains(string(help), "--method") {
				t.Skip("this wget cannot DELETE")
			}
			bin := t.TempDir()
			for _, name := range []string{"sh", "tr", "sed", "head", "grep", "sleep"} {
				if found, err := exec.LookPath(name); err != nil || os.Symlink(found, filepath.Join(bin, name)) != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\nexec "+path+" \"$@\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			f := startFake(t, nil, nil)
			d := prepared(t, f)
			in, other := mustLaunch(t, d, gputrain.Spec{}, 0), mustLaunch(t, d, gputrain.Spec{}, 1)
			m := f.machine(in.ID)
			text := d.Scripts(in).SelfDestruct
			if strings.Contains(text, testKey) || !strings.Contains(text, in.ID) {
				t.Errorf("%s", text)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
			cmd.Env = []string{"PATH=" + bin, "HOME=" + m.Home, "CONTAINER_API_KEY=" + instanceKey(asInt(in.ID)), "FAKECLOUD_MACHINE=" + filepath.Dir(m.Home)}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended(t, m)
			cmd.Wait() // the machine's end kills the script
			if got := cloudtest.Describe(t, d, other.ID); got.State != driver.InstanceRunning {
				t.Errorf("the other: %+v", got)
			}
		})
	}
}

// If Endpoint is on the user's own computer, a node cannot reach it, and another server
// may answer at that address on the node. So the node also calls Vast itself.
func TestSelfDestructWhereEndpointIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/sh\nexec "+sleep+" 0.05\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deaf.Close()
	polite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"success":true}`) }))
	defer polite.Close()
	for _, endpoint := range []string{"http://" + deaf.Addr().String(), polite.URL} {
		f := startFake(t, nil)
		in := mustLaunch(t, prepared(t, f), gputrain.Spec{}, 0)
		cfg := f.config()
		cfg.Endpoint = endpoint
		p, err := newProvider(cfg.complete(), testKey)
		if err != nil {
			t.Fatal(err)
		}
		text := newDriver(p).Scripts(in).SelfDestruct
		if !strings.Contains(text, defaultEndpoint) {
			t.Fatalf("%s", text)
		}
		m := f.machine(in.ID)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(text, defaultEndpoint, f.URL))
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + m.Home, "CONTAINER_API_KEY=" + instanceKey(asInt(in.ID)), "FAKECLOUD_MACHINE=" + filepath.Dir(m.Home)}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended(t, m)
		cmd.Wait() // the machine's end kills the script
	}
	p, err := newProvider(Config{}.complete(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if text := newDriver(p).Scripts(driver.Instance{ID: "17"}).SelfDestruct; strings.Count(text, defaultEndpoint) != 1 {
		t.Errorf("%s", text)
	}
}

// A node that no program takes over destroys itself. A node that is taken over does not.
func TestFirstDeadline(t *testing.T) {
	t.Parallel()
	f := byItself(t, nil, nil)
	d := prepared(t, f, func(c *Config) { c.InstanceTimeout = 3 * time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	work := exec.CommandContext(ctx, "sleep", "600") // the mark of a node that is taken over
	work.Env = []string{"PATH=/usr/bin:/bin", "GPUTRAIN_NODE=p1-0"}
	if err := work.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	defer work.Wait()
	defer cancel()
	taken := mustLaunch(t, d, gputrain.Spec{}, 0)
	m := f.machine(taken.ID)
	forgotten := mustLaunch(t, d, gputrain.Spec{}, 1)
	ended(t, f.machine(forgotten.ID))
	if got := cloudtest.Describe(t, d, taken.ID); got.State != driver.InstanceRunning {
		t.Errorf("it was taken over: %+v", got)
	}
	environment, err := os.ReadFile(filepath.Join(m.Home, "environment"))
	if err != nil || !strings.Contains(string(environment), "CUDA_VERSION=12.9\n") || strings.Contains(string(environment), "CONTAINER_API_KEY") {
		t.Errorf("%q, %v", environment, err)
	}
	if _, err := os.Stat(filepath.Join(m.Home, ".no_auto_tmux")); err != nil {
		t.Error(err)
	}
}

// A pool's TTL ends its nodes even if nothing else does, taken over or not.
func TestTTLEndsTheInstance(t *testing.T) {
	t.Parallel()
	f := byItself(t, nil)
	d := prepared(t, f)
	for rank := range 2 {
		req := request(gputrain.Spec{}, cloudtest.AllOffers(t, d, driver.Query{})[0], rank)
		req.Pool.Expires = time.Now().Add(time.Second)
		got, err := d.Launch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		m := f.machine(got[0].ID)
		if rank > 0 {
			ended(t, m)
			continue
		}
		work := exec.CommandContext(t.Context(), "sleep", "60")
		work.Env = []string{"PATH=/usr/bin:/bin", "GPUTRAIN_NODE=p1-0", "FAKECLOUD_MACHINE=" + filepath.Dir(m.Home)}
		if err := work.Start(); err != nil {
			t.Fatal(err)
		}
		ended(t, m)
		work.Wait()
	}
}

// An onstart is within the API's documented limit of 4,000 characters, and every shell parses it.
func TestOnStartIsShort(t *testing.T) {
	t.Parallel()
	p, err := newProvider(Config{}.complete(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := cloudtest.Info(strings.Repeat("p", 40))
	pool.Expires = time.Now().Add(time.Hour)
	text, err := p.cfg.onStart(pool, strings.Repeat("p", 40)+"-100-r10", time.Now())
	if err != nil || len(text) > maxOnStart || strings.Contains(text, testKey) {
		t.Errorf("%d characters, %v", len(text), err)
	}
	t.Logf("%d characters", len(text))
	for _, shell := range []string{"dash", "bash", "sh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for _, text := range []string{text, newDriver(p).Scripts(driver.Instance{ID: "17"}).SelfDestruct} {
			if out, err := exec.Command(shell, "-n", "-c", text).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	long := Config{Endpoint: "https://" + strings.Repeat("a", maxOnStart)}.complete()
	if _, err := long.onStart(pool, "p-0", time.Now()); err == nil {
		t.Error("an onstart that is too long is sent")
	}
}

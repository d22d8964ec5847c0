//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A connection that is cut while output flows and tasks start and end loses nothing, and nothing runs twice.
func TestCut(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		link := opensshtest.Proxy(t, srv.Addr)
		n := start(t, connect(t, srv, link.Addr), config(t, shell))
		count := filepath.Join(t.TempDir(), "count")

		// One task prints all the time, more than passes between two cuts. Many short tasks start and end meanwhile,
		// and each adds a line to a file.
		const size, short = 8 << 20, 60
		var wg sync.WaitGroup
		var out bytes.Buffer
		link.CutAfter(200_000, 350_001, 500_002, 650_003, 800_004)
		wg.Go(func() {
			x, err := n.Run(t.Context(), Spec{ID: "long", Script: "echo long >>'" + count + "'; i=0; while [ $i -lt 128 ]; do yes line-of-text | head -c 65536; i=$((i+1)); done"},
				Sinks{Stdout: &out, Live: true})
			if err != nil || x.Code != 0 {
				t.Errorf("%+v, %v", x, err)
			}
		})
		for w := range 3 {
			wg.Go(func() {
				for i := range short / 3 {
					id := fmt.Sprintf("s-%d-%d", w, i)
					r := run(t, n, Spec{ID: id, Script: "echo " + id + " >>'" + count + "'; echo out-" + id + "; cat", Stdin: onlyReader{strings.NewReader(id)}})
					if r.err != nil || r.out != "out-"+id+"\n"+id || r.Code != 0 {
						t.Errorf("%+v", r)
					}
				}
			})
		}
		wg.Wait()
		if link.Dials() < 6 {
			t.Error("too few cuts")
		}
		if want := strings.Repeat("line-of-text\n", 65536/13+1)[:65536]; out.Len() != size || strings.Repeat(want, 128) != out.String() {
			t.Errorf("the output is not what was printed: %d bytes of %d", out.Len(), size)
		}
		text, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, l := range strings.Fields(string(text)) {
			if seen[l]++; seen[l] > 1 {
				t.Errorf("%s ran %d times", l, seen[l])
			}
		}
		if len(seen) != short+1 {
			t.Errorf("%d tasks ran, want %d", len(seen), short+1)
		}
		t.Logf("%d connections", link.Dials())
	})
}

// A task that ends while the connection is down is reported when the connection is back.
func TestEndsWhileDown(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		link := opensshtest.Proxy(t, srv.Addr)
		n := start(t, connect(t, srv, link.Addr), config(t, shell))
		w := newWatch()
		result := make(chan error, 1)
		go func() {
			x, err := n.Run(t.Context(), Spec{ID: "a", Script: "echo $$ >pid; echo begin; until [ -e go ]; do sleep 0.05; done; echo end; exit 9"}, Sinks{Stdout: w, Live: true})
			if err == nil && (x.Code != 9 || x.Cause != Exited) {
				err = fmt.Errorf("%+v", x)
			}
			result <- err
		}()
		w.await(t, "begin")
		link.Refuse(true)
		link.Cut()
		if err := os.WriteFile(n.facts.WorkDir+"/go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		pid := await(t, n.facts.WorkDir+"/pid")
		until(t, "the command's end", func() bool { return gone(pid) == nil })
		link.Refuse(false)
		if err := <-result; err != nil || w.String() != "begin\nend\n" {
			t.Errorf("%q, %v", w.String(), err)
		}
	})
}

// The death of a part of the supervisor on the node is noticed.
func TestKilled(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		n.mu.Lock()
		n.poll.patience = time.Second
		n.mu.Unlock()
		kill := func(file string, word int) {
			var pid int
			until(t, "the pid in "+file, func() bool {
				if w := strings.Fields(await(t, n.facts.Root+"/t/"+file)); len(w) > word {
					pid, _ = strconv.Atoi(w[word])
				}
				return pid > 0
			})
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		waiter, parts := "w.start", []string{"control", "reporter"}
		if shell == "perl" {
			waiter, parts = "runner", []string{"session"}
		}
		t.Run("wrapper", func(t *testing.T) {
			var pid string // what the command prints may be lost with the wrapper
			r := runCtx(t.Context(), n, Spec{ID: "w", Script: "echo $$ >pid; exec sleep 600"}, func() {
				pid = await(t, n.facts.WorkDir+"/pid")
				kill(waiter, 0)
			})
			if r.err != nil || r.Cause != Vanished || r.Code != -1 {
				t.Errorf("%+v", r)
			}
			until(t, "the command's end", func() bool { return gone(pid) == nil })
		})
		for i, part := range parts {
			t.Run(part, func(t *testing.T) {
				w := newWatch()
				x, err := n.Run(t.Context(), Spec{ID: part, Script: "echo x >>runs; echo begin; sleep 0.5; echo end"},
					Sinks{Stdout: w, Started: func() { kill("ctl", 2*i) }, Live: true})
				if err != nil || x.Code != 0 || w.String() != "begin\nend\n" {
					t.Errorf("%+v, %v, %q", x, err, w.String())
				}
			})
		}
		if b, _ := os.ReadFile(n.facts.WorkDir + "/runs"); string(b) != strings.Repeat("x\n", len(parts)) {
			t.Errorf("runs: %q", b)
		}
	})
}

func TestLease(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		t.Run("lapses", func(t *testing.T) {
			link := opensshtest.Proxy(t, srv.Addr)
			cfg := config(t, shell)
			cfg.Lease = 2 * time.Second // beats come four times as often
			glass := newHourglass(t, &cfg)
			n := start(t, connect(t, srv, link.Addr), cfg)
			result := make(chan error, 1)
			w := newWatch()
			go func() {
				_, err := n.Run(t.Context(), Spec{Script: "trap '' TERM; echo up; sleep 600; sleep 600", ID: "a"}, Sinks{Stdout: w, Live: true})
				result <- err
			}()
			w.await(t, "up")
			for range 5 { // the lease is renewed: nothing may happen
				was := await(t, n.facts.Root+"/t/lease")
				until(t, "a beat", func() bool { return await(t, n.facts.Root+"/t/lease") != was })
				glass.pass(t, n, 1)
			}
			link.Refuse(true)
			link.Cut()
			glass.lapses(t, n)
			link.Refuse(false)
			if err := <-result; !errors.Is(err, ErrLapsed) {
				t.Errorf("%v", err)
			}
			until(t, "the end of all processes", func() bool { return len(processes(t, "GPUTRAIN_POOL="+cfg.PoolID)) == 0 }) // the watcher is the last
		})
		t.Run("ttl", func(t *testing.T) {
			cfg := config(t, shell)
			mark := filepath.Join(t.TempDir(), "mark")
			cfg.TTL, cfg.SelfDestruct = 12*time.Second, "echo 'it''s' \"$GPUTRAIN_POOL\" >'"+mark+"'"
			glass := newHourglass(t, &cfg)
			n := start(t, connect(t, srv, ""), cfg)
			result := longTask(t, n)
			glass.pass(t, n, 10)
			until(t, "the mark", func() bool {
				glass.turn(t)
				_, err := os.Stat(mark)
				return err == nil && await(t, mark) == "its "+cfg.PoolID+"\n"
			})
			if err := <-result; !errors.Is(err, ErrLapsed) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(n.facts.Root); err != nil {
				t.Error("removed, though SelfDestruct does not ask for it: ", err)
			}
		})
	})
}

func TestSecrets(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		const secret, destruct = "s3cr3t-in-env", "s3cr3t-in-self-destruct"
		cfg.SelfDestruct = "echo " + destruct
		n := start(t, connect(t, srv, ""), cfg)
		check := func() {
			procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, p := range procs {
				if b, _ := os.ReadFile(p); bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte(destruct)) {
					t.Errorf("%s: %q", p, b)
				}
			}
			files := 0
			err := filepath.WalkDir(n.facts.Root, func(path string, d os.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				files++
				b, err := os.ReadFile(path)
				if os.IsNotExist(err) {
					return nil // it was no longer needed
				}
				if bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte(destruct)) {
					t.Errorf("%s holds a secret", path)
				}
				return err
			})
			if err != nil || files == 0 {
				t.Errorf("%d files, %v", files, err)
			}
		}
		r := runCtx(t.Context(), n, Spec{
			Script: `sleep 0.5; printf %s "$TOKEN" | wc -c`, Secrets: map[string]string{"TOKEN": secret, "my.token": secret},
			Stdin: strings.NewReader("x"), Timeout: time.Minute,
		}, check)
		if strings.TrimSpace(r.out) != strconv.Itoa(len(secret)) || r.err != nil {
			t.Errorf("%+v", r)
		}
		check()
	})
}

func TestRoot(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		for name, env := range map[string]func(dir string) (vars, root string){
			"home":           func(d string) (string, string) { return "HOME='" + d + "'", d + "/.gputrain/pools/" },
			"home missing":   func(d string) (string, string) { return "HOME=/nowhere/x TMPDIR='" + d + "'", d + "/gputrain-" },
			"home read-only": func(d string) (string, string) { return "HOME=/proc/self TMPDIR='" + d + "'", d + "/gputrain-" },
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir() + "/a b"
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				cfg := config(t, shell)
				vars, root := env(dir)
				cfg.Root, cfg.Shell = "", "env "+vars+" "+cfg.Shell
				n, err := Start(t.Context(), connect(t, srv, ""), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if f := n.Facts(); !strings.HasPrefix(f.Root, root) || f.WorkDir != f.Root+"/work" {
					t.Errorf("%+v", f)
				}
				if r := run(t, n, Spec{Args: []string{"pwd"}}); r.out != n.Facts().WorkDir+"\n" {
					t.Errorf("%+v", r)
				}
				if err := n.Close(t.Context(), true); err != nil {
					t.Error(err)
				}
				left, err := os.ReadDir(dir)
				if err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		}
		t.Run("nowhere", func(t *testing.T) {
			cfg := config(t, shell)
			cfg.Root, cfg.Shell = "", "env HOME=/nowhere TMPDIR=/proc/self "+cfg.Shell
			if n, err := Start(t.Context(), connect(t, srv, ""), cfg); err == nil || !strings.Contains(err.Error(), "cannot make a folder") {
				t.Errorf("%v, %v", n, err)
			}
		})
		t.Run("no shell", func(t *testing.T) {
			cfg := config(t, "no-such-shell")
			if _, err := Start(t.Context(), connect(t, srv, ""), cfg); err == nil || !strings.Contains(err.Error(), "no-such-shell") {
				t.Errorf("%v", err)
			}
		})
	})
}

func TestFacts(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) { testFacts(t, srv, shell) })
}

func testFacts(t *testing.T, srv *opensshtest.Server, shell string) {
	cfg := config(t, shell)
	cfg.Disk = true
	n := start(t, connect(t, srv, ""), cfg)
	f := n.Facts()
	if f.OS != runtime.GOOS || f.Arch != runtime.GOARCH || f.CPUs < 1 || f.MemoryBytes < 1<<20 || f.DiskFreeBytes < 1<<20 || f.UID != os.Getuid() ||
		!f.Tools["tar"] || !f.Tools["od"] || f.Tools["no such"] || f.Home == "" || f.Path == "" {
		t.Errorf("%+v", f)
	}
}

func TestClose(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		link := opensshtest.Proxy(t, srv.Addr)
		n := start(t, connect(t, srv, link.Addr), config(t, shell))
		w := newWatch()
		result := make(chan error, 1)
		go func() {
			_, err := n.Run(t.Context(), Spec{ID: "a", Script: "mkdir -p locked/in; chmod 0 locked; setsid sleep 600 & trap '' TERM; echo up; sleep 600; sleep 600"}, Sinks{Stdout: w, Live: true})
			result <- err
		}()
		w.await(t, "up")
		link.Cut() // the control session is gone
		for range 2 {
			if err := n.Close(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-result; !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if r := run(t, n, Spec{Args: []string{"true"}}); !errors.Is(r.err, ErrClosed) {
			t.Errorf("%+v", r)
		}
		clean(t, n)
	})
}

func TestDiskFull(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		dir := disktest.Small(t, 256<<10)
		link := opensshtest.Proxy(t, srv.Addr)
		cfg := config(t, shell)
		cfg.Root = dir + "/pool"
		n := start(t, connect(t, srv, link.Addr), cfg)
		r := run(t, n, Spec{Script: "dd if=/dev/zero of=big bs=4096; echo more; yes | head -n 10000; exit 7"})
		if r.err != nil || r.Code != 7 || r.Cause != Exited || !r.DiskFull {
			t.Errorf("%+v", r)
		}
		if shell == "perl" { // short output needs no disk space
			for range 3 * sweepMany {
				if r := run(t, n, Spec{Script: "echo out; echo err >&2"}); r.err != nil || r.out != "out\n" || r.errs != "err\n" || r.DiskFull {
					t.Fatalf("%+v", r)
				}
			}
		} else if r := run(t, n, Spec{Args: []string{"true"}}); !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, ErrDiskFull) {
			t.Errorf("%+v", r)
		}
		if r := run(t, n, Spec{Args: []string{"cat"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}); !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, ErrDiskFull) {
			t.Errorf("%+v", r)
		}
		link.Cut() // a full disk does not prevent a takeover
		if err := os.Remove(n.facts.WorkDir + "/big"); err != nil {
			t.Error(err)
		}
		if r := run(t, n, Spec{Script: "echo again"}); r.out != "again\n" || r.err != nil {
			t.Errorf("%+v", r)
		}
	})
}

// Output of any length passes in bounded memory, and a slow sink delays no other task.
func TestMuchOutput(t *testing.T) {
	srv := opensshtest.Start(t)
	n := start(t, connect(t, srv, ""), config(t, "perl"))
	size := int64(1 << 30)
	if testing.Short() || bubble.Race {
		size = 64 << 20
	}
	var peak uint64
	sink := &counter{each: func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}}
	slow := &gate{open: make(chan struct{})}
	slowDone := make(chan error, 1)
	go func() {
		x, err := n.Run(t.Context(), Spec{ID: "slow", Script: "yes | head -c 20000000"}, Sinks{Stdout: slow, Live: true})
		if err == nil && x.StdoutBytes != 20000000 {
			err = fmt.Errorf("%+v", x)
		}
		slowDone <- err
	}()
	x, err := n.Run(t.Context(), Spec{ID: "much", Script: fmt.Sprintf("yes | head -c %d", size)}, Sinks{Stdout: sink, Live: true})
	if err != nil || sink.n != size || x.StdoutBytes != size {
		t.Errorf("%d bytes, %+v, %v", sink.n, x, err)
	}
	if peak > 128<<20 {
		t.Errorf("%d MiB of memory", peak>>20)
	}
	close(slow.open)
	if err := <-slowDone; err != nil {
		t.Error(err)
	}
}

// A counter counts bytes, and calls each from time to time.
type counter struct {
	n, last int64
	each    func()
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	if c.n-c.last > 16<<20 {
		c.last = c.n
		c.each()
	}
	return len(p), nil
}

// A gate blocks its writers until it is open.
type gate struct{ open chan struct{} }

func (g *gate) Write(p []byte) (int, error) { <-g.open; return len(p), nil }

func TestSinkFails(t *testing.T) {
	srv := opensshtest.Start(t)
	n := start(t, connect(t, srv, ""), config(t, "perl"))
	r, w := io.Pipe()
	r.Close()
	_, err := n.Run(t.Context(), Spec{ID: "a", Script: "echo x; sleep 600"}, Sinks{Stdout: w, Live: true})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// The client waits until a dead connection is replaced, and a cancellation that was sent meanwhile still arrives.
func TestCancelWhileDown(t *testing.T) {
	srv := opensshtest.Start(t)
	link := opensshtest.Proxy(t, srv.Addr)
	n := start(t, connect(t, srv, link.Addr), config(t, "perl"))
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatch()
	result := make(chan error, 1)
	go func() {
		x, err := n.Run(ctx, Spec{ID: "a", Script: "echo up; sleep 600"}, Sinks{Stdout: w, Live: true})
		if err == nil && x.Cause != Cancelled {
			err = fmt.Errorf("%+v", x)
		}
		result <- err
	}()
	w.await(t, "up")
	link.Refuse(true)
	link.Cut()
	cancel()
	link.Refuse(false)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

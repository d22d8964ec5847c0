package telemetry

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// connected returns a server, and a client of it.
func connected(t *testing.T, cfg sshd.Config) (*sshd.Server, *ssh.Client) {
	t.Helper()
	host, _, _, err := sshd.Keys("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.HostKey, cfg.AuthorizedKeys = host, []xssh.PublicKey{host.PublicKey()}
	server, err := sshd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := ssh.New(ssh.Config{
		User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(host)}, HostKey: xssh.FixedHostKey(host.PublicKey()),
		Dial: func(context.Context) (net.Conn, error) { return server.Dial() },
	})
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server, c
}

// A rig is a watch in virtual time of a node whose sampler is a function.
type rig struct {
	server  *sshd.Server
	up      bool
	mu      sync.Mutex
	reports []Report
}

// watched runs f beside a watch. The sampler's n-th session is run by script, from 1 on, until its stdin ends.
func watched(t *testing.T, script func(n int, out, log io.Writer, over <-chan struct{}), f func(r *rig)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		sessions := 0
		r := &rig{up: true}
		server, c := connected(t, sshd.Config{Run: func(_ context.Context, p sshd.Program) int {
			sessions++
			over := make(chan struct{})
			var running sync.WaitGroup
			running.Go(func() { script(sessions, p.Stdout, p.Stderr, over) })
			io.Copy(io.Discard, p.Stdin)
			close(over)
			running.Wait()
			return 0
		}})
		r.server = server
		defer server.Close()
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			Watch(ctx, Node{Commands: c, IsUp: func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.up }}, func(report Report) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.reports = append(r.reports, report)
			})
		})
		f(r)
	})
}

// counts returns how many samples there were, and the faults.
func (r *rig) counts() (samples int, faults []Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, report := range r.reports {
		if report.Fault != nil {
			faults = append(faults, *report.Fault)
		} else {
			samples++
		}
	}
	return samples, faults
}

func (r *rig) setUp(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = up
}

// every prints a text every ten seconds, until it is over.
func every(out io.Writer, text string, over <-chan struct{}) {
	for {
		io.WriteString(out, text)
		select {
		case <-over:
			return
		case <-time.After(10 * time.Second):
		}
	}
}

const (
	header = "tool nvidia-smi index,pci.bus_id,utilization.gpu\nkernel dmesg [100.5] before\n"
	two    = "0, 00000000:01:00.0, 7\n1, 00000000:02:00.0, 9\n"
)

func xidAt(seconds float64, device, xid int) string {
	return fmt.Sprintf("[%.6f] NVRM: Xid (PCI:0000:%02x:00): %d, pid=1, x\n", seconds, device, xid)
}

// Samples come one by one, and lines of the log that are older than the watch are not looked at.
func TestWatch(t *testing.T) {
	script := func(_ int, out, log io.Writer, over <-chan struct{}) {
		io.WriteString(out, header)
		time.Sleep(time.Second)
		io.WriteString(log, xidAt(99, 1, 79)+xidAt(100.5, 1, 79)+xidAt(101, 2, 94))
		every(out, two, over)
	}
	watched(t, script, func(r *rig) {
		time.Sleep(65 * time.Second)
		samples, faults := r.counts()
		if samples != 7 || len(faults) != 1 || faults[0].Xid != 94 || faults[0].Device != "0000:02:00.0" {
			t.Errorf("%d samples, %v", samples, faults)
		}
		if got := r.reports[len(r.reports)-1]; len(got.Samples) != 2 || got.Samples[1].Utilization != 9 || !got.KernelLog {
			t.Errorf("%+v", got)
		}
	})
}

// A log that cannot be read is unknown.
func TestWatchWithoutKernelLog(t *testing.T) {
	script := func(_ int, out, _ io.Writer, over <-chan struct{}) {
		io.WriteString(out, strings.Replace(header, "dmesg [100.5] before", "unknown", 1))
		every(out, two, over)
	}
	watched(t, script, func(r *rig) {
		time.Sleep(15 * time.Second)
		if samples, _ := r.counts(); samples != 2 || r.reports[0].KernelLog {
			t.Errorf("%d samples, %+v", samples, r.reports)
		}
	})
}

// After a lost connection the sampler runs again, and what the kernel has logged meanwhile is new.
func TestWatchAfterALostConnection(t *testing.T) {
	script := func(n int, out, log io.Writer, over <-chan struct{}) {
		io.WriteString(out, strings.Replace(header, "100.5", fmt.Sprint(n*100), 1))
		io.WriteString(log, xidAt(50, 1, 48)+xidAt(150, 1, 94))
		every(out, two, over)
	}
	watched(t, script, func(r *rig) {
		time.Sleep(time.Minute)
		r.server.HangUp()
		time.Sleep(time.Minute)
		if samples, faults := r.counts(); samples < 10 || len(faults) != 1 || faults[0].Xid != 94 {
			t.Errorf("%d samples, %v", samples, faults)
		}
	})
}

// A tool that hangs while the node can be reached is a fault, once each time.
func TestWatchOfAToolThatHangs(t *testing.T) {
	script := func(_ int, out, _ io.Writer, over <-chan struct{}) {
		io.WriteString(out, header)
		for range 2 {
			io.WriteString(out, two)
			time.Sleep(5 * time.Minute)
		}
		<-over
	}
	watched(t, script, func(r *rig) {
		time.Sleep(10 * time.Second)
		for minute, want := range []int{0, 1, 1, 1, 1, 1, 2, 2} {
			if _, faults := r.counts(); len(faults) != want || want > 0 && faults[0].Severity != Replace {
				t.Errorf("minute %d: %v", minute, faults)
			}
			time.Sleep(time.Minute)
		}
	})
	watched(t, script, func(r *rig) {
		r.setUp(false)
		time.Sleep(4 * time.Minute)
		if _, faults := r.counts(); len(faults) > 0 {
			t.Errorf("while the node cannot be reached: %v", faults)
		}
	})
}

// A tool that ends is a fault if it has worked before.
func TestWatchOfAToolThatFails(t *testing.T) {
	const failure = "Failed to initialize NVML: Driver/library version mismatch\nended 18\n"
	for name, tt := range map[string]struct {
		before string
		faults int
	}{"it has worked": {two, 1}, "it never worked": {"", 0}} {
		script := func(_ int, out, _ io.Writer, over <-chan struct{}) {
			io.WriteString(out, header+tt.before)
			every(out, failure, over)
		}
		watched(t, script, func(r *rig) {
			time.Sleep(10 * time.Minute)
			_, faults := r.counts()
			if len(faults) != tt.faults || tt.faults > 0 && !strings.Contains(faults[0].Text, "version mismatch") {
				t.Errorf("%s: %v", name, faults)
			}
		})
	}
}

// A node without a tool that samples is watched by its log.
func TestWatchWithoutATool(t *testing.T) {
	script := func(_ int, out, log io.Writer, over <-chan struct{}) {
		io.WriteString(out, "tool none\nkernel dmesg [1] x\n")
		time.Sleep(10 * time.Minute)
		io.WriteString(log, xidAt(700, 1, 79))
		<-over
	}
	watched(t, script, func(r *rig) {
		time.Sleep(11 * time.Minute)
		if samples, faults := r.counts(); samples != 0 || len(faults) != 1 || faults[0].Xid != 79 {
			t.Errorf("%d samples, %v", samples, faults)
		}
	})
}

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

// However much a hostile node says, there is a sample each leastPause at most, of bounded devices, and faults are told by device and
// hour. A severe one is told after any number of slight ones.
func TestWatchOfANodeThatFloods(t *testing.T) {
	const minutes = 10
	for name, tt := range map[string]struct {
		says   func(i int) (out, log string)
		faults int // at most
	}{
		"samples":        {func(int) (string, string) { return two, "" }, 0},
		"other devices":  {func(i int) (string, string) { return fmt.Sprintf("0, %08X:01:00.0, 7\n", i), "" }, nodeFaults},
		"memory errors":  {func(i int) (string, string) { return fmt.Sprintf("0, 00000000:01:00.0, 7, %d\n", i), "" }, 2 * hourlyFaults},
		"log":            {func(i int) (string, string) { return "", xidAt(float64(1000+i), 1, 13+i%2) }, 3 * hourlyFaults},
		"log of devices": {func(i int) (string, string) { return "", xidAt(float64(1000+i), i, 48) }, nodeFaults},
		"log of xids":    {func(i int) (string, string) { return "", xidAt(float64(1000+i), 1, i) }, 4 * hourlyFaults},
		"devices lost":   {func(i int) (string, string) { return fmt.Sprintf("%d, [GPU is lost], x\n", i), "" }, nodeFaults},
		"rows of remaps": {func(i int) (string, string) {
			return two + []string{"00000000:01:00.0, Yes, No\n", "00000000:01:00.0, No, No\n"}[i%2], ""
		}, hourlyFaults},
		"vanish and come": {func(i int) (string, string) { return []string{two, two[:len(two)/2]}[i/1000%2], "" }, 2 * hourlyFaults},
	} {
		t.Run(name, func(t *testing.T) {
			script := func(_ int, out, log io.Writer, over <-chan struct{}) {
				if name == "memory errors" {
					io.WriteString(out, strings.Replace(header, "utilization.gpu", "utilization.gpu,ecc.errors.uncorrected.volatile.total", 1))
				} else {
					io.WriteString(out, header)
				}
				for i := 0; ; i++ {
					o, l := tt.says(i)
					io.WriteString(out, o)
					io.WriteString(log, l)
					select {
					case <-over:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
			var m Monitor
			samples, faults, rows := 0, map[Severity]int{}, 0
			m.Observe(func(r Report) {
				if r.Fault != nil {
					faults[r.Fault.Severity]++
					return
				}
				samples, rows = samples+1, max(rows, len(r.Samples))
			})
			watched(t, script, func(r *rig) {
				time.Sleep(minutes * time.Minute)
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, report := range r.reports {
					m.report(report)
				}
				m.report(Report{Fault: &Fault{Device: "0000:aa:00.0", Severity: Replace, Text: "the last"}})
			})
			all := faults[Note] + faults[Due] + faults[Restart] + faults[Replace]
			if samples > minutes*60/5+1 || rows > maxDevices || all > tt.faults+1 || samples == 0 && name == "samples" || all == 1 && tt.faults > 0 {
				t.Errorf("%d samples of %d devices, %v", samples, rows, faults)
			}
			if f, ok := m.Fault(time.Time{}, Replace); !ok || faults[Replace] == 0 {
				t.Errorf("the last fault: %v, %v", f, faults)
			}
		})
	}
}

func TestLagsAreToldByTheHour(t *testing.T) {
	var l Lags
	told, now := 0, time.Unix(1e9, 0)
	for i := range 60 * 10 {
		slow := newSample(0)
		slow.Name, slow.ClockMHz, slow.Utilization = "H100", 1755, 99
		if i%3 > 0 {
			slow.Slowed = "too hot"
		}
		nodes := map[int][]Sample{}
		for d := range 100 {
			slow.Index = d
			nodes[0] = append(nodes[0], slow)
		}
		told += len(l.Look(now, nodes))
		now = now.Add(time.Minute)
	}
	if told < 64 || told > 11*nodeLags {
		t.Errorf("%d were told in ten hours", told)
	}
}

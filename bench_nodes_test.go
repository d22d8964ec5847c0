package gputrain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// servers starts OpenSSH servers and returns the configurations for a pool and a raw client.
func servers(b *testing.B, n int) ([]*opensshtest.Server, ssh.Config) {
	b.Helper()
	var all []*opensshtest.Server
	var cfg ssh.Config
	for range n {
		// The home is empty, so that no login script is measured.
		s := opensshtest.Start(b, opensshtest.Config("SetEnv HOME="+b.TempDir()))
		all = append(all, s)
		cfg.Hosts = append(cfg.Hosts, ssh.Host{Addr: s.Addr, User: s.User, KeyFile: s.KeyFile, HostKey: xssh.FingerprintSHA256(s.HostKey)})
	}
	return all, cfg
}

// plain connects with the defaults of x/crypto/ssh.
func plain(b *testing.B, s *opensshtest.Server) *xssh.Client {
	c, err := xssh.Dial("tcp", s.Addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
	})
	if err != nil {
		b.Error(err)
	}
	return c
}

// medians runs both in turn and reports the medians of their times and the ratio. Each returns its
// own time, so that its cleanup does not count.
func medians(b *testing.B, what string, ours, raw func() time.Duration) {
	ours()
	raw()
	var tOurs, tRaw []time.Duration
	b.ResetTimer()
	for range b.N {
		tOurs = append(tOurs, ours())
		tRaw = append(tRaw, raw())
	}
	b.StopTimer()
	slices.Sort(tOurs)
	slices.Sort(tRaw)
	o, r := tOurs[b.N/2], tRaw[b.N/2]
	b.ReportMetric(float64(o.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(r.Microseconds())/1000, "raw-ms")
	b.ReportMetric(o.Seconds()/r.Seconds(), what)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOpen64Nodes opens a pool of 64 nodes, beside raw connections to the same 64 servers at
// once.
func BenchmarkOpen64Nodes(b *testing.B) {
	all, cfg := servers(b, 64)
	medians(b, "x-raw", func() time.Duration {
		start := time.Now()
		pool, err := gputrain.Open(b.Context(), cfg, gputrain.Spec{Nodes: len(all)})
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		return took
	}, func() time.Duration {
		clients := make([]*xssh.Client, len(all))
		start := time.Now()
		var wg sync.WaitGroup
		for i, s := range all {
			wg.Go(func() { clients[i] = plain(b, s) })
		}
		wg.Wait()
		took := time.Since(start)
		for _, c := range clients {
			if c != nil {
				c.Close()
			}
		}
		return took
	})
}

// BenchmarkFirstCommand measures the time from Open to the end of the first command on a node.
func BenchmarkFirstCommand(b *testing.B) {
	all, cfg := servers(b, 1)
	medians(b, "x-raw", func() time.Duration {
		start := time.Now()
		pool, err := gputrain.Open(b.Context(), cfg, gputrain.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		return took
	}, func() time.Duration {
		start := time.Now()
		c := plain(b, all[0])
		rawRun(b, c, "true", nil, nil)
		took := time.Since(start)
		c.Close()
		return took
	})
}

// idleEnv carries the hosts to the child of BenchmarkIdleNodes.
const idleEnv = "GPUTRAIN_BENCH_IDLE_NODES"

// BenchmarkIdleNodes reports the memory of an idle node in a program: that of a child with all
// nodes, less that of one without any.
func BenchmarkIdleNodes(b *testing.B) {
	if hosts := os.Getenv(idleEnv); hosts != "" {
		idle(b, hosts)
		return
	}
	const nodes = 100
	_, cfg := servers(b, nodes)
	child := func(hosts []ssh.Host) (u footprint) {
		text, err := json.Marshal(hosts)
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkIdleNodes$", "-test.benchtime=1x")
		cmd.Env = append(os.Environ(), idleEnv+"="+string(text))
		out, err := cmd.CombinedOutput()
		_, line, found := bytes.Cut(out, []byte("usage: "))
		if err != nil || !found {
			b.Fatalf("%v\n%s", err, out)
		}
		if _, err := fmt.Sscanln(string(line), &u.rss, &u.heap, &u.stacks, &u.goroutines); err != nil {
			b.Fatalf("%v in %q", err, line)
		}
		return u
	}
	for range b.N {
		with, without := child(cfg.Hosts), child(cfg.Hosts[:0])
		b.ReportMetric((with.rss-without.rss)/nodes, "KiB/node")
		b.ReportMetric((with.heap-without.heap)/nodes, "heap-KiB/node")
		b.ReportMetric((with.stacks-without.stacks)/nodes, "stack-KiB/node")
		b.ReportMetric((with.goroutines-without.goroutines)/nodes, "goroutines/node")
	}
}

// A footprint is a program's memory in KiB, and its number of goroutines.
type footprint struct{ rss, heap, stacks, goroutines float64 }

// idle opens a pool, waits until it is idle, and prints its footprint.
func idle(b *testing.B, hosts string) {
	var cfg ssh.Config
	if err := json.Unmarshal([]byte(hosts), &cfg.Hosts); err != nil {
		b.Fatal(err)
	}
	if len(cfg.Hosts) > 0 {
		pool, err := gputrain.Open(b.Context(), cfg, gputrain.Spec{Nodes: len(cfg.Hosts)})
		if err != nil {
			b.Fatal(err)
		}
		defer pool.Close()
		time.Sleep(2 * time.Second)
	}
	for range 3 { // stacks shrink by half at a time
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("\nusage: %d %d %d %d\n", rssKiB(b), m.HeapInuse>>10, m.StackInuse>>10, runtime.NumGoroutine())
	if dir := os.Getenv("GPUTRAIN_BENCH_PROFILES"); dir != "" {
		for _, name := range []string{"heap", "goroutine"} {
			f, err := os.Create(fmt.Sprintf("%s/%s-%d", dir, name, len(cfg.Hosts)))
			if err != nil {
				b.Fatal(err)
			}
			pprof.Lookup(name).WriteTo(f, 0)
			f.Close()
		}
	}
}

func rssKiB(b *testing.B) (kib int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fmt.Sscan(rest, &kib)
	return kib
}

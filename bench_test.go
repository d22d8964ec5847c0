package gputrain_test

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// Figures are ratios: gputrain's time over that of golang.org/x/crypto/ssh for the same work on the
// same OpenSSH servers in the same run. Both are measured in turn, so that the machine's load
// counts for both.

// A lab is real OpenSSH servers, a pool on them, and raw connections to them.
type lab struct {
	pool *gputrain.Compute
	raw  []*xssh.Client
}

func newLab(b *testing.B, nodes int, spec gputrain.Spec, oneWay ...time.Duration) *lab {
	b.Helper()
	l := &lab{}
	var cfg ssh.Config
	for range nodes {
		// The home is empty, so that no login script is measured.
		s := opensshtest.Start(b, opensshtest.Config("SetEnv HOME="+b.TempDir()))
		if len(oneWay) > 0 {
			link := opensshtest.Proxy(b, s.Addr)
			link.Delay(oneWay[0])
			s.Addr = link.Addr
		}
		cfg.Hosts = append(cfg.Hosts, ssh.Host{Addr: s.Addr, User: s.User, KeyFile: s.KeyFile, HostKey: xssh.FingerprintSHA256(s.HostKey)})
		l.raw = append(l.raw, rawClient(b, s))
	}
	spec.Nodes = nodes
	pool, err := gputrain.Open(b.Context(), cfg, spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { pool.Close() })
	l.pool = pool
	return l
}

func rawClient(b testing.TB, s *opensshtest.Server) *xssh.Client {
	b.Helper()
	c, err := xssh.Dial("tcp", s.Addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
		Config: xssh.Config{Ciphers: []string{"aes128-gcm@openssh.com"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func rawRun(b testing.TB, c *xssh.Client, command string, in io.Reader, out io.Writer) {
	s, err := c.NewSession()
	if err != nil {
		b.Error(err)
		return
	}
	defer s.Close()
	s.Stdin, s.Stdout = in, out
	if err := s.Run(command); err != nil {
		b.Error(err)
	}
}

// compare runs both in turn and reports the ratio of their times.
func compare(b *testing.B, what string, ours, raw func()) {
	ours()
	raw()
	var tOurs, tRaw time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		ours()
		mid := time.Now()
		raw()
		tOurs += mid.Sub(start)
		tRaw += time.Since(mid)
	}
	b.ReportMetric(float64(tOurs.Nanoseconds())/float64(b.N), "ours-ns/op")
	b.ReportMetric(float64(tRaw.Nanoseconds())/float64(b.N), "raw-ns/op")
	b.ReportMetric(tOurs.Seconds()/tRaw.Seconds(), what)
	b.ReportMetric(0, "ns/op")
}

func BenchmarkCommandLatency(b *testing.B) {
	l := newLab(b, 1, gputrain.Spec{})
	compare(b, "x-raw", func() {
		if _, err := l.pool.Run(gputrain.Cmd("true")); err != nil {
			b.Fatal(err)
		}
	}, func() { rawRun(b, l.raw[0], "true", nil, nil) })
}

// BenchmarkCommandLatency20ms measures the same over a round trip of 20 ms.
func BenchmarkCommandLatency20ms(b *testing.B) {
	l := newLab(b, 1, gputrain.Spec{}, 10*time.Millisecond)
	compare(b, "x-raw", func() {
		if _, err := l.pool.Run(gputrain.Cmd("true")); err != nil {
			b.Fatal(err)
		}
	}, func() { rawRun(b, l.raw[0], "true", nil, nil) })
}

func Benchmark1000CommandsOn16Nodes(b *testing.B) {
	const nodes, each, total = 16, 4, 1000
	l := newLab(b, nodes, gputrain.Spec{Concurrency: each})
	tasks := make([]gputrain.Task, total)
	for i := range tasks {
		tasks[i] = gputrain.Cmd("true")
	}
	compare(b, "x-raw", func() {
		if _, err := l.pool.Gather(tasks...); err != nil {
			b.Fatal(err)
		}
	}, func() {
		work := make(chan struct{}, total)
		for range total {
			work <- struct{}{}
		}
		close(work)
		var wg sync.WaitGroup
		for i := range nodes * each {
			wg.Go(func() {
				for range work {
					rawRun(b, l.raw[i%nodes], "true", nil, nil)
				}
			})
		}
		wg.Wait()
	})
}

func BenchmarkStdout(b *testing.B) {
	const size = 256 << 20
	l := newLab(b, 1, gputrain.Spec{})
	command := fmt.Sprintf("head -c %d /dev/zero", size)
	b.SetBytes(size)
	compare(b, "x-raw", func() {
		r, err := l.pool.Run(gputrain.Script(command))
		if err != nil || r.StdoutBytes != size {
			b.Fatal(r.StdoutBytes, err)
		}
		os.Remove(r.StdoutFile)
	}, func() { rawRun(b, l.raw[0], command, nil, io.Discard) })
}

// openToFirstResult reports the times of Open, of the first call and of Close.
func openToFirstResult(b *testing.B, p gputrain.Provider) {
	for range b.N {
		start := time.Now()
		pool, err := gputrain.Open(b.Context(), p, gputrain.Spec{Nodes: 4})
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		if _, err := hypot.Run(pool, point{1, 2}); err != nil {
			b.Fatal(err)
		}
		first := time.Now()
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(opened.Sub(start).Seconds(), "open-s")
		b.ReportMetric(first.Sub(opened).Seconds(), "first-call-s")
		b.ReportMetric(time.Since(first).Seconds(), "close-s")
	}
}

func BenchmarkOpenLocal(b *testing.B) { openToFirstResult(b, local.Config{}) }

func BenchmarkOpenContainers(b *testing.B) {
	e2etest.NeedDocker(b)
	openToFirstResult(b, container.Config{})
}

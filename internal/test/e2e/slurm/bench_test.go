//go:build unix

package slurm

import (
	"bytes"
	"io"
	"os"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/slurm"
)

// BenchmarkFirstResult measures the time from Open to the first result: sbatch, the queue, the job's start, the login.
func BenchmarkFirstResult(b *testing.B) { e2etest.BenchmarkFirstResult(b, common(b).config()) }

// BenchmarkCommand measures a command on a node, through the login node by a forward and by a step, against x/crypto/ssh
// to the login node itself.
func BenchmarkCommand(b *testing.B) {
	bed := common(b)
	for _, reach := range []slurm.Reach{slurm.ReachForward, slurm.ReachStep} {
		b.Run(string(reach), func(b *testing.B) {
			pool := bed.reachedBy(b, reach)
			for b.Loop() {
				if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("ssh", func(b *testing.B) {
		client := bed.plain(b)
		for b.Loop() {
			session, err := client.NewSession()
			if err == nil {
				err = session.Run("true")
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDownload measures bytes from a node by the same ways.
func BenchmarkDownload(b *testing.B) {
	bed := common(b)
	const size = 32 << 20
	const command = "head -c 33554432 /dev/zero"
	for _, reach := range []slurm.Reach{slurm.ReachForward, slurm.ReachStep} {
		b.Run(string(reach), func(b *testing.B) {
			pool := bed.reachedBy(b, reach)
			b.SetBytes(size)
			for b.Loop() {
				var out counter
				if err := pool.Shell(b.Context(), 0, bytes.NewReader([]byte(command+"\n")), &out, io.Discard); err != nil || out != size {
					b.Fatal(out, err)
				}
			}
		})
	}
	b.Run("ssh", func(b *testing.B) {
		client := bed.plain(b)
		b.SetBytes(size)
		for b.Loop() {
			session, err := client.NewSession()
			if err != nil {
				b.Fatal(err)
			}
			var out counter
			session.Stdout = &out
			if err := session.Run(command); err != nil || out != size {
				b.Fatal(out, err)
			}
		}
	})
}

// A counter counts the bytes that it gets.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (bed *testbed) reachedBy(b *testing.B, reach slurm.Reach) *gputrain.Compute {
	b.Helper()
	cfg := bed.config()
	cfg.Reach = reach
	pool, err := gputrain.Open(b.Context(), cfg, gputrain.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := pool.Close(); err != nil {
			b.Error(err)
		}
	})
	return pool
}

// plain returns a client of the login node.
func (bed *testbed) plain(b *testing.B) *xssh.Client {
	b.Helper()
	text, err := os.ReadFile(bed.keyFile)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := xssh.ParsePrivateKey(text)
	if err != nil {
		b.Fatal(err)
	}
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(bed.hostKey))
	if err != nil {
		b.Fatal(err)
	}
	client, err := xssh.Dial("tcp", bed.addr, &xssh.ClientConfig{
		User: "alice", Auth: []xssh.AuthMethod{xssh.PublicKeys(signer)}, HostKeyCallback: xssh.FixedHostKey(key), HostKeyAlgorithms: []string{key.Type()},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

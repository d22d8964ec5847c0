package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// stdout measures a command with much output. gputrain stores the output in a file.
func stdout(t *testing.T, l *lab) {
	m := l.machines[0]
	pool, raw := l.pool(t, gputrain.Spec{}, m), l.raw(t, m)
	file := filepath.Join(t.TempDir(), "out")
	command := func(n int) string { return fmt.Sprintf("head -c %d /dev/zero", n) }
	read := func(c *xssh.Client, n int, w io.Writer) ([]float64, error) {
		var got counter
		rate, err := rate(float64(n)/(1<<20), func() error { return session(c, command(n), nil, io.MultiWriter(&got, w)) })
		if err == nil && int(got) != n {
			err = errWrong
		}
		return rate, err
	}
	l.measure(t, work{
		name: fmt.Sprintf("stdout of %d MiB", l.size.stdout>>20), unit: mibPerSecond, turns: l.size.heavyTurns, n: l.size.stdout,
		by: []contender{
			{"gputrain, into a file", 0, func(n int) ([]float64, error) {
				var r gputrain.Result
				got, err := rate(float64(n)/(1<<20), func() (err error) { r, err = pool.Run(gputrain.Script(command(n))); return err })
				if r.StdoutFile != "" {
					os.Remove(r.StdoutFile)
				}
				if err == nil && r.StdoutBytes != int64(n) {
					err = errWrong
				}
				return got, err
			}},
			{"raw x/crypto/ssh, thrown away", 0.8, func(n int) ([]float64, error) { return read(raw, n, io.Discard) }},
			{"raw x/crypto/ssh, into a file", 0, func(n int) ([]float64, error) {
				f, err := os.Create(file)
				if err != nil {
					return nil, err
				}
				defer os.Remove(file)
				defer f.Close()
				return read(raw, n, f)
			}},
		},
	})
}

// A counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Command bigmachine calls a trivial function on a bigmachine machine for internal/test/bench. It answers "latency N"
// with the seconds of each of N consecutive calls, and "rate N LANES" with the calls per second with LANES calls in
// flight. It ends at the end of stdin.
//
// The machine is a process of this computer, reached by HTTP/2 over TLS on the loopback, as bigmachine has no SSH. This
// is a separate module, so that gputrain does not depend on bigmachine.
package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grailbio/bigmachine"
)

type increment struct{}

// Do returns its argument plus one.
func (increment) Do(_ context.Context, x int, y *int) error { *y = x + 1; return nil }

func main() {
	gob.Register(increment{})
	b := bigmachine.Start(bigmachine.Local) // does not return on the machine
	err := serve(b)
	b.Shutdown()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(b *bigmachine.B) error {
	ctx := context.Background()
	machines, err := b.Start(ctx, 1, bigmachine.Services{"Increment": increment{}})
	if err != nil {
		return err
	}
	m := machines[0]
	<-m.Wait(bigmachine.Running)
	if err := m.Err(); err != nil {
		return err
	}
	call := func() error {
		var y int
		if err := m.Call(ctx, "Increment.Do", 1, &y); err != nil {
			return err
		}
		if y != 2 {
			return errors.New("the answer is wrong")
		}
		return nil
	}
	fmt.Println("ready", version())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var n, lanes int
		var answer string
		if _, err := fmt.Sscanf(lines.Text(), "latency %d", &n); err == nil {
			answer, err = latency(n, call)
			if err != nil {
				return err
			}
		} else if _, err := fmt.Sscanf(lines.Text(), "rate %d %d", &n, &lanes); err == nil {
			answer, err = rate(n, lanes, call)
			if err != nil {
				return err
			}
		} else {
			return errors.New("unknown command " + lines.Text())
		}
		fmt.Println(answer)
	}
	return nil
}

func latency(n int, call func() error) (string, error) {
	var samples strings.Builder
	for range n {
		start := time.Now()
		if err := call(); err != nil {
			return "", err
		}
		fmt.Fprint(&samples, time.Since(start).Seconds(), " ")
	}
	return samples.String(), nil
}

func rate(n, lanes int, call func() error) (string, error) {
	var left atomic.Int64
	left.Store(int64(n))
	failed := make(chan error, lanes)
	var wg sync.WaitGroup
	start := time.Now()
	for range lanes {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-failed:
		return "", err
	default:
		return fmt.Sprint(float64(n) / took.Seconds()), nil
	}
}

// version returns the version of bigmachine.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == "github.com/grailbio/bigmachine" {
			return dep.Version
		}
	}
	return ""
}

package worker

import (
	"context"
	"net/rpc"
	"sync"
	"testing"
)

// A caller makes one call with a small argument.
type caller func(ctx context.Context, arg []byte) error

// callers returns the callers that are compared: this package's, and that of net/rpc with gob. Each
// uses the standard input and output of a process.
func callers(b *testing.B) map[string]caller {
	c := dial(b, startNode(b), Hello{})
	p, err := attachProcess("WORKER_TEST_RPC=1")
	if err != nil {
		b.Fatal(err)
	}
	r := rpc.NewClient(p)
	b.Cleanup(func() { r.Close() })
	members, place := NewMembers("10.0.0.1", "10.0.0.3"), Place{Rank: 1, Slot: 1, TaskID: "t17", Attempt: 1}
	return map[string]caller{
		"gputrain": func(ctx context.Context, arg []byte) error {
			_, err := c.Call(ctx, Request{Function: "echo", Arg: body(arg), Members: members, Place: place})
			return err
		},
		"rpc": func(_ context.Context, arg []byte) error {
			var result []byte
			return r.Call("Echo.Echo", arg, &result)
		},
	}
}

func BenchmarkCall(b *testing.B) {
	for name, call := range callers(b) {
		b.Run(name, func(b *testing.B) {
			arg := []byte("a small argument")
			for b.Loop() {
				if err := call(b.Context(), arg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCalls64InFlight(b *testing.B) {
	for name, call := range callers(b) {
		b.Run(name, func(b *testing.B) {
			arg := []byte("a small argument")
			work := make(chan struct{}, 64)
			var workers sync.WaitGroup
			for range 64 {
				workers.Go(func() {
					for range work {
						if err := call(b.Context(), arg); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func BenchmarkBody64MiB(b *testing.B) {
	c := dial(b, startNode(b), Hello{})
	arg := make([]byte, 64<<20)
	b.SetBytes(int64(2 * len(arg)))
	for b.Loop() {
		if _, err := c.Call(b.Context(), Request{Function: "echo", Arg: body(arg)}); err != nil {
			b.Fatal(err)
		}
	}
}

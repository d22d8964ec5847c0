package functions

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

type countTo struct {
	N       int
	Journal string // a file in which the function records its end
	Then    string // how the function ends
}

// note appends a line to a file.
func note(file, line string) {
	if f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

var (
	counter = gputrain.GeneratorFunc("stream/counter", func(ctx context.Context, in countTo, yield func(int) bool) error {
		if in.Journal != "" {
			defer func() { note(in.Journal, fmt.Sprint("over: ", ctx.Err())) }()
		}
		for i := range in.N {
			if !yield(i) {
				return nil // this result must not reach the caller
			}
		}
		switch in.Then {
		case "fail":
			return fmt.Errorf("after %d: %w", in.N, e2etest.ErrTooFar)
		case "panic":
			panic("counted out")
		case "exit":
			fmt.Fprintln(os.Stderr, "last words")
			os.Exit(4)
		case "wait":
			<-ctx.Done()
		}
		return nil
	})
	blocks = gputrain.GeneratorFunc("stream/blocks", func(_ context.Context, n int, yield func([]float32) bool) error {
		block := make([]float32, 1<<20) // reused for every value
		for i := range n {
			block[0], block[len(block)-1] = float32(i), float32(-i)
			if !yield(block) {
				return errors.New("stopped")
			}
		}
		return nil
	})
	unsendable = gputrain.GeneratorFunc("stream/unsendable", func(_ context.Context, _ struct{}, yield func(any) bool) error {
		if yield(1) && yield(make(chan int)) {
			return errors.New("a channel was sent")
		}
		return nil
	})
	total = gputrain.ConsumerFunc("stream/total", func(_ context.Context, ins iter.Seq[int]) (int, error) {
		sum := 0
		for v := range ins {
			sum += v
		}
		return sum, nil
	})
	firstThree = gputrain.ConsumerFunc("stream/first-three", func(_ context.Context, ins iter.Seq[int]) ([]int, error) {
		var got []int
		for v := range ins {
			if got = append(got, v); len(got) == 3 {
				break
			}
		}
		return got, nil
	})
	lengths = gputrain.ConsumerFunc("stream/lengths", func(_ context.Context, ins iter.Seq[[]byte]) (int, error) {
		n := 0
		for b := range ins {
			if b[0] != b[len(b)-1] {
				return n, errors.New("a torn block")
			}
			n += len(b)
		}
		return n, nil
	})
	refuser = gputrain.ConsumerFunc("stream/refuser", func(_ context.Context, ins iter.Seq[any]) (int, error) {
		for range ins {
		}
		return 0, nil
	})
	squares = gputrain.PipeFunc("stream/squares", func(_ context.Context, ins iter.Seq[int], yield func(int) bool) error {
		for v := range ins {
			if v < 0 {
				return fmt.Errorf("%d: %w", v, e2etest.ErrTooFar)
			}
			if !yield(v * v) {
				break
			}
		}
		return nil
	})
)

// gather returns the values and the error of a stream.
func gather[T any](seq iter.Seq2[T, error]) (got []T, err error) {
	for v, e := range seq {
		if e != nil {
			return got, e
		}
		got = append(got, v)
	}
	return got, nil
}

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func TestGenerator(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	const n = 5000
	got, err := gather(counter.Run(pool, countTo{N: n}))
	if err != nil || !slices.Equal(got, slices.Collect(upTo(n))) {
		t.Errorf("%d values, %v", len(got), err)
	}
	for i := range 3 {
		if got, err := gather(counter.Run(pool, countTo{N: i})); err != nil || len(got) != i {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	var te *gputrain.TaskError
	if got, err := gather(counter.Run(pool, countTo{N: 100, Then: "fail"})); len(got) != 100 || !errors.Is(err, e2etest.ErrTooFar) || !errors.As(err, &te) || te.Cause != gputrain.CauseFunction {
		t.Errorf("%d values, %v", len(got), err)
	}
	if got, err := gather(counter.Run(pool, countTo{N: 10, Then: "panic"})); len(got) != 10 || !errors.As(err, &te) || te.Cause != gputrain.CausePanic || !strings.Contains(te.Stack, "stream_test.go") {
		t.Errorf("%d values, %v", len(got), err)
	}
	got, err = gather(counter.Run(pool, countTo{N: 10, Then: "exit"}))
	if !errors.As(err, &te) || te.Cause != gputrain.CauseWorkerLost || !strings.Contains(te.Tail, "last words") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(got, slices.Collect(upTo(len(got)))) {
		t.Errorf("before it died: %v", got)
	}
}

// A function may yield the same memory repeatedly.
func TestGeneratorOfLargeValues(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	i := 0
	for block, err := range blocks.Run(pool, 20) {
		if err != nil || len(block) != 1<<20 || block[0] != float32(i) || block[1<<20-1] != float32(-i) {
			t.Fatalf("block %d: %d numbers, %v", i, len(block), err)
		}
		i++
	}
	if i != 20 {
		t.Errorf("%d blocks", i)
	}
}

func TestLeavingAGenerator(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	journal := filepath.Join(t.TempDir(), "journal")
	for v, err := range counter.Run(pool, countTo{N: 1 << 30, Journal: journal}) {
		if err != nil {
			t.Fatal(err)
		}
		if v == 10 {
			break
		}
	}
	// The function has ended on the node by now, and its slot is free.
	if b, _ := os.ReadFile(journal); string(b) != "over: context canceled\n" {
		t.Errorf("the journal says %q", b)
	}
	if v, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); v != 25 || err != nil {
		t.Error(v, err)
	}
}

func TestGeneratorEndsWithItsContext(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range counter.Run(pool.WithContext(ctx), countTo{N: 5, Then: "wait"}) {
		if n++; n == 5 {
			cancel()
		}
		last = err
	}
	var te *gputrain.TaskError
	if n != 6 || !errors.Is(last, context.Canceled) || !errors.As(last, &te) || te.Cause != gputrain.CauseCancelled {
		t.Errorf("%d values, %v", n, last)
	}
	if _, err := gather(counter.Run(pool.WithContext(ctx), countTo{N: 5})); !errors.Is(err, context.Canceled) {
		t.Errorf("later: %v", err)
	}
	// The result of a function whose stream was cut is not a success.
	ctx, cancel = context.WithCancel(t.Context())
	_, err := total.Run(pool.WithContext(ctx), func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
			if i == 1000 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestClosingThePoolEndsStreams(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	closed := make(chan error)
	n := 0
	var last error
	for _, err := range counter.Run(pool, countTo{N: 3, Then: "wait"}) {
		if n++; n == 3 {
			go func() { closed <- pool.Close() }()
		}
		last = err
	}
	if !errors.Is(last, gputrain.ErrClosed) {
		t.Errorf("%v", last)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestConsumer(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	const n = 5000
	if v, err := total.Run(pool, upTo(n)); v != n*(n-1)/2 || err != nil {
		t.Error(v, err)
	}
	if v, err := total.Run(pool, upTo(0)); v != 0 || err != nil {
		t.Error(v, err)
	}
	block := make([]byte, 5<<20)
	v, err := lengths.Run(pool, func(yield func([]byte) bool) {
		for i := range 10 {
			block[0], block[len(block)-1] = byte(i), byte(i) // the same memory each time
			if !yield(block) {
				return
			}
		}
	})
	if v != 50<<20 || err != nil {
		t.Error(v, err)
	}
	asked := 0
	got, err := firstThree.Run(pool, func(yield func(int) bool) {
		for asked = 0; yield(asked); asked++ { // endless
		}
	})
	if !slices.Equal(got, []int{0, 1, 2}) || err != nil {
		t.Error(got, err)
	}
	if _, err := refuser.Run(pool, func(yield func(any) bool) { _ = yield(1) && yield(func() {}) }); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "input 1") {
		t.Error(err)
	}
}

func TestUnsendableValues(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	got, err := gather(unsendable.Run(pool, struct{}{}))
	if len(got) != 1 || err == nil || !strings.Contains(err.Error(), "chan int") {
		t.Error(got, err)
	}
}

func TestPanicInTheCallersOwnSequence(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	bad := func(yield func(int) bool) {
		yield(1)
		panic("no more data")
	}
	for name, run := range map[string]func(){
		"consumer": func() { total.Run(pool, bad) },
		"pipe":     func() { gather(squares.Run(pool, bad)) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "no more data" {
					t.Errorf("%s: recovered %v", name, p)
				}
			}()
			run()
		}()
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		gather(squares.Run(pool, func(func(int) bool) { runtime.Goexit() }))
		t.Error("runtime.Goexit in the sequence was ignored")
	}()
	<-over
	if v, err := total.Run(pool, upTo(3)); v != 3 || err != nil { // the slot is free
		t.Error(v, err)
	}
}

func TestPipe(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	const n = 3000
	i := 0
	for v, err := range squares.Run(pool, upTo(n)) {
		if err != nil || v != i*i {
			t.Fatalf("%d: %d, %v", i, v, err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d values", i)
	}
	// The outputs of a pipe may determine its inputs.
	answers := make(chan int, 1)
	answers <- 2
	var got []int
	for v, err := range squares.Run(pool, func(yield func(int) bool) {
		for v := range answers {
			if !yield(v) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, v); v > 1000 {
			close(answers)
			continue
		}
		answers <- v
	}
	if !slices.Equal(got, []int{4, 16, 256, 65536}) {
		t.Error(got)
	}
	if got, err := gather(squares.Run(pool, slices.Values([]int{1, 2, -3, 4}))); !slices.Equal(got, []int{1, 4}) || !errors.Is(err, e2etest.ErrTooFar) {
		t.Error(got, err)
	}
	for range squares.Run(pool, func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
	}) {
		break
	}
}

// A generator whose values are not taken waits. Calls that run concurrently do not.
func TestStreamsWaitForTheirReaders(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2})
	journal := filepath.Join(t.TempDir(), "journal")
	next, stop := iter.Pull2(counter.Run(pool, countTo{N: 500, Journal: journal}))
	defer stop()
	if v, err, ok := next(); v != 0 || err != nil || !ok {
		t.Fatal(v, err, ok)
	}
	for range 50 {
		if v, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); v != 25 || err != nil {
			t.Fatal(v, err)
		}
	}
	if b, err := os.ReadFile(journal); err == nil {
		t.Errorf("500 values were yielded without a reader: %s", b)
	}
	for i := 1; i < 500; i++ {
		if v, err, ok := next(); v != i || err != nil || !ok {
			t.Fatal(i, v, err, ok)
		}
	}
	if _, err, ok := next(); ok {
		t.Errorf("one value more than was yielded, %v", err)
	}
}

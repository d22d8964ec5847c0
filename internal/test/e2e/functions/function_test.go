//go:build unix

package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/worker"
)

// tensors is a value with large slices in it.
type tensors struct {
	Name    string
	Weights map[string][]float32
	Raw     []byte
	Rows    [][]int64
}

var (
	turn = gputrain.Func("function/turn", func(_ context.Context, v tensors) (tensors, error) {
		for _, w := range v.Weights {
			slices.Reverse(w)
		}
		slices.Reverse(v.Raw)
		return v, nil
	})
	scribble = gputrain.Func("function/scribble", func(ctx context.Context, text string) (string, error) {
		dir := gputrain.ThisNode(ctx).Scratch
		if text == "" {
			return dir, nil
		}
		return dir, os.WriteFile(filepath.Join(dir, "note"), []byte(text), 0o600)
	})
	failAs = gputrain.Func("function/fail-as", func(ctx context.Context, kind string) (int, error) {
		switch kind {
		case "deadline":
			return 0, fmt.Errorf("inner: %w", context.DeadlineExceeded)
		case "cancelled":
			return 0, fmt.Errorf("inner: %w", context.Canceled)
		case "own kind":
			return 0, fmt.Errorf("inner: %w", gputrain.ErrQuota)
		case "registered":
			return 0, errors.Join(errors.New("first"), fmt.Errorf("inner: %w", e2etest.ErrTooFar))
		case "eof":
			return 0, io.ErrUnexpectedEOF
		case "file":
			_, err := os.Open("/no such file")
			return 0, err
		case "plain":
			return 0, errors.New("just words\nin two lines")
		case "nil pointer":
			return *(*int)(nil), nil
		case "panic error":
			panic(e2etest.ErrTooFar)
		case "nil error":
			var err *fs.PathError
			return 0, err
		}
		return 0, nil
	})
)

func TestLargeValuesArriveWhole(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	in := tensors{Name: "n", Weights: map[string][]float32{"a": make([]float32, 1<<20), "b": {1, 2, 3}, "c": nil}, Raw: make([]byte, 3<<20), Rows: [][]int64{make([]int64, 1<<14), {}, nil}}
	for i := range in.Raw {
		in.Raw[i] = byte(i * i >> 8)
	}
	in.Weights["a"][0], in.Rows[0][9] = 7, 9
	raw := bytes.Clone(in.Raw)
	slices.Reverse(raw)
	outs, err := turn.Broadcast(pool, in)
	if err != nil || len(outs) != 2 {
		t.Fatal(len(outs), err)
	}
	for _, out := range outs {
		if out.Name != "n" || out.Weights["a"][1<<20-1] != 7 || out.Weights["b"][0] != 3 || out.Weights["c"] != nil || !bytes.Equal(out.Raw, raw) || out.Rows[0][9] != 9 || out.Rows[1] == nil || out.Rows[2] != nil {
			t.Error("the value has changed on the way")
		}
	}
	if in.Weights["a"][0] != 7 || &outs[0].Raw[0] == &outs[1].Raw[0] {
		t.Error("memory is shared")
	}
}

func TestErrorsOfFunctions(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	for _, tt := range []struct {
		kind  string
		cause gputrain.Cause
		is    error
		says  string
	}{
		{"deadline", gputrain.CauseFunction, context.DeadlineExceeded, "inner: context deadline exceeded"},
		{"cancelled", gputrain.CauseFunction, context.Canceled, "inner: context canceled"},
		{"own kind", gputrain.CauseFunction, gputrain.ErrQuota, "inner: quota exceeded"},
		{"registered", gputrain.CauseFunction, e2etest.ErrTooFar, "first\ninner: too far"},
		{"eof", gputrain.CauseFunction, io.ErrUnexpectedEOF, "unexpected EOF"},
		{"file", gputrain.CauseFunction, fs.ErrNotExist, "/no such file"},
		{"plain", gputrain.CauseFunction, nil, "just words\nin two lines"},
		{"nil pointer", gputrain.CausePanic, nil, "nil pointer dereference"},
		{"panic error", gputrain.CausePanic, nil, "panic in function function/fail-as: too far"},
		{"nil error", gputrain.CausePanic, nil, "nil pointer"},
	} {
		_, err := failAs.Run(pool, tt.kind)
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.Cause != tt.cause || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.kind, err)
			continue
		}
		if panicked := tt.cause == gputrain.CausePanic; panicked != strings.Contains(te.Stack, "goroutine") {
			t.Errorf("%s: the stack is %q", tt.kind, te.Stack)
		}
		for _, other := range []error{e2etest.ErrTooFar, gputrain.ErrQuota, gputrain.ErrTimeout, context.Canceled, fs.ErrNotExist} {
			if other != tt.is && errors.Is(err, other) {
				t.Errorf("%s is also %v", tt.kind, other)
			}
		}
	}
}

// Each attempt has its own scratch directory, which is removed at its end.
func TestScratchIsTheAttemptsOwn(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 4})
	dirs, err := scribble.Gather(pool, "a", "b", "", "d")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(dirs)
	if len(slices.Compact(slices.Clone(dirs))) != 4 {
		t.Errorf("attempts share a scratch directory: %q", dirs)
	}
	for _, dir := range dirs {
		e2etest.Until(t, "the end of "+dir, func() bool { return !e2etest.Exists(dir) })
	}
}

func TestThisNodeHasItsAddresses(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	infos, err := e2etest.Where.Broadcast(pool, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range pool.Nodes() {
		if infos[i].PrivateAddr != n.PrivateAddr || infos[i].PublicAddr != n.PublicAddr || infos[i].NodeRank != i {
			t.Errorf("%+v is not %+v", infos[i], n)
		}
	}
}

// The shards cover every item once, for every number of nodes. They depend only on the nodes of the
// call.
func TestShardCoversEveryItemOnce(t *testing.T) {
	for nodes := 1; nodes <= 70; nodes++ {
		addrs := make([]string, nodes)
		for _, n := range []int{0, 1, 2, nodes - 1, nodes, nodes + 1, 100, 1009} {
			items := make([]int, n)
			for i := range items {
				items[i] = i
			}
			var all []int
			for rank := range nodes {
				ctx := worker.ContextWithMeta(t.Context(), &worker.Meta{Addrs: addrs, Place: worker.Place{Rank: rank}})
				part := gputrain.Shard(ctx, items)
				if len(part) < n/nodes || len(part) > n/nodes+1 {
					t.Fatalf("rank %d of %d has %d of %d", rank, nodes, len(part), n)
				}
				all = append(all, part...)
			}
			if !slices.Equal(all, items) {
				t.Fatalf("%d items over %d nodes: %v", n, nodes, all)
			}
		}
	}
}

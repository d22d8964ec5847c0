package worker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/worker"
)

// A stack of a panic has the frames of the function, and none of those by which it was called or recovered.
func TestStackOfAPanicIsTheFunctions(t *testing.T) {
	var nothing map[string]int
	var list []int
	for name, f := range map[string]func(){
		"a value":             func() { panic("broken") },
		"an error":            func() { panic(errors.New("broken")) },
		"a nil map":           func() { nothing["a"] = 1 },
		"an index":            func() { _ = list[len(t.Name())] },
		"a nil pointer":       func() { var p *struct{ n int }; p.n++ },
		"again, in a defer":   func() { defer func() { panic(recover()) }(); panic("first") },
		"in a generic":        func() { generic(3) },
		"nil":                 func() { panic(nil) },
		"with a deferred end": func() { defer func() {}(); deeper(3) },
	} {
		got := worker.StackOf(f)
		lines := strings.Split(got, "\n")
		if !strings.HasPrefix(got, "goroutine ") || len(lines) < 4 || !strings.Contains(lines[1], "worker_test.") || !strings.Contains(lines[2], "panicstack_test.go:") {
			t.Errorf("%s: it begins with\n%s", name, got)
		}
		for _, ours := range []string{"debug.Stack", "internal/worker.", "created by", "runtime.goPanic", "runtime.sigpanic", "runtime/panic.go:"} {
			if strings.Contains(got, ours) && !(name == "again, in a defer" && strings.HasPrefix(ours, "runtime/panic")) {
				t.Errorf("%s: %s is in\n%s", name, ours, got)
			}
		}
	}
	const odd = "no stack at all"
	if got := worker.UserStack(odd); got != odd {
		t.Errorf("%q", got)
	}
	const shortened = "goroutine 1 [running]:\nmain.f(0x1)\n\t/a.go:1 +0x1\ncreated by github.com/gputrain/gputrain/internal/worker.(*daemon).call in goroutine 7\n\t/b.go:2 +0x2\n"
	if got, want := worker.UserStack(shortened), "goroutine 1 [running]:\nmain.f(0x1)\n\t/a.go:1 +0x1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

//go:noinline
func generic[T any](n T) { panic(n) }

//go:noinline
func deeper(n int) {
	if n == 0 {
		panic("at the bottom")
	}
	deeper(n - 1)
}

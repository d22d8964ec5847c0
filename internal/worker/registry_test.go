package worker

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestRegistrationErrors(t *testing.T) {
	h := onBytes(func(context.Context, []byte) ([]byte, error) { return nil, nil })
	var r registry
	r.add("good", "a.go:1", h)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	r.add("good", "b.go:2", h)
	r.add("bad name", "c.go:3", h)
	r.add(strings.Repeat("x", 101), "d.go:4", h)
	r.add("nothing", "e.go:5", nil)
	err := r.err()
	for _, want := range []string{`"good": at a.go:1 and at b.go:2`, "c.go:3", "d.go:4", `"nothing" at e.go:5`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if got := r.names(); !slices.Equal(got, []string{"good"}) {
		t.Errorf("names = %q", got)
	}
}

func TestRegisterFindsItsCaller(t *testing.T) {
	if at := CallerPosition(0); !strings.Contains(at, "registry_test.go:") {
		t.Error(at)
	}
	functions.mu.Lock()
	defer functions.mu.Unlock()
	if at := functions.entries["echo"].position; !strings.Contains(at, "process_test.go:") {
		t.Error(at)
	}
}

func TestSentinels(t *testing.T) {
	r := sentinelRegistry{byName: map[string]sentinel{"io.EOF": {err: io.EOF}}}
	mine := errors.New("mine")
	r.add("mine", "a.go:1", mine)
	r.add("mine", "b.go:2", mine)
	r.add("io.EOF", "c.go:3", mine)
	r.add("nil", "d.go:4", nil)
	for _, want := range []string{"a.go:1 and at b.go:2", "c.go:3 is taken", "d.go:4 is nil"} {
		if err := r.err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	names := r.matching(errors.Join(io.EOF, mine))
	if !slices.Equal(names, []string{"io.EOF", "mine"}) || len(r.values(append(names, "unknown"))) != 2 {
		t.Errorf("names = %q", names)
	}
}

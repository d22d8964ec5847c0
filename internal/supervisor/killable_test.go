//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A killable is a node whose program can be killed, by cutting its connection for good. Its tasks stay for the next
// program.
type killable struct {
	*Node
	link *opensshtest.Link
}

// begin starts a node with a program that will be killed or fenced off.
func begin(t *testing.T, srv *opensshtest.Server, cfg Config) *killable {
	t.Helper()
	link := opensshtest.Proxy(t, srv.Addr)
	n, err := Start(t.Context(), connect(t, srv, link.Addr), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &killable{n, link}
}

func (k *killable) kill() {
	k.link.Refuse(true)
	k.link.Cut()
}

// launch starts a task whose end the killed program does not see.
func (k *killable) launch(t *testing.T, spec Spec) {
	t.Helper()
	started, over := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := k.Run(t.Context(), spec, Sinks{Started: func() { close(started) }}) // the next program sees its end
		over <- err
	}()
	select {
	case <-started:
	case err := <-over:
		t.Fatalf("%s was over before it was seen to start: %v", spec.ID, err)
	}
}

// attach takes a node over with a generation. At the end of the test the node is closed and checked to be clean,
// unless another program has taken it over.
func attach(t *testing.T, srv *opensshtest.Server, n *Node, generation int) (*Node, map[string]Found) {
	t.Helper()
	cfg := n.cfg
	cfg.Root, cfg.Generation = n.facts.Root, generation
	next, all, err := Attach(t.Context(), connect(t, srv, ""), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := next.Close(ctx, true)
		if errors.Is(err, ErrFenced) {
			return
		}
		if err != nil {
			t.Error(err)
		}
		clean(t, next)
	})
	byID := map[string]Found{}
	for _, f := range all {
		byID[f.ID] = f
	}
	if len(byID) != len(all) {
		t.Errorf("some tasks are listed twice: %v", all)
	}
	return next, byID
}

func resume(t *testing.T, n *Node, id string) (r result) {
	t.Helper()
	var out, errs bytes.Buffer
	r.Exit, r.err = n.Resume(t.Context(), Spec{ID: id}, time.Time{}, Sinks{Stdout: &out, Stderr: &errs, Live: true})
	r.out, r.errs = out.String(), errs.String()
	return r
}

// swept waits until nothing is left to remove, and nothing of some tasks.
func swept(t *testing.T, n *Node, tasks ...string) {
	t.Helper()
	until(t, "the removal of what was released", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.cleanup.size()+n.cleanup.asked.size() == 0
	})
	for _, id := range tasks { // a shell removes their files after its answer
		until(t, "the removal of the files of "+id, func() bool {
			_, err := os.Stat(n.facts.Root + "/t/" + id + ".start")
			return os.IsNotExist(err)
		})
	}
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

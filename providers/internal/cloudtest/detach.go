package cloudtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// Detach has a pool left without a guardian while a task runs, and taken up again. It is left at once if its machines end
// themselves, and else only if asked twice. Nothing is left when it is closed.
func (c Cloud[F, C]) Detach(t *testing.T) {
	t.Parallel()
	f, spec, refused := c.Start(t), c.Spec, "cannot end itself, and there is no guardian"
	spec.Concurrency = 2
	if c.EndsItself {
		refused = ""
	}
	p := c.provider(f)
	opts := []gputrain.Option{gputrain.WithStateDir(t.TempDir()), gputrain.WithResultsDir(t.TempDir()), gputrain.WithoutGuardian()}
	pool, err := gputrain.Open(t.Context(), p, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	job := pool.Start(gputrain.Script("echo begin; until [ -e go ]; do sleep 0.02; done; echo end"))
	if _, err := job.Stdout().Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	id, err := pool.Detach()
	if refused != "" {
		if id != "" || !errors.Is(err, gputrain.ErrUnsupported) || !strings.Contains(err.Error(), refused) {
			t.Errorf("the first call: %q, %v; want %q", id, err, refused)
		}
		id, err = pool.Detach()
	}
	if id != pool.ID() || err != nil {
		t.Fatalf("%q, %v", id, err)
	}
	if _, err := job.Wait(); !errors.Is(err, gputrain.ErrClosed) {
		t.Errorf("the job here: %v", err)
	}
	again, err := gputrain.Attach(t.Context(), p, id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Run(gputrain.Cmd("touch", "go")); err != nil {
		t.Error(err)
	}
	for _, j := range again.Jobs() {
		if r, err := j.Wait(); err != nil || string(r.Stdout) != "begin\nend\n" || r.Attempts != 1 {
			t.Errorf("%q after %d attempts, %v", r.Stdout, r.Attempts, err)
		}
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	Empty(t, c.Account(f))
}

package guardian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// exitUsage is the exit code of a process that is told to be a guardian, and was started by no pool.
const exitUsage = 64

// Main is the life of a guardian's process. It never returns.
func Main(leave Leave) {
	_ = os.Unsetenv(Env)                           // processes that the drivers start are no guardians
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP) // a write to the pipe of a dead program must not end it
	os.Exit(run(context.Background(), os.Stdin, os.Stdout, os.Stderr, leave))
}

func run(ctx context.Context, in io.Reader, out, stderr io.Writer, leave Leave) int {
	var job Job
	orders := cbor.NewDecoder(in)
	if err := orders.Decode(&job); err != nil {
		fmt.Fprintf(stderr, "gputrain: %s is set by gputrain for a process that it starts itself; unset it to run this program\n", Env)
		return exitUsage
	}
	w, err := newWatch(job, leave)
	if err != nil {
		fmt.Fprintf(out, "\n%s%v\n", saying, err)
		return 1
	}
	fmt.Fprintf(out, "\n%s%s\n", saying, ready)
	var last farewell
	if err := orders.Decode(&last); err == nil && last.Closed {
		return 0
	}
	w.run(ctx)
	return 0
}

// newWatch reads what the job names.
func newWatch(job Job, leave Leave) (*watch, error) {
	w := &watch{pool: job.Pool, generation: job.Generation, leave: leave}
	var errs []error
	for _, c := range job.Providers {
		p, err := c.Decode()
		errs = append(errs, err)
		w.providers = append(w.providers, p)
	}
	dir, err := ledger.OpenDir(job.StateDir)
	w.dir = dir
	return w, errors.Join(append(errs, err)...)
}

// A watch looks after the pool of a program that has died.
type watch struct {
	pool       string
	generation int
	providers  []driver.Provider
	dir        *ledger.Dir
	leave      Leave

	holds map[int]bool // whether a task may hold the lease, by the generation of the program that has died
}

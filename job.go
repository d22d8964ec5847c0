package gputrain

import (
	"io"
	"sync"

	"github.com/gputrain/gputrain/internal/output"
)

// Start begins a task in the background. If there is a mistake in the task, the job's Wait returns
// it.
func (c *Compute) Start(task Task) *Job {
	j := &Job{done: make(chan struct{}), handOver: func() {}}
	b, err := c.batch([]Task{task})
	if err != nil {
		j.result = Result{Index: -1, Err: err}
		j.cancel = func() {}
		j.end()
		return j
	}
	j = b.newJob()
	b.submit()
	j.follow(b)
	return j
}

// newJob makes a job of a batch of one task.
func (b *batch) newJob() *Job {
	p := b.c.p
	j := &Job{id: b.units[0].id, cancel: b.Cancel, done: make(chan struct{}), p: p}
	unlist := p.jobs.Add(j)
	j.handOver = sync.OnceFunc(func() {
		b.handOver()
		unlist()
	})
	b.units[0].job = j
	return j
}

// follow waits for the batch's result in the background.
func (j *Job) follow(b *batch) {
	j.p.background.Go(func() {
		defer j.end()
		defer b.close()
		j.result = <-b.results
	})
}

// Jobs returns the jobs whose Wait has not returned yet, in the order in which they
// were started: those of Start, and after Attach every task of the earlier program.
func (c *Compute) Jobs() []*Job { return c.p.jobs.All() }

// A Job is a task that runs in the background.
type Job struct {
	id       string
	cancel   func()
	handOver func() // records that the program has the result
	p        *pool
	done     chan struct{}
	result   Result

	stdout, stderr output.Playback
}

// ID returns the task's id, unique in the pool. It is empty if the task was refused.
func (j *Job) ID() string { return j.id }

// Done is closed when the job is over.
func (j *Job) Done() <-chan struct{} { return j.done }

// Cancel ends the job, on the node too. Wait returns once that is done, and its Outputs have come: see
// [Task].
func (j *Job) Cancel() { j.cancel() }

// Wait returns the job's result when it is over, with the result's Err.
func (j *Job) Wait() (Result, error) {
	<-j.done
	j.handOver()
	return j.result, j.result.Err
}

// Stdout returns a reader of what the command writes to its stdout, from the start and as it
// comes: Read waits for more until the job is over, and then ends with io.EOF, or with
// [ErrLimit] if more came than Limits.OutputBytes. Every reader has its own position. If an
// attempt failed and another one was made, the whole output of the next one follows. For a
// function, it has what Result.Stdout would have: what came while no other call ran in its
// process.
func (j *Job) Stdout() io.Reader { return j.stdout.Reader() }

// Stderr is like Stdout, for stderr.
func (j *Job) Stderr() io.Reader { return j.stderr.Reader() }

// show adds the output of an attempt that is about to begin.
func (j *Job) show(stdout, stderr *output.Spool) {
	j.stdout.Add(stdout)
	j.stderr.Add(stderr)
}

func (j *Job) end() {
	j.stdout.End()
	j.stderr.End()
	close(j.done)
}

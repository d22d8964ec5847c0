package gputrain

import (
	"container/list"
	"io"
	"sync"
)

// Start begins a task in the background. A mistake in the task is what the
// job's Wait returns.
func (c *Compute) Start(task Task) *Job {
	j := &Job{done: make(chan struct{}), handOver: func() {}}
	b, err := c.batch([]Task{task})
	if err != nil {
		j.result = Result{Index: -1, Err: err}
		j.cancel = func() {}
		j.end()
		return j
	}
	j = c.newJob(b)
	b.submit()
	j.follow(b)
	return j
}

// newJob makes a job of a batch of one.
func (c *Compute) newJob(b *batch) *Job {
	j := &Job{id: b.units[0].id, cancel: b.cancel, done: make(chan struct{}), p: c.p}
	j.handOver = sync.OnceFunc(func() {
		b.handOver()
		c.p.jobs.remove(j)
	})
	b.units[0].job = j
	c.p.jobs.add(j)
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
func (c *Compute) Jobs() []*Job { return c.p.jobs.all() }

// A jobList is the jobs whose results were not handed over, in the order of their start.
type jobList struct {
	mu   sync.Mutex
	list list.List // of *Job
}

func (l *jobList) add(j *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.listed = l.list.PushBack(j)
}

func (l *jobList) remove(j *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list.Remove(j.listed)
}

func (l *jobList) all() []*Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := make([]*Job, 0, l.list.Len())
	for e := l.list.Front(); e != nil; e = e.Next() {
		jobs = append(jobs, e.Value.(*Job))
	}
	return jobs
}

// A Job is a task that runs in the background.
type Job struct {
	id       string
	cancel   func()
	handOver func() // notes that the program has the result
	p        *pool
	listed   *list.Element // in the pool's jobs
	done     chan struct{}
	result   Result

	stdout, stderr playback
}

// ID returns the task's id, unique in the pool. It is empty where the task was refused.
func (j *Job) ID() string { return j.id }

// Done is closed when the job is over.
func (j *Job) Done() <-chan struct{} { return j.done }

// Cancel ends the job, on the node too. Wait returns once that is done.
func (j *Job) Cancel() { j.cancel() }

// Wait returns the job's result when it is over, with the result's Err.
func (j *Job) Wait() (Result, error) {
	<-j.done
	j.handOver()
	return j.result, j.result.Err
}

// Stdout returns a reader of what the command writes to its stdout, from the
// start and as it comes: Read waits for more until the job is over, and then
// ends with io.EOF, or with [ErrLimit] where more came than Limits.OutputBytes. Every reader has a place of its own. Where an attempt
// failed and another one was made, what the next one writes follows whole. Of a
// function it has what Result.Stdout would have: what came while no other call ran in
// its process.
func (j *Job) Stdout() io.Reader { return &playbackReader{p: &j.stdout} }

// Stderr is like Stdout, for stderr.
func (j *Job) Stderr() io.Reader { return &playbackReader{p: &j.stderr} }

// show adds the output of an attempt that is about to begin.
func (j *Job) show(stdout, stderr *spool) {
	if j == nil {
		return
	}
	j.stdout.add(stdout)
	j.stderr.add(stderr)
}

func (j *Job) end() {
	j.stdout.end()
	j.stderr.end()
	close(j.done)
}

// A playback is one stream of a job: that of each attempt, in order.
type playback struct {
	mu     sync.Mutex
	spools []*spool
	over   bool
	grown  chan struct{} // closed, and replaced, when there is more; nil while nobody waits
}

func (p *playback) add(s *spool) {
	s.grew = p.wake
	p.mu.Lock()
	p.spools = append(p.spools, s)
	p.mu.Unlock()
	p.wake()
}

func (p *playback) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.wake()
}

// wake tells the readers that there is more.
func (p *playback) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown != nil {
		close(p.grown)
		p.grown = nil
	}
}

// at returns the attempt to read, whether another one follows or none can, and what
// to wait for where it has no more.
func (p *playback) at(i int) (s *spool, last, over bool, grown <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown == nil {
		p.grown = make(chan struct{})
	}
	if i < len(p.spools) {
		s = p.spools[i]
	}
	return s, i >= len(p.spools)-1, p.over, p.grown
}

// A playbackReader is somebody's place in a playback.
type playbackReader struct {
	p       *playback
	attempt int
	offset  int64
}

func (r *playbackReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		// What is said of the stream is asked before its bytes are, so that
		// none can come in between.
		s, last, over, grown := r.p.at(r.attempt)
		if s != nil {
			n, err := s.readAt(b, r.offset)
			r.offset += int64(n)
			if n > 0 || err != nil {
				return n, err
			}
			if err := s.truncated(r.offset); err != nil {
				return 0, err
			}
		}
		switch {
		case !last:
			r.attempt, r.offset = r.attempt+1, 0
		case over:
			return 0, io.EOF
		default:
			<-grown
		}
	}
}

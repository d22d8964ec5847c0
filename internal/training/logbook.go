package training

import (
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/journal"
)

// A logbook records where a training is, for a program that goes on with it.
type logbook struct {
	write func(journal.Training)

	mu      sync.Mutex
	entry   journal.Training
	stepped time.Time // when a step was recorded last
}

// note records a change, unless the training has been recorded as over.
func (l *logbook) note(change func(*journal.Training)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.entry.Over
	if change(&l.entry); over {
		return
	}
	entry := l.entry
	entry.Past = slices.Clone(entry.Past)
	l.write(entry)
}

// end records that no other program goes on with the training.
func (l *logbook) end() {
	l.note(func(r *journal.Training) { *r = journal.Training{ID: r.ID, Name: r.Name, Over: true} })
}

// drop records that the training has given a node back.
func (l *logbook) drop(node string) {
	l.note(func(r *journal.Training) {
		r.Nodes = slices.Clone(r.Nodes)
		if i := slices.Index(r.Nodes, node); i >= 0 {
			r.Nodes[i] = ""
		}
	})
}

// check records that the training runs its check once more, and returns how often it has.
func (l *logbook) check() (number int) {
	l.note(func(r *journal.Training) {
		r.Checks++
		number = r.Checks
	})
	return number
}

// A step is recorded every stepPause.
const stepPause = 10 * time.Second

// step notes a step.
func (l *logbook) step(n int64) {
	l.mu.Lock()
	l.entry.Step = max(l.entry.Step, n)
	due := time.Since(l.stepped) >= stepPause
	if due {
		l.stepped = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.note(func(*journal.Training) {})
	}
}

// past records an attempt that is over.
func (l *logbook) past(e *gang.Attempt, locate func(Node) journal.Location, describe func(*gang.Attempt) string) {
	p := journal.PastAttempt{Number: e.Number, To: e.To.UnixNano(), Resumed: e.Resumed, First: e.First, Last: e.Last}
	if !e.From.IsZero() {
		p.From = e.From.UnixNano()
	}
	for _, n := range e.Nodes {
		if n != nil {
			p.Nodes = append(p.Nodes, locate(n.(Node)))
		}
	}
	if len(e.Failures) > 0 {
		p.Failure = describe(e)
	}
	l.note(func(r *journal.Training) {
		r.Past = append(r.Past, p)
		r.Restarts, r.Fruitless = e.Restarts, e.Fruitless
		r.Prepared, r.Released = 0, 0
	})
}

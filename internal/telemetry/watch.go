package telemetry

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
)

//go:embed sampler.sh
var sampler string

// command returns the command that runs the sampler. Its fifth word is its name, by which simulated nodes know it.
func command(mode string) string {
	text, err := supervisor.Quote(sampler)
	if err != nil {
		panic(err) // the script is a constant
	}
	return "exec sh -c " + text + " gputrain-usage " + mode
}

// A Node is a node whose devices are watched.
type Node struct {
	Commands
	// IsUp reports whether the node can be reached.
	IsUp func() bool
	// Only are the names of the devices that count: see [Only].
	Only []string
}

const (
	// A sample is whole if no other row of it has come for settling.
	settling = 2 * time.Second
	// looking is the time between two looks at how late a sample is.
	looking = 5 * time.Second
	// A sample that comes within leastPause after another one is ignored: the sampler makes one each ten seconds.
	leastPause = 5 * time.Second
	// A session that ended is opened again after reopenPause, and after longestPause at last.
	reopenPause, longestPause = 5 * time.Second, 5 * time.Minute
)

// Watch reports samples of a node's devices, and their faults, until ctx ends. One process on the node does it, which ends with
// its session. Watch opens it again after a lost connection. report is called by one goroutine.
func Watch(ctx context.Context, n Node, report func(Report)) {
	w := &watcher{node: n, report: report, judge: newJudge(n.Only)}
	for pause := reopenPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		s, err := n.Open(ctx, command("watch"))
		if err == nil {
			if w.session(ctx, s) {
				pause = reopenPause
			}
			s.Close()
		}
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// A watcher is one Watch. Its fields are those of the goroutine that is in it.
type watcher struct {
	node   Node
	report func(Report)
	judge  *judge

	kernel  kernelSource
	sampled bool      // there was a sample
	at      time.Time // of the last sample that counted
	overdue bool      // it was reported that none comes

	// Of the session:
	stream stream
	opened time.Time
	silent time.Time // since when no sample has come, although the node could be reached
	none   bool      // the node has no tool that samples its devices
}

// A heard is a line of the sampler.
type heard struct {
	text   string
	kernel bool
}

// session follows one session. It reports whether that has given a sample.
func (w *watcher) session(ctx context.Context, s *ssh.Session) (sampled bool) {
	all := make(chan heard)
	over, end := context.WithCancel(ctx)
	defer end()
	forward := func(src io.Reader, kernel bool) {
		io.Copy(&lines{line: func(text string) {
			select {
			case all <- heard{text, kernel}:
			case <-over.Done():
			}
		}}, src)
	}
	go forward(s.Stderr, true)
	go func() {
		forward(s, false)
		end()
	}()
	return w.follow(over, all)
}

// follow handles the lines of a session until that is over.
func (w *watcher) follow(over context.Context, all <-chan heard) (sampled bool) {
	w.stream, w.none, w.opened, w.silent = stream{}, false, time.Now(), time.Now()
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	look := time.NewTicker(looking)
	defer look.Stop()
	for {
		var said saying
		select {
		case <-over.Done():
			return sampled
		case h := <-all:
			if h.kernel {
				w.logged(h.text)
				continue
			}
			said = w.stream.line(h.text)
			if len(w.stream.rows) > 0 {
				settle.Reset(settling)
			}
		case <-settle.C:
			said = w.stream.flush()
		case <-look.C:
			w.late()
			continue
		}
		sampled = sampled || len(said.samples) > 0
		w.said(said)
	}
}

// said handles what the sampler says.
func (w *watcher) said(said saying) {
	switch {
	case said.none:
		w.none = true
	case said.kernel != nil:
		if said.kernel.how != w.kernel.how || !w.kernel.known { // or else what was logged meanwhile is new
			w.kernel = *said.kernel
		}
	case said.remap != nil:
		w.fault(w.judge.remap(*said.remap))
	case said.lost != "":
		w.fault(w.judge.lost(said.lostIndex, said.lostDevice, said.lost))
	case len(said.samples) > 0:
		w.silent, w.sampled, w.overdue = time.Now(), true, false
		if time.Since(w.at) < leastPause {
			return
		}
		w.at = time.Now()
		samples, faults := w.judge.samples(said.samples)
		if len(samples) > 0 {
			w.report(Report{Samples: samples, KernelLog: w.logIsRead()})
		}
		for _, f := range faults {
			w.fault(&f)
		}
	}
}

func (w *watcher) logIsRead() bool { return w.kernel.how != "" && w.kernel.how != "unknown" }

func (w *watcher) fault(f *Fault) {
	if f != nil {
		w.report(Report{Fault: f, KernelLog: w.logIsRead()})
	}
}

// logged handles a line of the kernel's log, unless it is older than the watch.
func (w *watcher) logged(line string) {
	at, ok := kernelTime(line)
	switch {
	case w.kernel.known && ok && at <= w.kernel.since:
		return
	case !w.kernel.known && time.Since(w.opened) < settling:
		return // what was logged before comes at once
	}
	if ok {
		w.kernel.since = at
	}
	w.fault(w.judge.kernel(time.Now(), line))
}

// late reports that no sample comes, although the node can be reached: the vendor's tool hangs, or fails.
func (w *watcher) late() {
	limit := patience
	if !w.sampled {
		limit = firstPatience
	}
	switch {
	case !w.node.IsUp():
		w.silent = time.Now()
	case w.none, w.overdue, time.Since(w.silent) < limit:
	case w.stream.ended && !w.sampled: // it has never worked: it is not known what that means
	case w.stream.ended:
		w.overdue = true
		w.fault(&Fault{Text: fmt.Sprintf("its accelerators can be sampled no more: %s", w.stream.said), Severity: Replace})
	default:
		w.overdue = true
		w.fault(&Fault{Text: fmt.Sprintf("what samples its accelerators has not answered for %v, as it does if one is lost", limit), Severity: Replace})
	}
}

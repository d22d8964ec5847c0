package simnode

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	short  = 4096                  // bytes of a stream that come with the end of its task
	moment = 50 * time.Millisecond // the start of a task that runs longer is reported
)

// A task is a running task. Its place's mu guards it.
type task struct {
	p            *place
	id           string
	scratch      string // its directory's name, or "-"
	hold         bool   // it holds the lease
	cancel       context.CancelFunc
	began        time.Time
	grace        time.Duration
	out          [2][]byte
	file         [2]bool // the client has to ask for the stream
	reported     bool    // the client knows that it runs
	cancelled    bool
	lapsed       bool
	late         bool
	over         bool
	env          []string
	released     chan struct{} // closed once a process of a training may begin; nil for other tasks
	releasedOnce sync.Once
	timers       []*time.Timer
	finished     chan struct{}
	finishedOnce sync.Once
}

// An ended task is known until it is forgotten.
type ended struct {
	line    string // its 'D' frame
	scratch string
	out     [2][]byte
	dropped bool // it must not start again, and nothing else is known of it
}

// start ID DIR SECONDS TENTHS STDIN SCRATCH MARK HOLD TTY NENV ENV... COMMAND ARG...
func (p *place) start(w []string) {
	if len(w) < 10 || p.gone {
		return
	}
	id := w[0]
	if e := p.ended[id]; e != nil && e.dropped {
		return
	}
	if p.live[id] != nil || p.ended[id] != nil {
		p.state(w[:1])
		return
	}
	n, err := strconv.Atoi(w[9])
	if err != nil || n < 0 || len(w) < 11+n {
		return
	}
	stdin := []byte(nil)
	if w[4] != "/dev/null" {
		data, ok := p.files[w[4]]
		if !ok {
			p.ends(id, w[5], "0 - nostdin - 0 0 0 ", [2][]byte{})
			return
		}
		stdin = data
	}
	env := append([]string{"HOME=" + home, "PATH=/usr/bin:/bin"}, p.env...)
	if w[5] != "-" {
		env = append(env, "GPUTRAIN_SCRATCH="+p.root+"/s/"+w[5])
	}
	env = append(append(env, "GPUTRAIN_TASK="+id, "PWD="+w[1]), w[10:10+n]...)
	args := w[10+n:]
	if len(args) == 2 && args[0] == "sh" { // a script too long for one argument
		if text, ok := p.files[strings.TrimPrefix(args[1], p.root+"/t/")]; ok {
			args = []string{"sh", "-c", string(text)}
		}
	}
	args, waits := unwrap(args)
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{p: p, id: id, scratch: w[5], hold: w[7] != "", cancel: cancel, began: time.Now(), finished: make(chan struct{}), env: env}
	if waits {
		t.released = make(chan struct{})
	}
	tenths, _ := strconv.Atoi(w[3])
	t.grace = time.Duration(tenths) * 100 * time.Millisecond
	p.live[id] = t
	if t.hold {
		p.renew()
	}
	t.after(moment, t.tell)
	if limit, err := strconv.ParseFloat(w[2], 64); err == nil && limit > 0 {
		t.after(time.Duration(limit*float64(time.Second)), func() {
			if !t.cancelled {
				t.late = true
				t.end(t.grace)
			}
		})
	}
	errs := 1
	if w[8] != "" { // a terminal has one stream
		errs = 0
	}
	cmd := Command{ID: id, Args: args, Env: env, Dir: w[1], Stdin: bytes.NewReader(stdin), Stdout: &stream{t, 0}, Stderr: &stream{t, errs}}
	p.node.wg.Go(func() {
		defer cancel()
		code := -15
		if t.begins(ctx) {
			code = p.node.cfg.Exec(ctx, cmd)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		t.finish(code)
	})
}

// begins waits until the task may begin. It reports false if the task is ended before.
func (t *task) begins(ctx context.Context) bool {
	if t.released == nil {
		return true
	}
	select {
	case <-t.released:
		return true
	case <-ctx.Done():
		return false
	}
}

// after calls f later, with the place's mu held, unless the task is over.
func (t *task) after(d time.Duration, f func()) {
	t.timers = append(t.timers, time.AfterFunc(d, func() {
		t.p.mu.Lock()
		defer t.p.mu.Unlock()
		if !t.over {
			f()
		}
	}))
}

// tell reports that the task runs, and from then on that it has output.
func (t *task) tell() {
	t.reported = true
	if len(t.out[0])+len(t.out[1]) > 0 {
		t.spill()
		return
	}
	t.p.answer("S " + t.id)
}

// spill makes the client ask for the output.
func (t *task) spill() {
	t.reported = true
	first := !t.file[0] && !t.file[1]
	for s := range t.out {
		t.file[s] = t.file[s] || len(t.out[s]) > 0
	}
	if first {
		t.p.answer("G " + t.id)
	}
}

// A stream is a task's stdout or stderr.
type stream struct {
	t *task
	s int
}

func (w *stream) Write(b []byte) (int, error) {
	w.t.p.mu.Lock()
	defer w.t.p.mu.Unlock()
	if w.t.over {
		return 0, io.ErrClosedPipe
	}
	w.t.out[w.s] = append(w.t.out[w.s], b...)
	if !w.t.file[w.s] && len(w.t.out[w.s]) > 0 && (w.t.reported || len(w.t.out[w.s]) > short) {
		w.t.spill()
	}
	return len(b), nil
}

// end asks a task to end, and kills it after the grace.
func (t *task) end(grace time.Duration) {
	t.cancel()
	t.after(grace, func() { t.finish(-9) })
}

// kill ends a task silently.
func (t *task) kill() {
	t.over = true
	t.cancel()
	t.stop()
}

func (t *task) stop() {
	for _, timer := range t.timers {
		timer.Stop()
	}
	t.finishedOnce.Do(func() { close(t.finished) })
}

var signals = map[int]string{1: "HUP", 2: "INT", 3: "QUIT", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM"}

// finish reports the end of a task: for each stream 0 means empty, 1 that the client has to ask for it, 2 that it is
// quoted in the text that follows.
func (t *task) finish(code int) {
	if t.over {
		return
	}
	t.over = true
	t.stop()
	delete(t.p.live, t.id)
	if t.hold {
		t.p.renew()
	}
	cause, sig := "exit", "-"
	if code < 0 {
		cause, sig = "signal", signals[-code]
		if sig == "" {
			sig = "RT" + strconv.Itoa(-code)
		}
		code = 128 - code
	}
	if t.lapsed {
		cause = "lapsed"
	}
	if t.cancelled {
		cause = "cancelled"
	}
	if t.late {
		cause = "timedout"
	}
	var where [2]int
	text := ""
	for s := range t.out {
		switch {
		case t.file[s]:
			where[s] = 1
		case len(t.out[s]) > 0:
			where[s] = 2
			text += quote(t.out[s])
		}
	}
	t.p.ends(t.id, t.scratch, fmt.Sprintf("%d %s %s %d 0 %d %d %s", code&0xff, sig, cause, time.Since(t.began).Milliseconds(), where[0], where[1], text), t.out)
}

// ends records and reports the end of a task.
func (p *place) ends(id, scratch, line string, out [2][]byte) {
	p.ended[id] = &ended{line: "D " + id + " " + line, scratch: scratch, out: out}
	p.answer(p.ended[id].line)
}

// quote quotes as bash's printf %q may.
func quote(b []byte) string {
	var q strings.Builder
	q.WriteString("$'")
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&q, `\%03o`, c)
		} else {
			q.WriteByte(c)
		}
	}
	q.WriteString("' ")
	return q.String()
}

package console

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// frameTime is the least time between two drawings.
	frameTime = 200 * time.Millisecond
	// restShare is how many times longer a View rests than it works, which bounds its share of a processor.
	restShare = 20
)

// A live view keeps a block at the end of a terminal.
type live struct {
	src    source
	f      *os.File
	t      terminal
	least  int  // rows of the terminal
	forced bool // draws in the background too
	d      display
	helper *helper

	paces  paces
	screen screen
	seq    atomic.Int64 // of what was taken last
}

// newLive returns a live view. The error is that there is no helper.
func newLive(src source, f *os.File, t terminal, getenv func(string) string) (*live, error) {
	h, err := startHelper(f)
	if err != nil {
		return nil, err
	}
	l := &live{src: src, f: f, t: t, least: leastRows, helper: h}
	if forced(getenv) == "live" {
		l.least, l.forced = leastForced, true
	}
	l.d.color = getenv("NO_COLOR") == ""
	l.d.unicode = (t.utf8 || isUTF8(getenv)) && !isWide(getenv)
	return l, nil
}

// run draws until ctx ends.
func (l *live) run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news, taken := make(chan struct{}, 1), make(chan struct{}, 1)
	watching.Go(func() { l.watch(ctx, news, taken) })
	changes, ignore := l.t.changes()
	defer ignore()
	second := time.NewTicker(time.Second) // what is shown has durations
	defer second.Stop()
	for {
		began := time.Now()
		l.draw(began)
		select {
		case taken <- struct{}{}:
		default:
		}
		pause := time.NewTimer(max(frameTime, restShare*time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return l.end()
		}
		select {
		case <-news:
		case <-second.C:
		case <-changes:
			l.screen.lose()
		case <-ctx.Done():
			return l.end()
		}
		select { // that came with something else
		case <-changes:
			l.screen.lose()
		default:
		}
	}
}

// watch signals news when there is something that was not taken yet.
func (l *live) watch(ctx context.Context, news chan<- struct{}, taken <-chan struct{}) {
	for {
		came := false
		for range l.src.Events(ctx, l.seq.Load()) {
			came = true
			break
		}
		if !came { // ctx has ended, or the recording
			return
		}
		select {
		case news <- struct{}{}:
		default:
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return
		}
	}
}

// draw shows what is known now.
func (l *live) draw(now time.Time) {
	if !l.forced && !l.t.isForeground() { // the shell, or another program, has the terminal
		l.screen.lose()
		return
	}
	run := l.src.Run()
	l.seq.Store(run.Seq)
	l.paces.look(run)
	var rows []row
	columns, height, ok := l.t.size()
	l.d.columns, l.d.rows = columns, height
	if ok && height >= l.least {
		rows = frame(run, &l.paces, l.d)
	}
	had := l.screen.height > 0
	text := l.screen.draw(rows, l.d, now)
	if text == "" {
		return
	}
	if len(rows) > 0 && !had {
		l.helper.arm()
	}
	if _, err := l.f.WriteString(text); err != nil {
		l.screen.lose()
	}
	if len(rows) == 0 {
		l.helper.disarm()
	}
}

// end gives the terminal back and leaves the closing line.
func (l *live) end() error {
	text := l.screen.remove()
	if line := closingLine(l.src.Run()); line != "" {
		if !l.d.unicode {
			line = ascii(line)
		}
		text += line + "\n"
	}
	var err error
	if text != "" {
		_, err = l.f.WriteString(text)
	}
	if err == nil {
		l.helper.disarm()
	}
	l.helper.close()
	return err
}

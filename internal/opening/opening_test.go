package opening

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A screen is a terminal of one line: what is printed after the last erasing is what it shows.
type screen struct {
	mu   sync.Mutex
	text string
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	return len(p), nil
}

// shows returns the line, and all lines that are finished.
func (s *screen) shows() (line string, finished []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range strings.SplitSeq(s.text, "\r\n") {
		i := strings.LastIndex(one, erase)
		if i < 0 {
			finished, line = append(finished, one), ""
			continue
		}
		line = strings.TrimSuffix(one[i+len(erase):], "\r")
		finished = append(finished, line)
	}
	return line, finished[:len(finished)-1]
}

func costs() string { return "$0.02 so far, 2 machines for $1.76 an hour" }

func wide() int { return 200 }

// What is waited for, and what it costs, is in one line, and at the end in a last one.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(t.Context(), "it was begun"), &screen{}
		end := p.show(s, costs, wide)
		expect := func(want string) {
			t.Helper()
			time.Sleep(redraw)
			synctest.Wait()
			if got, _ := s.shows(); got != want {
				t.Errorf("shown: %q\n want: %q", got, want)
			}
		}
		time.Sleep(patience / 2)
		if s.text != "" {
			t.Errorf("%q", s.text)
		}
		p.Begin("asking for offers")
		expect("gputrain: asking for offers for 1s; $0.02 so far, 2 machines for $1.76 an hour")
		p.Waits(Wait{State: "capacity"})
		expect("gputrain: waiting for capacity for 2s; $0.02 so far, 2 machines for $1.76 an hour")
		p.Node(0, "launching", time.Now(), nil)
		p.Node(1, "launching", time.Now(), nil)
		expect("gputrain: 0 of 2 nodes ready, node 0 is launching for 1s; $0.02 so far, 2 machines for $1.76 an hour")
		p.Node(0, ready, time.Now(), nil)
		p.Phase(1, "pip", "started", time.Now(), nil)
		expect("gputrain: 1 of 2 nodes ready, node 1 is launching (pip) for 1s; $0.02 so far, 2 machines for $1.76 an hour")
		p.Phase(1, "pip", "done", time.Now(), nil)
		p.Node(1, ready, time.Now(), nil)
		end(true)
		end(true)
		line, finished := s.shows()
		if want := "gputrain: 2 of 2 nodes ready after 5s; $0.02 so far, 2 machines for $1.76 an hour"; line != "" || len(finished) != 1 || finished[0] != want {
			t.Errorf("at last: %q, %q", line, finished)
		}
	})
}

// A pool that opens at once, or not at all, leaves nothing on the terminal. A long text stays in one line, and is printable.
func TestLineLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(t.Context(), "it was begun"), &screen{}
		p.show(s, costs, wide)(true)
		if s.text != "" {
			t.Errorf("at once: %q", s.text)
		}
		end := p.show(s, func() string { return "" }, func() int { return 40 })
		p.Node(0, "boot\x1b[31m\nstrapping", time.Now(), nil)
		time.Sleep(patience + redraw/2)
		synctest.Wait()
		if line, _ := s.shows(); len([]rune(line)) != 39 || strings.ContainsAny(line, "\n\x1b") || !strings.HasSuffix(line, "…") {
			t.Errorf("%q", line)
		}
		end(false)
		if line, finished := s.shows(); line != "" || len(finished) != 0 {
			t.Errorf("not at all: %q, %q", line, finished)
		}
	})
}

// A stoppedTerminal takes nothing until it goes on.
type stoppedTerminal struct{ goesOn chan struct{} }

func (s stoppedTerminal) Write(p []byte) (int, error) { <-s.goesOn; return len(p), nil }

// A terminal that is stopped, as by Ctrl-S, holds nobody up: what Open has rented is to be ended.
func TestLineOnAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(t.Context(), "it was begun"), stoppedTerminal{make(chan struct{})}
		end := p.show(s, costs, wide)
		time.Sleep(2 * patience)
		began := time.Now()
		end(false)
		if took := time.Since(began); took != stuck {
			t.Errorf("the end took %v", took)
		}
		close(s.goesOn)
	})
}

// What is no terminal gets nothing.
func TestNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	New(t.Context(), "it was begun").Show(f, costs)(true)
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// An error of an Open that is cut short says what was waited for, with the machines of nodes that are not ready.
func TestWaitedFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := New(ctx, "asking for offers")
	if got := p.WaitedFor(nil); got != "asking for offers" {
		t.Error(got)
	}
	for rank := range 7 {
		p.Node(rank, "launching", time.Now(), nil)
	}
	p.Node(0, ready, time.Now(), nil)
	p.Node(1, "connecting", time.Now(), errors.New("refused"))
	p.Waits(Wait{State: "settling", Until: time.Now(), Err: errors.New("an answer was lost")})
	cancel()
	p.Node(1, "failed", time.Now(), errors.New("only because of the end"))
	got := p.WaitedFor(map[int]Machine{2: {State: "i-2 is pending", Failures: []error{errors.New("no answer")}}})
	for _, want := range []string{"waiting for 7 nodes, of which 1 are ready", "node 1 is connecting for 0s, last failure: refused", "node 2 is launching for 0s, its machine i-2 is pending, last failure: no answer", "and 3 more"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

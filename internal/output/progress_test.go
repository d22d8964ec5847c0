package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// lockedBuffer is a user's writer that a test can read while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take returns what was written since the last take.
func (b *lockedBuffer) take() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return b.b.String()
}

// onTerminal makes these Lines treat their destination as a terminal.
func onTerminal(ws ...*Lines) {
	for _, w := range ws {
		w.terminal, w.progress.every = true, progressOnTerminals
	}
}

// status returns the bytes that show a state on a terminal.
func status(text string) string { return "\x1b[K\x1b[?7l" + text + "\x1b[?7h\r" }

func TestProgressOnATerminal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lockedBuffer
		o := NewPrinter(&out, &out, false, &Redactor{})
		a, aErr := o.Lines(Source{Label: "a"})
		b, _ := o.Lines(Source{Label: "b"})
		onTerminal(a, aErr, b)
		expect := func(what, want string) {
			t.Helper()
			if got := out.take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}

		for i := range 100 { // as by tqdm, whose states begin with the return
			fmt.Fprintf(aErr, "\r%d%%", i)
			time.Sleep(7 * time.Millisecond)
		}
		expect("700 milliseconds", status("[a] 35%")+status("[a] 71%"))
		time.Sleep(time.Second)
		expect("the last state", status("[a] 99%"))
		time.Sleep(time.Hour)
		expect("a state that stays", "")

		b.Write([]byte("hello\n"))
		expect("a line above it", "\x1b[K[b] hello\n"+status("[a] 99%"))
		a.Write([]byte("its own\n"))
		expect("a line of the other stream", "\x1b[K[a] its own\n"+status("[a] 99%"))

		b.Write([]byte("1 of 7\r")) // as by other programs, whose states end with it
		time.Sleep(progressOnTerminals)
		expect("progress of another task takes its turn", status("[b] 1 of 7"))
		fmt.Fprint(aErr, "\r99.5%")
		time.Sleep(statusTurn / 2)
		expect("within the turn", "")
		time.Sleep(statusTurn)
		expect("after the turn", status("[a] 99.5%"))

		fmt.Fprint(aErr, "\r100%\n")
		expect("the end", "\x1b[K[a] 100%\n")
		b.Flush()
		expect("an end without a newline", "[b] 1 of 7\n")
		aErr.Flush()
		time.Sleep(time.Hour)
		expect("afterwards", "")
	})
}

func TestProgressInAFile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lockedBuffer
		w, _ := NewPrinter(&out, nil, false, &Redactor{}).Lines(Source{Label: "a"})
		for i := range 250 {
			fmt.Fprintf(w, "\r%3d of 250 \x1b[32m", i)
			time.Sleep(130 * time.Millisecond)
		}
		if got := out.take(); got != "[a]  76 of 250 \n[a] 153 of 250 \n[a] 230 of 250 \n" {
			t.Errorf("32.5 seconds are shown as %q", got)
		}
		fmt.Fprint(w, "\r250 of 250\r\n")
		if got := out.take(); got != "[a] 250 of 250\n" {
			t.Errorf("the end is %q", got)
		}
		fmt.Fprint(w, "one\r")
		fmt.Fprint(w, "\ntwo\r\n")
		if got := out.take(); got != "[a] one\n[a] two\n" {
			t.Errorf("lines that end as Windows has them are %q", got)
		}
		time.Sleep(time.Hour)
		if got := out.take(); got != "" {
			t.Errorf("shown after the end: %q", got)
		}

		fmt.Fprint(w, "\rdone")
		time.Sleep(time.Minute)
		fmt.Fprint(w, "\n")
		if got := out.take(); got != "[a] done\n" {
			t.Errorf("a last state that was shown already: %q", got)
		}
		fmt.Fprint(w, "\rdone")
		w.Flush()
		if got := out.take(); got != "[a] done\n" {
			t.Errorf("the same in another line: %q", got)
		}
	})
}

func TestProgressAsItCame(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lockedBuffer
		secrets := &Redactor{}
		secrets.Learn(map[string]driver.Secret{"K": "hunter2"})
		w, _ := NewPrinter(&out, nil, true, secrets).Lines(Source{Label: "a"})
		fmt.Fprint(w, "\r\x1b[32m1%\r\x1b[32mhunter2\r3")
		time.Sleep(progressOnTerminals)
		if got := out.take(); got != "[a] \r\x1b[32m1%\r\x1b[32m[redacted]\r" {
			t.Errorf("shown live: %q", got)
		}
		fmt.Fprint(w, "%\r")
		time.Sleep(progressOnTerminals)
		if got := out.take(); got != "[a] 3%\r" {
			t.Errorf("shown live: %q", got)
		}
		w.Flush()
		if got := out.take(); got != "[a] \n" {
			t.Errorf("the end: %q", got)
		}
	})
}

// A state may be shown before it is complete, but not the part of a secret in it.
func TestProgressShowsNoPartOfASecret(t *testing.T) {
	for name, terminal := range map[string]bool{"terminal": true, "file": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var out lockedBuffer
				secrets := &Redactor{}
				secrets.Learn(map[string]driver.Secret{"A": "hunter2", "B": "pass\x1b]0;word", "C": "over\rtwo lines"})
				w, _ := NewPrinter(&out, nil, false, secrets).Lines(Source{Label: "a"})
				if terminal {
					onTerminal(w)
				}
				for _, state := range []string{"\rwith hunter", "\rwith hun\x1b[1mte", "\rwith pass\x1b]0;wo", "\rwith hunter2", "\rwith two lines", "\rwith over", "\rwith \xe4\xb8"} {
					fmt.Fprint(w, state)
					time.Sleep(time.Minute)
					got := out.take()
					if state == "\rwith hunter2" && !strings.Contains(got, "[a] with [redacted]") {
						t.Errorf("%q is shown as %q", state, got)
					}
					for _, part := range []string{"hun", "pass", "0;w", "two", "over", "\ufffd"} {
						if strings.Contains(got, part) {
							t.Errorf("%q is shown as %q", state, got)
						}
					}
				}
			})
		})
	}
}

// Lines and states of many tasks arrive whole, and each task's in order.
func TestProgressOfManyTasks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lockedBuffer
		o := NewPrinter(&out, nil, false, &Redactor{})
		var tasks sync.WaitGroup
		for i := range 20 {
			w, _ := o.Lines(Source{Label: fmt.Sprint("task ", i)})
			onTerminal(w)
			tasks.Go(func() {
				for line := range 5 {
					for state := range 100 {
						fmt.Fprintf(w, "\r%d: %d", line, state)
						time.Sleep(time.Duration(i+1) * time.Millisecond)
					}
					fmt.Fprintf(w, "\r%d: end\n", line)
				}
				w.Flush()
			})
		}
		tasks.Wait()
		next := map[string]int{}
		for screen := range strings.Lines(out.take()) {
			states := strings.Split(screen, "\r")
			for i, text := range states {
				text = strings.TrimPrefix(text, "\x1b[K")
				last := i == len(states)-1
				if !last {
					text = strings.TrimSuffix(strings.TrimPrefix(text, "\x1b[?7l"), "\x1b[?7h")
				}
				var task, line, state int
				_, err := fmt.Sscanf(text, "[task %d] %d: %d", &task, &line, &state)
				if last {
					_, err = fmt.Sscanf(text, "[task %d] %d: end\n", &task, &line)
				}
				if err != nil {
					t.Fatalf("%q in %q: %v", text, screen, err)
				}
				key := fmt.Sprint(task)
				if line != next[key] {
					t.Errorf("task %d shows line %d, want %d", task, line, next[key])
				}
				if last {
					next[key]++
				}
			}
		}
		if len(next) != 20 {
			t.Errorf("%d tasks were shown", len(next))
		}
	})
}

// A progress bar takes no more memory than its last state, however long it runs.
func TestProgressIsNotKept(t *testing.T) {
	var out bytes.Buffer
	w, _ := NewPrinter(&out, nil, false, &Redactor{}).Lines(Source{Label: "a"})
	for i := range 100_000 {
		fmt.Fprintf(w, "\r%d", i)
	}
	if len(w.held) > 10 {
		t.Errorf("%d bytes are held", len(w.held))
	}
	w.Flush()
	if out.String() != "[a] 99999\n" {
		t.Errorf("%.100q", out.String())
	}
}

//go:build unix

package console

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/local"
)

// The block stays whole, and so does what the program prints while it changes.
func TestPrintsScrollAbove(t *testing.T) {
	t.Parallel()
	y := newTTY(t, 80, 24)
	src := newFake(usual())
	v := show(src, y.f, liveEnv())
	defer v.Close()
	y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
	const lines = 300
	for i := range lines {
		fmt.Fprintf(y.f, "line ") // in two parts
		if i%50 == 0 {
			run := usual()
			run.Counts.Done += i
			src.set(run)
			time.Sleep(2 * frameTime)
		}
		fmt.Fprintf(y.f, "%d\n", i)
	}
	y.until("the last block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) && strings.HasPrefix(s[14], "line 299") })
	holds(t, y.screen(), lines)
}

// A block of another height moves what is above it, and loses none of it.
func TestBlockGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	y := newTTY(t, 80, 30)
	small := usual()
	small.Nodes, small.Transfers, small.Pools[0].Waiting = small.Nodes[:1], nil, ""
	src := newFake(small)
	fmt.Fprint(y.f, "line 0\nline 1\n")
	v := show(src, y.f, liveEnv())
	defer v.Close()
	y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 30)) })
	for i := 2; i < 40; i++ {
		fmt.Fprintln(y.f, "line", i)
	}
	src.set(usual())
	y.until("a higher block", func(s []string) bool { return ends(s, blockOf(src, 80, 30)) })
	holds(t, y.screen(), 40)
	src.set(small)
	y.until("a lower block", func(s []string) bool { return ends(s, blockOf(src, 80, 30)) })
	fmt.Fprintln(y.f, "line 40")
	y.until("a line below the others", func(s []string) bool {
		return ends(s, blockOf(src, 80, 30)) && strings.Contains(strings.Join(s, "\n"), "line 39\nline 40\n")
	})
	holds(t, y.screen(), 41)
	lines := 41
	y.until("lines where the higher block was", func(s []string) bool {
		fmt.Fprintln(y.f, "line", lines)
		lines++
		at := 30 - len(blockOf(src, 80, 30))
		return strings.HasPrefix(s[at-2], "line") && s[at-1] == "" && ends(s, blockOf(src, 80, 30))
	})
	y.until("the last line", func(s []string) bool {
		return strings.Contains(strings.Join(s, "\n"), fmt.Sprintf("line %d\n", lines-1))
	})
	holds(t, y.screen(), lines)
	ended := usual()
	ended.Pools[0].Closed = now
	src.set(ended)
	y.until("no block", func(s []string) bool {
		return !strings.Contains(strings.Join(s, "\n"), "tasks") && !ends(s, blockOf(newFake(small), 80, 30))
	})
	holds(t, y.screen(), lines)
}

func TestResize(t *testing.T) {
	t.Parallel()
	y := newTTY(t, 80, 24)
	src := newFake(usual())
	v := show(src, y.f, liveEnv())
	defer v.Close()
	y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
	lines := 0
	for _, size := range [][2]int{{60, 30}, {100, 15}, {40, 12}, {132, 43}, {80, 24}} {
		y.setSize(size[0], size[1])
		syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
		for range 60 {
			fmt.Fprintln(y.f, "line", lines)
			lines++
		}
		y.until(fmt.Sprint("the block at ", size), func(s []string) bool {
			return len(s) == size[1] && ends(s, blockOf(src, size[0], size[1]))
		})
		for range 60 {
			fmt.Fprintln(y.f, "line", lines)
			lines++
		}
		y.until("the lines", func(s []string) bool { return strings.Contains(strings.Join(s, "\n"), fmt.Sprint("line ", lines-1)) })
		if s := y.screen(); !ends(s, blockOf(src, size[0], size[1])) {
			t.Fatalf("at %v the block is broken:\n%s", size, strings.Join(s, "\n"))
		}
		holds(t, y.screen(), lines)
	}
	y.setSize(80, 11) // which is too small
	syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
	y.until("no block", func(s []string) bool { return !strings.Contains(strings.Join(s, "\n"), "node") })
	y.setSize(80, 24)
	syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
	y.until("the block again", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
}

// Close leaves one line below what the program has printed, and all rows to what comes.
func TestClose(t *testing.T) {
	t.Parallel()
	y := newTTY(t, 80, 24)
	before, err := term.GetState(int(y.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	src := newFake(usual())
	v := show(src, y.f, liveEnv())
	y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
	fmt.Fprint(y.f, "line 0\nline 1\n")
	for range 2 {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	fmt.Fprintln(y.f, "line 2")
	want := []string{"line 0", "line 1", "gputrain: 6 nodes, 12/18 tasks done, 1 failed, 5 not finished, 12m00s, $0.31", "line 2"}
	y.until("the closing line", func(s []string) bool { return reflect.DeepEqual(s[:4], want) })
	if rest := strings.Join(y.screen()[4:], ""); rest != "" {
		t.Errorf("below is %q", rest)
	}
	checkWhole(t, y)
	after, err := term.GetState(int(y.f.Fd()))
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the modes of the terminal have changed from %v to %v, %v", before, after, err)
	}
}

// checkWhole checks that all rows of a terminal scroll.
func checkWhole(t *testing.T, y *tty) {
	t.Helper()
	for i := range 2 * y.rows {
		fmt.Fprintf(y.f, "\nfull %d", i)
	}
	y.until("all rows", func(s []string) bool { return s[y.rows-1] == fmt.Sprint("full ", 2*y.rows-1) })
	for i, row := range y.screen() {
		if want := fmt.Sprint("full ", y.rows+i); row != want {
			t.Errorf("row %d is %q, not %q", i, row, want)
		}
	}
}

// A terminal that is not known, is too small or belongs to CI gets lines, without any control sequence.
func TestPlainTerminals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rows int
		env  []string
		live bool
	}{
		"dumb":          {24, []string{"TERM", "dumb"}, false},
		"none":          {24, []string{"TERM", ""}, false},
		"unknown":       {24, []string{"TERM", "vt52"}, false},
		"ci":            {24, []string{"CI", "true"}, false},
		"small":         {11, nil, false},
		"plain":         {24, []string{"GPUTRAIN_CONSOLE", "plain"}, false},
		"live":          {24, nil, true},
		"tmux":          {12, []string{"TERM", "tmux-256color"}, true},
		"screen":        {12, []string{"TERM", "screen.xterm"}, true},
		"forced":        {24, []string{"TERM", "dumb", "CI", "1", "GPUTRAIN_CONSOLE", "live"}, true},
		"forced, small": {3, []string{"GPUTRAIN_CONSOLE", "live"}, true},
		"a wrong value": {24, []string{"GPUTRAIN_CONSOLE", "loud"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTTY(t, 80, tt.rows)
			src := newFake(usual())
			v := show(src, y.f, liveEnv(tt.env...))
			if tt.live {
				y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, tt.rows)) })
			}
			v.Close()
			y.until("the closing line", func(s []string) bool { return strings.Contains(strings.Join(s, "\n"), "gputrain: 6 nodes") })
			if !tt.live && strings.Contains(y.all(), "\x1b") {
				t.Errorf("%q", y.all())
			}
		})
	}
	y := newTTY(t, 80, 24)
	v := show(newFake(usual()), y.f, liveEnv("GPUTRAIN_CONSOLE", "off"))
	if err := v.Close(); err != nil || y.all() != "" {
		t.Errorf("off: %q, %v", y.all(), err)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"", "1"} {
		y := newTTY(t, 80, 24)
		src := newFake(usual())
		v := show(src, y.f, liveEnv("NO_COLOR", none))
		y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
		if got := strings.Contains(y.all(), "\x1b[33m"); got == (none != "") {
			t.Errorf("NO_COLOR=%q: coloured: %t", none, got)
		}
		v.Close()
	}
}

func TestLocale(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]bool{"C": false, "en_US.UTF-8": true, "C.utf8": true, "ja_JP.UTF-8": false} {
		y := newTTY(t, 80, 24)
		v := show(newFake(usual()), y.f, liveEnv("LANG", env))
		y.until("the block", func(s []string) bool { return strings.Contains(s[23], "12/18 done") })
		if got := strings.Contains(y.all(), "░"); got != want {
			t.Errorf("LANG=%s: bars in Unicode: %t", env, got)
		}
		v.Close()
	}
}

// While nothing changes nothing is written, and never more than five times a second.
func TestDrawsOnChangeOnly(t *testing.T) {
	y := newTTY(t, 80, 24)
	src := newFake(usual())
	v := show(src, y.f, liveEnv())
	defer v.Close()
	y.until("the block", func(s []string) bool { return ends(s, blockOf(src, 80, 24)) })
	drawings := func() int { return strings.Count(y.all(), noWrap) }
	was := drawings()
	time.Sleep(2500 * time.Millisecond)
	if n := drawings() - was; n != 0 {
		t.Errorf("%d drawings of the same", n)
	}
	began := time.Now()
	for i := range 500 {
		run := usual()
		run.Counts.Done = i
		src.set(run)
		time.Sleep(2 * time.Millisecond)
	}
	if n, most := drawings()-was, int(time.Since(began)/frameTime)+2; n > most {
		t.Errorf("%d drawings, at most %d", n, most)
	}
	y.until("a drawing", func([]string) bool { return drawings() > was })
}

// A terminal that takes nothing delays Close, and nothing else.
func TestBlockedTerminal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer r.Close()
		src := newFake(usual())
		v := begin(newPlain(src, w).run)
		src.set(usual(), poolEvents()...)
		began := time.Now()
		if err := v.Close(); err == nil {
			t.Error("the lines went nowhere, without an error")
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("Close took %v", took)
		}
	})
}

// A real pool, and a real recorder.
func TestLivePool(t *testing.T) {
	t.Parallel()
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	y := newTTY(t, 100, 24)
	v := show(rec, y.f, liveEnv())
	defer v.Close()
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2}, rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	release := filepath.Join(t.TempDir(), "go on")
	var tasks []gputrain.Task
	for i := range 3 {
		task := gputrain.Script("echo gputrain: step=7/9 loss=0.5; until [ -e '" + release + "' ]; do sleep 0.1; done")
		task.Name = fmt.Sprint("trial-", i)
		tasks = append(tasks, task)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Gather(tasks...)
		ended <- err
	}()
	y.until("two tasks", func(s []string) bool {
		all := strings.Join(s[16:], "\n")
		return strings.Count(all, " 7/9 ") == 2 && strings.Count(all, " busy ") == 2 && strings.HasPrefix(s[23], "0/3 tasks done, 2 running, 1 waiting, 0 failed")
	})
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	y.until("idle nodes", func(s []string) bool { return s[22] == "2 nodes ready" && strings.HasPrefix(s[23], "3/3 tasks done") })
	pool.Close()
	y.until("no block after the end of the pool", func(s []string) bool { return strings.Join(s, "") == "" })
	v.Close()
	y.until("the closing line", func(s []string) bool { return strings.HasPrefix(s[0], "gputrain: 2 nodes, 3/3 tasks done, ") })
	checkWhole(t, y)
}

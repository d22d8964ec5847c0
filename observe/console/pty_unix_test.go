//go:build unix

package console

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// A tty is a terminal emulator at the end of a pseudo-terminal.
type tty struct {
	t      *testing.T
	master *os.File
	f      *os.File // the program's end

	mu      sync.Mutex
	vt      vt10x.Terminal
	rows    int
	written strings.Builder
}

func newTTY(t *testing.T, columns, rows int) *tty {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	y := &tty{t: t, master: master, f: slave, vt: vt10x.New(vt10x.WithSize(columns, rows)), rows: rows}
	y.setSize(columns, rows)
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			y.mu.Lock()
			y.written.Write(buf[:n])
			y.vt.Write(buf[:n])
			y.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		slave.Close()
		master.Close()
		reading.Wait()
	})
	return y
}

func (y *tty) setSize(columns, rows int) {
	y.t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.vt.Resize(columns, rows)
	y.rows = rows
	if err := pty.Setsize(y.master, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		y.t.Fatal(err)
	}
}

// screen returns the rows as they are seen.
func (y *tty) screen() []string {
	y.mu.Lock()
	defer y.mu.Unlock()
	columns, rows := y.vt.Size()
	y.vt.Lock()
	defer y.vt.Unlock()
	all := make([]string, rows)
	for row := range all {
		var b strings.Builder
		for column := range columns {
			c := y.vt.Cell(column, row).Char
			if c == 0 {
				c = ' '
			}
			b.WriteRune(c)
		}
		all[row] = strings.TrimRight(b.String(), " ")
	}
	return all
}

// all returns everything that was written to the terminal.
func (y *tty) all() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.written.String()
}

// until waits until the screen is as is says.
func (y *tty) until(what string, is func(screen []string) bool) {
	y.t.Helper()
	for range 1000 {
		if is(y.screen()) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	y.t.Fatalf("%s: the screen is still\n%s", what, strings.Join(y.screen(), "\n"))
}

// ends reports whether the last rows are those of a block, whose numbers may differ.
func ends(screen []string, block []row) bool {
	if len(screen) < len(block) {
		return false
	}
	for i, got := range screen[len(screen)-len(block):] {
		if got != block[i].text {
			return false
		}
	}
	return true
}

// live is an environment in which a View is live.
func liveEnv(more ...string) func(string) string {
	env := map[string]string{"TERM": "xterm-256color", "LANG": "C"}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return func(name string) string { return env[name] }
}

// blockOf is what a View shows of a run that has just begun.
func blockOf(src *fake, columns, rows int) []row {
	p := &paces{}
	p.look(src.Run())
	return frame(src.Run(), p, display{columns: columns, rows: rows})
}

// holds checks that the lines "line 0" and so on, until before n, are in order above the block, and that the last is there.
func holds(t *testing.T, screen []string, n int) {
	t.Helper()
	next := -1
	for _, row := range screen {
		var i int
		if _, err := fmt.Sscanf(row, "line %d", &i); err != nil {
			continue
		}
		if next >= 0 && i != next {
			t.Errorf("line %d comes after line %d", i, next-1)
		}
		next = i + 1
	}
	if next != n {
		t.Errorf("the last line is %d, not %d", next-1, n-1)
	}
	if t.Failed() {
		t.Logf("%s", strings.Join(screen, "\n"))
	}
}

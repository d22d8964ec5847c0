package e2etest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Role is what this test program does instead of running tests when a test starts it as a child, to stop or kill it.
// In is the type of its input.
type Role[In any] string

// roles parse the JSON input of each role, by the role's name.
var roles = map[string]func(in string) (play func() error, life time.Duration, err error){}

const (
	// RoleEnv holds the name of the role of this program, and its input.
	RoleEnv = "GPUTRAIN_TEST_ROLE"
	// ChildLife limits a child that is not killed and does not notice that its test has ended.
	ChildLife = 10 * time.Minute
	// saying is the prefix of each line that a child sends to its test, amid its other output.
	saying = "child: "
)

// NewRole adds a role. play must not start a program with a role. The child ends after ChildLife, or after the result
// of In's method Life, if In has one.
func NewRole[In any](name string, play func(In) error) Role[In] {
	roles[name] = func(text string) (func() error, time.Duration, error) {
		var in In
		life := ChildLife
		err := json.Unmarshal([]byte(text), &in)
		if long, ok := any(in).(interface{ Life() time.Duration }); ok {
			life = long.Life()
		}
		return func() error { return play(in) }, life, err
	}
	return Role[In](name)
}

// PlaysRole runs this program's role, if it has one, and reports whether it had. The program ends with the test that
// started it, or after the role's life.
func PlaysRole() bool {
	name, in, has := strings.Cut(os.Getenv(RoleEnv), " ")
	if !has {
		return false
	}
	os.Unsetenv(RoleEnv)
	play, life, err := roles[name](in)
	time.AfterFunc(life, func() { os.Exit(3) })
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if err == nil {
		err = play()
	}
	if err != nil {
		Say("failed: %v", err)
		os.Exit(1)
	}
	return true
}

var sayMu sync.Mutex

// Say sends a line to the test that started this program.
func Say(format string, args ...any) {
	sayMu.Lock()
	defer sayMu.Unlock()
	fmt.Println(saying + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

// A Child is a process of this program that plays a role.
type Child struct {
	t     testing.TB
	Cmd   *exec.Cmd
	Tmp   string      // its TMPDIR, which also identifies the processes that the child started
	lines chan string // the child's output
	ended chan struct{}
	Log   strings.Builder // the lines read so far
	told  []string        // lines from Say that were read and not yet awaited
}

// Start starts a child, which is killed when the test ends.
func (r Role[In]) Start(t testing.TB, in In) *Child {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &Child{t: t, Cmd: exec.Command(self), Tmp: t.TempDir(), lines: make(chan string, 1000), ended: make(chan struct{})}
	c.Cmd.Env = append(os.Environ(), RoleEnv+"="+string(r)+" "+string(text), "TMPDIR="+c.Tmp)
	if _, err := c.Cmd.StdinPipe(); err != nil { // the pipe closes when this program ends
		t.Fatal(err)
	}
	out, err := c.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Cmd.Stderr = c.Cmd.Stdout
	if err := c.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
		io.Copy(io.Discard, out)
		c.Cmd.Wait()
	}()
	t.Cleanup(func() {
		c.Kill()
		if strings.Contains(c.Log.String(), "DATA RACE") {
			t.Errorf("the child has a race:\n%s", c.Log.String())
		}
	})
	return c
}

// Await returns the rest of the first line from Say, past or future, that begins with the prefix. Each line is returned
// once. Lines that do not match stay for another Await: a child may report concurrent work in any order.
func (c *Child) Await(prefix string) string {
	c.t.Helper()
	timeout := time.After(patience)
	for {
		for i, text := range c.told {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				c.told = slices.Delete(c.told, i, i+1)
				return strings.TrimSpace(rest)
			}
		}
		select {
		case line, open := <-c.lines:
			if !open {
				c.t.Fatalf("the child has ended without printing %q; it printed\n%s", prefix, c.Log.String())
			}
			c.read(line)
		case <-timeout:
			c.t.Fatalf("the child did not print %q; it printed\n%s", prefix, c.Log.String())
		}
	}
}

func (c *Child) read(line string) {
	c.Log.WriteString(line + "\n")
	if text, ok := strings.CutPrefix(line, saying); ok {
		c.told = append(c.told, text)
	}
}

// Kill kills the child with SIGKILL and returns when it has ended.
func (c *Child) Kill() {
	c.Cmd.Process.Kill()
	c.Wait()
}

// Wait returns when the child has ended.
func (c *Child) Wait() {
	for line := range c.lines {
		c.read(line)
	}
	<-c.ended
}

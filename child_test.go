package gputrain_test

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

// A role is what this test program does in place of tests when it is the child of a
// test that stops or kills it. In describes what it is to do.
type role[In any] string

// roles do what they were given as JSON, each by its name.
var roles = map[string]func(in string) (play func() error, life time.Duration, err error){}

const (
	// roleEnv holds the name of the role that this program plays, and what it is given.
	roleEnv = "GPUTRAIN_TEST_ROLE"
	// childLife bounds a child that nobody kills, and that does not hear of its test's end.
	childLife = 10 * time.Minute
	// saying begins what a child says, among what else is printed by it.
	saying = "child: "
)

// newRole adds a role. What plays it starts no program with a role itself. It ends
// after childLife, or after what In says by a method life.
func newRole[In any](name string, play func(In) error) role[In] {
	roles[name] = func(text string) (func() error, time.Duration, error) {
		var in In
		life := childLife
		err := json.Unmarshal([]byte(text), &in)
		if long, ok := any(in).(interface{ life() time.Duration }); ok {
			life = long.life()
		}
		return func() error { return play(in) }, life, err
	}
	return role[In](name)
}

// playsRole reports whether this program has a role, and plays it then. It ends by
// itself: when the test that has started it does, and otherwise after a while.
func playsRole() bool {
	name, in, has := strings.Cut(os.Getenv(roleEnv), " ")
	if !has {
		return false
	}
	os.Unsetenv(roleEnv)
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
		say("failed: %v", err)
		os.Exit(1)
	}
	return true
}

var sayMu sync.Mutex

// say tells the test that has started this program something, in one line.
func say(format string, args ...any) {
	sayMu.Lock()
	defer sayMu.Unlock()
	fmt.Println(saying + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

// A child is a process of this program that plays a role.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	tmp   string      // its TMPDIR, by which also what it has started is found
	lines chan string // what it prints
	ended chan struct{}
	log   strings.Builder // what was read of lines
	told  []string        // what it said of that, and nobody has awaited yet
}

// start starts a child, which is killed when the test ends.
func (r role[In]) start(t testing.TB, in In) *child {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(self), tmp: t.TempDir(), lines: make(chan string, 1000), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+string(r)+" "+string(text), "TMPDIR="+c.tmp)
	if _, err := c.cmd.StdinPipe(); err != nil { // it ends with this program
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.cmd.Stdout
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
		io.Copy(io.Discard, out)
		c.cmd.Wait()
	}()
	t.Cleanup(func() {
		c.kill()
		if strings.Contains(c.log.String(), "DATA RACE") {
			t.Errorf("the child has a race:\n%s", c.log.String())
		}
	})
	return c
}

// await returns what follows the prefix in the first line that has it, of what the
// child has said or is yet to say. Each line is awaited once, and those that are passed
// over wait for another await: what a child does at once it may tell in any order.
func (c *child) await(prefix string) string {
	c.t.Helper()
	timeout := time.After(2 * time.Minute)
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
				c.t.Fatalf("the child has ended, and never said %q; it said\n%s", prefix, c.log.String())
			}
			c.read(line)
		case <-timeout:
			c.t.Fatalf("the child never said %q; it said\n%s", prefix, c.log.String())
		}
	}
}

func (c *child) read(line string) {
	c.log.WriteString(line + "\n")
	if text, ok := strings.CutPrefix(line, saying); ok {
		c.told = append(c.told, text)
	}
}

// kill kills the child with SIGKILL, and returns when it is gone.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.wait()
}

// wait returns when the child is gone.
func (c *child) wait() {
	for line := range c.lines {
		c.read(line)
	}
	<-c.ended
}

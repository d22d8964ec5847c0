// Package ways follows a spec to a machine, a task to its node and a loss to a replacement through
// gputrain's packages, and compares these paths with CONTRIBUTING.md.
package ways

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// ancestors makes the stack of a goroutine include the stacks of the goroutines that started it.
const ancestors = "GODEBUG=tracebackancestors=100"

// waitFor is a function that runs until a file exists.
var waitFor = gputrain.Func("wait-for", func(ctx context.Context, file string) (bool, error) {
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			return true, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false, ctx.Err()
})

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// TestWays compares the paths in CONTRIBUTING.md with the stacks of a pool that opens, runs a
// command and a call, and loses its machine.
func TestWays(t *testing.T) {
	if !slices.Contains(os.Environ(), ancestors) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.CommandContext(t.Context(), self, "-test.run=^TestWays$")
		child.Env = append(os.Environ(), ancestors)
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var cloud witness
	pool, err := gputrain.Open(t.Context(), &e2etest.Wrapped{Provider: local.Config{}, OnLaunch: cloud.launch}, gputrain.Spec{Nodes: 1, Concurrency: 2}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	check(t, "spec to a machine", way(t, text, "### From a spec to a machine", 0)[:4], cloud.stack(t, 0))

	file := filepath.Join(t.TempDir(), "end")
	task := "### From a task to its result"
	command := pool.Start(gputrain.Cmd("sh", "-c", `until [ -e "$0" ]; do sleep 0.05; done`, file))
	check(t, "command to its node", way(t, text, task, 0)[:4], during(t, "internal/supervisor.", "internal/attempt."))
	call := pool.Start(waitFor.Call(file))
	check(t, "call to its node", way(t, text, task, 1)[:4], during(t, "internal/worker.(*Client).wait(", "internal/calls.(*Host).Call"))
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, job := range []*gputrain.Job{command, call} {
		if _, err := job.Wait(); err != nil {
			t.Error(err)
		}
	}

	if err := cloud.takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	loss := cloud.stack(t, 1)
	check(t, "loss to a replacement", way(t, text, "### From a loss to a replacement", 0)[:4], loss[slices.Index(loss, "internal/node"):])
}

// way returns the packages in the numbered lines below a heading: of each line the package at that
// index, or the last one if the line names fewer.
func way(t *testing.T, text []byte, heading string, index int) (packages []string) {
	t.Helper()
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("CONTRIBUTING.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n##")
	named := regexp.MustCompile("`(gputrain|(?:internal|providers)/[a-z/]+)`")
	for line := range strings.Lines(section) {
		if !regexp.MustCompile(`^\d\. `).MatchString(line) {
			continue
		}
		names := named.FindAllStringSubmatch(line, -1)
		if names == nil {
			t.Fatalf("this line below %q names no package: %s", heading, line)
		}
		packages = append(packages, names[min(index, len(names)-1)][1])
	}
	if len(packages) != 5 {
		t.Fatalf("the path below %q has %d lines instead of 5: %q", heading, len(packages), packages)
	}
	return packages
}

// check compares a way with the packages of a stack: they must come in this order. Only two
// packages may be entered twice: the root, which is between all others, and fleet, which sends a
// rank's node to all the others.
func check(t *testing.T, what string, want, stack []string) {
	t.Helper()
	var entered []string
	for _, name := range stack {
		switch known := slices.Contains(entered, name); {
		case !known:
			entered = append(entered, name)
		case name != "gputrain" && name != "internal/fleet":
			t.Errorf("from a %s: %s is entered twice: %s", what, name, strings.Join(stack, " > "))
		}
	}
	if len(entered) < len(want) || !slices.Equal(entered[:len(want)], want) {
		t.Errorf("from a %s CONTRIBUTING.md goes through %s, but the program through %s", what, strings.Join(want, ", "), strings.Join(entered, ", "))
	}
}

// during waits until a goroutine is in both functions, and returns its packages.
func during(t *testing.T, inner, outer string) []string {
	t.Helper()
	buf := make([]byte, 16<<20)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, inner) && strings.Contains(stack, outer) {
				return packages(stack)
			}
		}
	}
	t.Fatalf("no goroutine reached %s from %s", inner, outer)
	return nil
}

// helpers are packages that stacks go through but CONTRIBUTING.md does not list.
var helpers = []string{"internal/retry", "internal/stack", "internal/test/e2etest", "internal/test/ways"}

// packages returns gputrain's packages on a stack, outermost first.
func packages(stack string) (names []string) {
	for line := range strings.Lines(stack) {
		name, ours := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "created by "), "github.com/gputrain/gputrain")
		if !ours {
			continue
		}
		name = strings.TrimPrefix(name, "/")
		slash := strings.LastIndex(name[:strings.IndexByte(name+"(", '(')], "/") + 1
		name = name[:slash+strings.IndexByte(name[slash:], '.')]
		if name == "" {
			name = "gputrain"
		}
		if !slices.Contains(helpers, name) {
			names = append(names, name)
		}
	}
	slices.Reverse(names)
	return slices.Compact(names)
}

// A witness records the stacks of a driver's launches.
type witness struct {
	mu      sync.Mutex
	stacks  [][]string
	machine string
	driver  driver.Driver
}

func (w *witness) launch(ctx context.Context, l driver.Launch, d driver.Driver) ([]driver.Instance, error) {
	made, err := d.Launch(ctx, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stacks = append(w.stacks, packages(string(debug.Stack())))
	w.driver = d
	for _, in := range made {
		w.machine = in.ID
	}
	return made, err
}

// stack waits for the launch of that index, and returns the packages on its stack.
func (w *witness) stack(t *testing.T, index int) []string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		stacks := w.stacks
		w.mu.Unlock()
		if len(stacks) > index {
			return stacks[index]
		}
	}
	t.Fatalf("no launch of index %d", index)
	return nil
}

// takeBack terminates the machine, as its provider may.
func (w *witness) takeBack(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.driver.Terminate(ctx, w.machine)
}

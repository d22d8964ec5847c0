//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An hourglass is the clock of a node's watcher, which counts its own sleeps of a second: each takes as long as the test wants.
type hourglass struct{ dir string }

// newHourglass changes a configuration, with which the watcher's interval must be a second, to one of a node with an hourglass.
func newHourglass(t *testing.T, cfg *Config) hourglass {
	t.Helper()
	h := hourglass{t.TempDir()}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text := `#!/bin/sh
[ "$1" = 1 ] || exec ` + sleep + ` "$@"
echo >>'` + h.file("begun") + `'
until rm '` + h.file("passes") + `'; do
	kill -0 "$PPID" && [ -d '` + h.dir + `' ] || exit
	` + sleep + ` 0.02
done 2>/dev/null
`
	if err := os.WriteFile(h.file("sleep"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg.Shell = "env PATH='" + h.dir + "':\"$PATH\" " + cfg.Shell
	return h
}

func (h hourglass) file(name string) string { return filepath.Join(h.dir, name) }

// begun returns how many seconds the watcher has begun to wait for.
func (h hourglass) begun() int {
	b, _ := os.ReadFile(h.file("begun"))
	return len(b)
}

// turn lets the second pass that the watcher waits for now, or will.
func (h hourglass) turn(t *testing.T) {
	t.Helper()
	touch(t, h.file("passes"))
}

// pass lets seconds pass. The watcher has looked after each of them, and has not ended the node.
func (h hourglass) pass(t *testing.T, n *Node, seconds int) {
	t.Helper()
	await(t, h.file("begun"))
	for range seconds {
		begun := h.begun()
		h.turn(t)
		until(t, "the watcher's next second", func() bool { return h.begun() > begun || isGone(n) })
		if isGone(n) {
			t.Fatal("the node has ended itself")
		}
	}
}

// lapses lets time pass until a node has ended itself, and returns for how many seconds the watcher has waited.
func (h hourglass) lapses(t *testing.T, n *Node) (seconds int) {
	t.Helper()
	await(t, h.file("begun"))
	begun := h.begun()
	until(t, "the node's own end", func() bool {
		h.turn(t)
		return isGone(n)
	})
	return h.begun() - begun + 1
}

func isGone(n *Node) bool {
	_, err := os.Stat(n.facts.Root)
	return os.IsNotExist(err)
}

// longTask starts a task that only the node's own end can end, and returns the result.
func longTask(t *testing.T, n *Node) <-chan error {
	t.Helper()
	started, result := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := n.Run(t.Context(), Spec{ID: "long", Script: "sleep 600"}, Sinks{Started: func() { close(started) }})
		result <- err
	}()
	select {
	case <-started:
	case err := <-result:
		t.Fatalf("it has ended before it was seen to start: %v", err)
	}
	return result
}

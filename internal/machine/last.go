package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/private"
)

// lastTimeout bounds what a pool has left for the end of a machine.
const lastTimeout = time.Minute

// runLast runs what pools have left for the end of the machine, as supervisor.AtEnd describes it: what is to be removed
// outside of the home, such as a container. The home itself is removed after it. It runs in the environment of the
// machine's commands, and is killed like them: another one may name another daemon of Docker's, or have credentials.
func (m *Machine) runLast(ctx context.Context) error {
	texts, err := filepath.Glob(filepath.Join(globbed(string(m.home)), ".gputrain", "pools", "*", "t", "end.sh"))
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := private.ReadFile(text, MaxFile); err != nil {
			continue // tasks can put anything there
		}
		limited, cancel := context.WithTimeout(ctx, lastTimeout)
		cmd := exec.CommandContext(limited, "sh", text)
		cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Dir(text), append(slices.Clone(m.env), "HOME="+string(m.home)), time.Second
		said := bounded.Buffer{Most: 4 << 10, First: true}
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		err = errors.Join(err, endProcesses(ctx, []*Machine{m}))
		cancel()
		if err != nil {
			return fmt.Errorf("what a pool has left for the machine's end, %s: %w: %.200s", text, err, said.String())
		}
	}
	return nil
}

// globbed returns a path as a pattern that matches only it.
func globbed(path string) string {
	var pattern []byte
	for _, c := range []byte(path) {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			pattern = append(pattern, '\\')
		}
		pattern = append(pattern, c)
	}
	return string(pattern)
}

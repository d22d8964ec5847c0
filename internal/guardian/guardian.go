// Package guardian runs a second process of this program that ends a pool in the program's place: for clouds whose
// machines cannot end themselves.
//
// The program holds the only writing end of a pipe, which is the guardian's stdin. The pipe's end is the program's,
// however it comes: by a signal, a panic, or os.Exit. Then the guardian waits until the pool has lapsed by its ledger,
// and ends it, unless it is gone by then or another program has taken it up. The guardian has a session of its own, so
// that a terminal's signals do not reach it, and nothing of the program's stdin, stdout and stderr. What it needs to
// know comes through the pipe, credentials included; it has no arguments.
package guardian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Env is the environment variable that makes a program a guardian: see [Main].
const Env = "GPUTRAIN_GUARDIAN"

// A guardian says this on its stdout, on a line of its own, and then either ready or what is wrong.
const saying, ready = "gputrain guardian: ", "ready"

// readyTimeout bounds the time until a guardian is ready. It has nothing to do but to start.
const readyTimeout = 20 * time.Second

// A Job names the pool that a guardian ends, and the providers that have its machines.
type Job struct {
	StateDir   string // absolute
	Pool       string // its ID
	Generation int    // of the program that has the pool
	Providers  []Config
}

// A farewell is what a program tells its guardian before it ends the pipe, unless it dies.
type farewell struct{ Closed bool }

// A Guardian is the other process. The nil Guardian stands for none.
type Guardian struct {
	process *exec.Cmd
	pipe    io.WriteCloser
}

// Start starts a guardian, and returns when it is ready.
func Start(job Job) (*Guardian, error) {
	encoded, err := cbor.Marshal(job)
	if err != nil {
		return nil, err
	}
	self, err := executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = os.Args[:min(1, len(os.Args))]
	cmd.Env = append(os.Environ(), Env+"=1") // with the credentials that the provider is to find there
	cmd.SysProcAttr = detached()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &Guardian{cmd, pipe}
	timer := time.AfterFunc(readyTimeout, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if _, err = pipe.Write(encoded); err == nil {
		err = awaitReady(out)
	}
	if err != nil {
		pipe.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	out.Close()
	return g, nil
}

// awaitReady reads a guardian's stdout until it is ready. Other lines are the program's own.
func awaitReady(out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), saying); ok {
			if text == ready {
				return nil
			}
			return errors.New(text)
		}
	}
	return fmt.Errorf("its process has ended, or was not ready within %v", readyTimeout)
}

// Closed ends the guardian: nothing of the pool is left, or another program has it.
func (g *Guardian) Closed() {
	if g == nil {
		return
	}
	if encoded, err := cbor.Marshal(farewell{Closed: true}); err == nil {
		_, _ = g.pipe.Write(encoded) // it fails if the guardian was killed
	}
	g.pipe.Close()
	timer := time.AfterFunc(readyTimeout, func() { _ = g.process.Process.Kill() })
	defer timer.Stop()
	_ = g.process.Wait()
}

// Released lets the guardian act as if this program were dead, which has given the pool up as it is.
func (g *Guardian) Released() {
	if g == nil {
		return
	}
	g.pipe.Close()
	_ = g.process.Process.Release()
}

// kept are the guardians of pools that were not ended whole. Their pipes are open until the program ends.
var kept struct {
	sync.Mutex
	all []*Guardian
}

// Kept lets the guardian act when this program has ended, though the pool is closed: something may be left of it.
func (g *Guardian) Kept() {
	if g == nil {
		return
	}
	kept.Lock()
	defer kept.Unlock()
	kept.all = append(kept.all, g)
}

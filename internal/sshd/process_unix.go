//go:build unix

package sshd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linger is how long output is still waited for when a program has ended but
// another holds its stdout or stderr open: `cmd > >(tee log)` has lines to
// come, a server left in the background has not.
const linger = 200 * time.Millisecond

// Supported returns nil where a server can run: on a POSIX system.
func Supported() error { return nil }

// A process is a program in a session and process group of its own, with pipes
// to it. The pipes are real ones, given to the program: nothing has to copy
// for it to end.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File

	mu    sync.Mutex
	ended bool // its id may be another's by now
}

// startProcess starts /bin/sh with args.
func startProcess(args []string, dir string, env []string) (*process, error) {
	p := &process{cmd: exec.Command("/bin/sh", args...)}
	p.cmd.Dir = dir
	p.cmd.Env = env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	var files [3][2]*os.File // read and write end of each stream
	defer func() {
		files[0][0].Close()
		files[1][1].Close()
		files[2][1].Close()
	}()
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			p.closePipes()
			return nil, err
		}
		files[i] = [2]*os.File{r, w}
		switch i {
		case 0:
			p.cmd.Stdin, p.stdin = r, w
		case 1:
			p.cmd.Stdout, p.stdout = w, r
		case 2:
			p.cmd.Stderr, p.stderr = w, r
		}
	}
	if err := p.cmd.Start(); err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// wait returns how the program ended. Its stdin is closed then, and what is
// left of its output is read without waiting for those that inherited it.
func (p *process) wait() exit {
	p.cmd.Wait() // its error is the status below
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()

	p.stdin.Close()
	until := time.Now().Add(linger)
	p.stdout.SetReadDeadline(until)
	p.stderr.SetReadDeadline(until)

	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return exit{signal: strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG"), core: status.CoreDump()}
	}
	return exit{code: p.cmd.ProcessState.ExitCode()}
}

// signal sends a signal, named without SIG, to the process group.
func (p *process) signal(name string) error {
	n := unix.SignalNum("SIG" + name)
	if n == 0 {
		return fmt.Errorf("unknown signal %q", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	return unix.Kill(-p.cmd.Process.Pid, n)
}

// kill ends the process group.
func (p *process) kill() { p.signal("KILL") }

// hangUp closes the pipes, and leaves the program running.
func (p *process) hangUp() { p.closePipes() }

func (p *process) closePipes() {
	// A nil *os.File only answers with an error.
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

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

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// When a program has ended but another process holds its stdout or stderr open, output is read for
// linger more: `cmd > >(tee log)` still has lines to come, but a background server may never end.
const linger = 200 * time.Millisecond

// Supported returns nil if a server can run here: on a POSIX system.
func Supported() error { return nil }

// A process is a program in a session and process group of its own, with real pipes, so it can end
// without a goroutine that copies its output.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File // stdin and stdout are one file, and stderr is nil, if the program has a terminal

	mu    sync.Mutex
	ended bool // another process may have its ID by now
}

// startProcess starts /bin/sh with args, on a terminal if tty is not nil.
func startProcess(args []string, dir string, env []string, tty *terminal) (*process, error) {
	p := &process{cmd: exec.Command("/bin/sh", args...)}
	p.cmd.Dir = dir
	p.cmd.Env = env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if tty != nil {
		return p, p.startOn(tty)
	}

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

// wait returns how the program ended. It closes the program's stdin, and reads the rest of its
// output without waiting for processes that inherited it.
func (p *process) wait() exit {
	p.cmd.Wait() // the status below has its error
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()

	if p.stdin != p.stdout {
		p.stdin.Close()
	}
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

// startOn starts the program with a terminal of its own, which it controls.
func (p *process) startOn(tty *terminal) error {
	master, slave, err := openTerminal()
	if err != nil {
		return fmt.Errorf("a terminal: %w", err)
	}
	defer slave.Close()
	p.stdin, p.stdout = master, master
	p.resize(tty.columns, tty.rows)
	p.cmd.Env = append(p.cmd.Env[:len(p.cmd.Env):len(p.cmd.Env)], "TERM="+tty.kind)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr.Setctty = true // of file 0
	if err := p.cmd.Start(); err != nil {
		master.Close()
		return err
	}
	return nil
}

// openTerminal returns both ends of a new terminal. Closing the master ends a read of it.
func openTerminal() (master, slave *os.File, err error) {
	blocking, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		slave.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), blocking.Name()), slave, nil
}

// resize changes the size of the terminal, if there is one.
func (p *process) resize(columns, rows uint32) {
	raw, err := p.stdin.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}) // it fails for a pipe
	})
}

// hangUp closes the pipes and leaves the program running. The end of its terminal, if it has one, is SIGHUP for the program.
func (p *process) hangUp() { p.closePipes() }

func (p *process) closePipes() {
	// Methods of a nil *os.File only return an error.
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

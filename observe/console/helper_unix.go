//go:build unix

package console

import (
	"os"
	"os/exec"
	"syscall"
)

// helperScript resets the terminal when its stdin ends, unless the last line that it has read was "off". It ignores the signals
// that end the program. A control sequence of the program that is cut off ends with CAN.
const helperScript = `trap '' INT TERM HUP QUIT TSTP TTIN TTOU PIPE
last=off
while read -r word; do last=$word; done
[ "$last" = off ] || printf '\030\0337\033[r\033[?7h\0338\0337\033[0m\033[J\0338'`

// A helper is a process that outlives the program, and gives the terminal back if the program could not.
type helper struct {
	pipe *os.File
	done chan struct{} // closed when the process has ended
}

// startHelper starts a helper for a terminal. It has a session of its own: neither the terminal nor the shell signals it.
func startHelper(terminal *os.File) (*helper, error) {
	sh := "/bin/sh"
	if _, err := os.Stat(sh); err != nil {
		found, err := exec.LookPath("sh")
		if err != nil {
			return nil, err
		}
		sh = found
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command(sh, "-c", helperScript, "gputrain-console")
	cmd.Stdin, cmd.Stdout, cmd.Dir, cmd.Env = read, terminal, "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, err
	}
	h := &helper{pipe: write, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		_ = cmd.Wait() // what became of it changes nothing
	}()
	return h, nil
}

// arm has the helper reset the terminal when the program ends. A helper that is gone is not replaced.
func (h *helper) arm() { _, _ = h.pipe.WriteString("on\n") }

// disarm has the helper leave the terminal as it is.
func (h *helper) disarm() { _, _ = h.pipe.WriteString("off\n") }

// close ends the helper, which resets the terminal if it was not disarmed.
func (h *helper) close() {
	h.pipe.Close()
	<-h.done
}

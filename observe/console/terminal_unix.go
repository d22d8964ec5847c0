//go:build unix

package console

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func openTerminal(f *os.File, _ func(string) string) terminal {
	return terminal{f: f, sequences: func() bool { return true }}
}

// isForeground reports whether the program may draw: a program in the background of its shell leaves the terminal to others. A
// terminal that does not control the program has no background.
func (t terminal) isForeground() bool {
	foreground := true
	t.control(func(fd uintptr) {
		group, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
		foreground = err != nil || group == unix.Getpgrp()
	})
	return foreground
}

// changes returns what gets a value when the terminal has another size, or the program goes on after it was stopped, and what
// ends that.
func (t terminal) changes() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH, unix.SIGCONT)
	return c, func() { signal.Stop(c) }
}

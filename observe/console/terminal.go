package console

import (
	"os"

	"golang.org/x/term"
)

// A terminal is what a file is, if it is a terminal.
type terminal struct {
	f     *os.File
	known bool // that it can do what a View needs, whatever TERM is
	utf8  bool // whatever the locale is
	// sequences switches control sequences on, and reports whether the terminal then knows them.
	sequences func() bool
}

// size returns the columns and rows, and whether the file is a terminal at all. The file stays in its mode, blocking or not.
func (t terminal) size() (columns, rows int, ok bool) {
	t.control(func(fd uintptr) {
		if !term.IsTerminal(int(fd)) {
			return
		}
		var err error
		columns, rows, err = term.GetSize(int(fd))
		ok = err == nil && columns > 0 && rows > 0
	})
	return columns, rows, ok
}

// control calls f with the file's descriptor, unless the file is closed.
func (t terminal) control(f func(fd uintptr)) {
	if c, err := t.f.SyscallConn(); err == nil {
		_ = c.Control(f)
	}
}

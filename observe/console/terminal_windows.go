package console

import (
	"os"

	"golang.org/x/sys/windows"
)

// openTerminal takes any Windows console for one that can show a View if it takes control sequences. The runtime writes UTF-16 to
// it.
func openTerminal(f *os.File, getenv func(string) string) terminal {
	t := terminal{f: f, known: getenv("TERM") == "", utf8: true}
	t.sequences = func() (on bool) {
		t.control(func(fd uintptr) {
			var mode uint32
			if windows.GetConsoleMode(windows.Handle(fd), &mode) != nil {
				return
			}
			on = mode&windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING != 0 ||
				windows.SetConsoleMode(windows.Handle(fd), mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
		})
		return on
	}
	return t
}

func (t terminal) isForeground() bool { return true }

// changes never has a value: the size is looked at before each drawing.
func (t terminal) changes() (<-chan os.Signal, func()) { return nil, func() {} }

package reach

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

const defaultTerm = "xterm-256color"

// makeRaw has a console pass on every key as it is, and show what escape sequences ask for. It returns what undoes that.
func makeRaw(in, screen *os.File) (restore func() error, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	out := windows.Handle(screen.Fd())
	var mode uint32
	known := windows.GetConsoleMode(out, &mode) == nil && screen != in
	if known {
		windows.SetConsoleMode(out, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING|windows.DISABLE_NEWLINE_AUTO_RETURN)
	}
	return func() error {
		var outErr error
		if known {
			outErr = windows.SetConsoleMode(out, mode)
		}
		return errors.Join(term.Restore(int(in.Fd()), before), outErr)
	}, nil
}

// watchSize calls changed now and then, until ctx ends: Windows has no signal for a console's size.
func watchSize(ctx context.Context, changed func()) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// A keyboard reads a console. After stop, a Read in progress takes what is typed next.
type keyboard struct{ io.Reader }

func newKeyboard(in *os.File) *keyboard { return &keyboard{in} }

func (*keyboard) stop() {}

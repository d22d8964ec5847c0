//go:build !unix && !windows

package reach

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"
)

const defaultTerm = "xterm"

func makeRaw(in, _ *os.File) (restore func() error, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(int(in.Fd()), before) }, nil
}

func watchSize(ctx context.Context, changed func()) { <-ctx.Done() }

// A keyboard reads a terminal. After stop, a Read in progress takes one more key.
type keyboard struct{ io.Reader }

func newKeyboard(in *os.File) *keyboard { return &keyboard{in} }

func (*keyboard) stop() {}

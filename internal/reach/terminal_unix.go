//go:build unix

package reach

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const defaultTerm = "xterm"

// makeRaw has a terminal pass on every key as it is, and returns what undoes that.
func makeRaw(in, _ *os.File) (restore func() error, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(int(in.Fd()), before) }, nil
}

// watchSize calls changed when the terminal may have another size, until ctx ends.
func watchSize(ctx context.Context, changed func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	defer signal.Stop(signals)
	changed() // it may have changed before
	for {
		select {
		case <-signals:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// A keyboard reads a terminal until it is stopped. What is typed after that is left for the next reader.
type keyboard struct {
	in         *os.File
	wake, stir *os.File // a pipe: the end of stir wakes Read; nil if there is none, and Read may take a key too many

	reading sync.Mutex
	stopped bool // guarded by reading
}

func newKeyboard(in *os.File) *keyboard {
	k := &keyboard{in: in}
	wake, stir, err := os.Pipe()
	if err != nil {
		return k
	}
	if max(in.Fd(), wake.Fd()) >= unix.FD_SETSIZE { // select(2) has no more
		wake.Close()
		stir.Close()
		return k
	}
	k.wake, k.stir = wake, stir
	return k
}

// Read returns io.ErrClosedPipe once the keyboard is stopped, and io.ErrUnexpectedEOF if the terminal is gone: its end is
// not the end of an input.
func (k *keyboard) Read(p []byte) (int, error) {
	if k.wake != nil {
		k.reading.Lock()
		defer k.reading.Unlock()
	}
	for {
		if k.wake != nil {
			if k.stopped {
				return 0, io.ErrClosedPipe
			}
			if stop, err := k.wait(); stop || err != nil {
				return 0, cmp.Or(err, io.ErrClosedPipe)
			}
		}
		n, err := unix.Read(int(k.in.Fd()), p)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.ErrUnexpectedEOF
		}
		return n, nil
	}
}

// wait waits for a key, or for stop. It uses select, because poll does not know terminals under macOS.
func (k *keyboard) wait() (stop bool, err error) {
	in, wake := int(k.in.Fd()), int(k.wake.Fd())
	for {
		var ready unix.FdSet
		ready.Set(in)
		ready.Set(wake)
		_, err := unix.Select(max(in, wake)+1, &ready, nil, nil, nil)
		if err == unix.EINTR {
			continue
		}
		return err == nil && ready.IsSet(wake), os.NewSyscallError("select", err)
	}
}

// stop ends a Read in progress, and returns when it has ended.
func (k *keyboard) stop() {
	if k.wake == nil {
		return
	}
	k.stir.Close()
	k.reading.Lock()
	defer k.reading.Unlock()
	k.stopped = true
	k.wake.Close()
}

//go:build unix

package sshd

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPipe is more than a pipe can hold. If more than that is read after the writer has ended, the
// rest came from another process.
const maxPipe = 1 << 20

// copyOut copies the content of a pipe until its end or, once the pipe's read deadline has passed,
// the content at that moment: a writer that never pauses is not read forever. It closes the pipe. A
// process that still writes to it gets SIGPIPE, as when OpenSSH closes a channel.
func copyOut(dst io.Writer, src *os.File) {
	defer src.Close()
	raw, err := src.SyscallConn()
	if err != nil {
		return
	}
	wait, past := true, 0
	for past < maxPipe {
		chunk, n, err := readChunk(raw, wait)
		switch {
		case wait && errors.Is(err, os.ErrDeadlineExceeded):
			wait = false
			src.SetReadDeadline(time.Time{}) // a deadline would make every read fail
			continue
		case chunk == nil:
			return // the pipe was closed here
		case err == nil && n > 0:
			_, err = dst.Write(chunk[:n])
		}
		chunks.Put(chunk)
		if err != nil || n <= 0 {
			return
		}
		if !wait {
			past += n
		}
	}
}

// readChunk reads the content of a pipe, and nothing at its end. While it waits it holds no memory.
// The caller returns the chunk to the pool, unless it is nil because waiting failed.
func readChunk(pipe syscall.RawConn, wait bool) (chunk *[chunkSize]byte, n int, err error) {
	waitErr := pipe.Read(func(fd uintptr) bool {
		chunk = chunks.Get().(*[chunkSize]byte)
		for {
			if n, err = unix.Read(int(fd), chunk[:]); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if wait && errors.Is(err, unix.EAGAIN) {
			chunks.Put(chunk)
			return false
		}
		return true
	})
	if waitErr != nil {
		return nil, 0, waitErr
	}
	return chunk, n, err
}

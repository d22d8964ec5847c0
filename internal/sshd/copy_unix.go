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

// maxPipe is more than a pipe can hold: what is read from one past its writer's
// end, and past so much, was not that writer's.
const maxPipe = 1 << 20

// copyOut copies what comes out of a pipe until its end, or, once the pipe's
// read deadline has passed, what it holds at that moment: a writer that never
// pauses does not go on for ever. It closes the pipe. Who still writes to it
// gets SIGPIPE, as when OpenSSH closes a channel.
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
			src.SetReadDeadline(time.Time{}) // it would forbid reading at all
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

// readChunk reads what a pipe holds, at its end nothing. A pipe that is waited
// for holds no memory meanwhile. The caller returns the chunk, unless it is nil:
// waiting failed.
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

//go:build unix

package worker

import (
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// An outputMeter counts what this process and its children print, by whatever means. File descriptors 1 and 2 are pipes
// to the meter, which copies everything to the stdout and stderr that the process was given.
//
// When the process dies, a keeper copies what is left in these pipes: a shell that waits for the end of the process. It
// does the same as soon as the Go runtime reports a crash, because no goroutine runs from then on.
type outputMeter struct {
	streams [2]*meteredStream
}

// A meteredStream is stdout or stderr.
type meteredStream struct {
	pipe  *os.File // the end from which the meter reads
	in    int      // its file descriptor
	given int      // the file descriptor that the process was given

	mu     sync.Mutex
	passed int64
	copies bool // bytes cannot be moved from pipe to pipe
	lost   bool // the given descriptor has no reader
}

// meterOutput begins to count. If it cannot, it returns nil and leaves the output as it was.
func meterOutput() *outputMeter {
	m := &outputMeter{}
	var printing [2]*os.File
	for i := range m.streams {
		r, w, err := os.Pipe()
		if err != nil {
			return nil
		}
		defer w.Close() // fd 1 or 2 is the same pipe by then
		given, err := unix.FcntlInt(uintptr(i+1), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil
		}
		m.streams[i], printing[i] = newMeteredStream(r, given), w
	}
	life, err := m.startKeeper()
	if err != nil {
		return nil
	}
	for i := range m.streams {
		w := int(printing[i].Fd())
		err := unix.SetNonblock(w, false) // as programs expect
		if err == nil {
			err = unix.Dup2(w, i+1)
		}
		if err != nil {
			m.restore(i)
			return nil
		}
	}
	// A copy of the crash report is the keeper's sign.
	_ = debug.SetCrashOutput(life, debug.CrashOptions{})
	for _, s := range m.streams {
		s.mark()
		go s.run() // until the pipe is closed; mostly the process ends first
	}
	return m
}

// restore gives the first streams their original descriptors back.
func (m *outputMeter) restore(streams int) {
	for i := range streams {
		_ = unix.Dup2(m.streams[i].given, i+1)
	}
}

// keeperScript waits until it can read from 3, which is the report of a crash, or for the end of 3, which is that of
// the process. It then copies what is left in 4 to 5, and in 6 to 7.
const keeperScript = `dd bs=1 count=1 <&3 >/dev/null 2>&1
(exec <&3 >/dev/null 3<&- 4<&- 5>&- 6<&- 7>&-; cat) &
(exec <&4 >&5 3<&- 4<&- 5>&- 6<&- 7>&-; cat) &
(exec <&6 >&7 3<&- 4<&- 5>&- 6<&- 7>&-; cat) &
exec 3<&- 4<&- 5>&- 6<&- 7>&-
wait`

// startKeeper starts the keeper, and returns the pipe that it reads. The keeper has a session of its own, so that
// signals that end this process do not end the keeper too.
func (m *outputMeter) startKeeper() (life *os.File, err error) {
	ear, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ear.Close()
	out, errs := m.streams[0], m.streams[1]
	given := [2]*os.File{}
	for i, s := range m.streams {
		fd, err := unix.FcntlInt(uintptr(s.given), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, err
		}
		given[i] = os.NewFile(uintptr(fd), "output")
		defer given[i].Close()
	}
	keeper := exec.Command("sh", "-c", keeperScript)
	keeper.ExtraFiles = []*os.File{ear, out.pipe, given[0], errs.pipe, given[1]}
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		_ = life.Close()
		return nil, err
	}
	go func() { _ = keeper.Wait() }() // it outlives this process, unless it is killed
	return life, nil
}

// printed returns what was printed so far. Every call of a function asks for it: one system call finds out that both
// pipes are empty.
func (m *outputMeter) printed() (p Printed) {
	if m == nil {
		return p
	}
	var waiting [2]unix.PollFd
	for i, s := range m.streams {
		s.mu.Lock()
		defer s.mu.Unlock()
		waiting[i] = unix.PollFd{Fd: int32(s.in), Events: unix.POLLIN}
	}
	_, err := unix.Poll(waiting[:], 0)
	for i, s := range m.streams {
		p[i] = s.passed
		if err != nil || waiting[i].Revents&unix.POLLIN != 0 {
			p[i] += s.waiting()
		}
	}
	return p
}

func newMeteredStream(pipe *os.File, given int) *meteredStream {
	return &meteredStream{pipe: pipe, in: int(pipe.Fd()), given: given}
}

// mark writes the mark before the process serves, so that a process that dies as it first prints has written the mark
// exactly once.
func (s *meteredStream) mark() {
	ready(s.given, unix.POLLOUT)
	_, err := io.WriteString(fdWriter(s.given), OutputMark)
	s.lost = err != nil
}

// waiting returns how many bytes are in the pipe.
func (s *meteredStream) waiting() int64 {
	n, err := unix.IoctlGetInt(s.in, fionread)
	if err != nil {
		return 0
	}
	return int64(n)
}

// run copies what is printed until the pipe is closed.
func (s *meteredStream) run() {
	for {
		if !ready(s.in, unix.POLLIN) {
			return
		}
		if !s.lost {
			ready(s.given, unix.POLLOUT) // waits only for a full pipe, with no lock held
		}
		if over := s.pass(s.in); over {
			return
		}
	}
}

// ready waits until a descriptor can be read, or written. It reports false at the end.
func ready(fd int, events int16) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false
		default:
			return fds[0].Revents&events != 0
		}
	}
}

// pass copies what waits, as far as it can without blocking.
func (s *meteredStream) pass(in int) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.copies && !s.lost {
		n, err := moveAtOnce(in, s.given)
		s.passed += int64(max(n, 0))
		switch err {
		case nil:
			return n == 0
		case unix.EAGAIN, unix.EINTR:
			return false
		}
		s.copies = true
	}
	// A pipe that is ready takes a piece without blocking on every system.
	const piece = 512
	var buf [piece]byte
	n, err := unix.Read(in, buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return false
	case err != nil || n == 0:
		return true
	}
	s.passed += int64(n)
	if !s.lost {
		_, err = fdWriter(s.given).Write(buf[:n])
		s.lost = err == unix.EPIPE || err == unix.EBADF
	}
	return false
}

// A fdWriter writes to a file descriptor.
type fdWriter int

func (fd fdWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(int(fd), b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

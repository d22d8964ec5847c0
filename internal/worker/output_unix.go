//go:build unix

package worker

import (
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// An outputMeter counts what this process prints, by whatever means, and what the
// processes print that it starts. File descriptors 1 and 2 are pipes to the meter,
// which passes everything on to the stdout and stderr that the process was given.
//
// What a dying process has in these pipes is passed on by a keeper: a shell that waits
// for the end of this process. It does the same as soon as the Go runtime reports a
// crash, because no goroutine runs from then on.
type outputMeter struct {
	streams [2]*meteredStream
}

// A meteredStream is stdout or stderr.
type meteredStream struct {
	pipe  *os.File // what is printed comes out here
	given int      // the file descriptor that the process was given
	begin func()   // called before the first byte is passed on

	mu     sync.Mutex
	begun  bool
	passed int64
	copies bool // what is passed on cannot be moved
	lost   bool // what is passed on is not read
}

// meterOutput begins to count. It returns nil where that is not possible, and then
// everything is printed as it was.
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
	for i, s := range m.streams {
		s.begin = func() { _, _ = life.WriteString(strconv.Itoa(i + 1)) } // a keeper that is gone needs nothing
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
	// The keeper takes a copy of the crash for the sign that it is.
	_ = debug.SetCrashOutput(life, debug.CrashOptions{})
	for _, s := range m.streams {
		go s.run() // until the pipe is closed; mostly the process ends first
	}
	return m
}

// restore gives the first streams back what the process was given.
func (m *outputMeter) restore(streams int) {
	for i := range streams {
		_ = unix.Dup2(m.streams[i].given, i+1)
	}
}

// keeperScript reads single bytes from 3: 1 and 2 say that stdout and stderr have their
// mark. Anything else is a crash, and the end is the end of the process. It passes on
// what waits in 4 to 5, and in 6 to 7, with the mark if there is anything.
const keeperScript = `out= err=
while :; do
	case $(dd bs=1 count=1 <&3 2>/dev/null) in
	1) out=1 ;;
	2) err=1 ;;
	*) break ;;
	esac
done
pass() {
	if [ ! "$1" ]; then
		set -- $(dd bs=1 count=1 2>/dev/null | od -b)
		[ "$2" ] || return
		printf '\000\001gputrain-output\001\000'"\\$2"
	fi
	cat
}
(exec <&3 >/dev/null 3<&- 4<&- 5>&- 6<&- 7>&-; cat) &
(exec <&4 >&5 3<&- 4<&- 5>&- 6<&- 7>&-; pass "$out") &
(exec <&6 >&7 3<&- 4<&- 5>&- 6<&- 7>&-; pass "$err") &
exec 3<&- 4<&- 5>&- 6<&- 7>&-
wait`

// startKeeper starts the keeper, and returns the pipe that it listens to. It is in a
// session of its own: what ends this process does not end the keeper too early.
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

// printed returns what was printed so far.
func (m *outputMeter) printed() (p Printed) {
	if m == nil {
		return p
	}
	for i, s := range m.streams {
		p[i] = s.printed()
	}
	return p
}

func newMeteredStream(pipe *os.File, given int) *meteredStream {
	return &meteredStream{pipe: pipe, given: given, begin: func() {}}
}

func (s *meteredStream) printed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, err := unix.IoctlGetInt(int(s.pipe.Fd()), fionread)
	if err != nil {
		return s.passed
	}
	return s.passed + int64(waiting)
}

// run passes on what is printed until the pipe is closed.
func (s *meteredStream) run() {
	in := int(s.pipe.Fd())
	for {
		if !ready(in, unix.POLLIN) {
			return
		}
		if !s.lost {
			ready(s.given, unix.POLLOUT) // only a full pipe is waited for, with no lock held
		}
		if over := s.pass(in); over {
			return
		}
	}
}

// ready waits until something can be read, or written. It is false at the end.
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

// pass passes on what waits, as far as that can be done at once.
func (s *meteredStream) pass(in int) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		s.begin()
		_, err := io.WriteString(fdWriter(s.given), OutputMark)
		s.lost = err != nil
	}
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
	// So much can be written to a pipe that is ready, everywhere.
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

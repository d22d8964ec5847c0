//go:build unix

package worker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The first byte on the socket is the way in which an attach process connects its files to the daemon.
const (
	streamHanded = 'f' // the files come with this byte
	streamCopied = 'c' // the files' content follows on the socket
)

// outliveTerminal keeps the process alive when its starter ends. The signals are caught, not ignored, so that processes
// that functions start get them as usual.
func outliveTerminal() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
}

// listenPrivate makes a socket that only this user can connect to.
func listenPrivate(path string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// hangsUp waits, and reports whether the writer of a pipe or socket has closed it meanwhile. Unread data remain.
func hangsUp(f *os.File, wait time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}} // a hang-up is always reported
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	if err != nil || n == 0 {
		return false
	}
	if fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		return true
	}
	time.Sleep(wait) // the descriptor is not open
	return false
}

// sendStream passes stdin and stdout to the daemon if they are pipes or sockets, as sshd gives its sessions. Then
// nothing needs to be copied, which halves the time of a small call.
func sendStream(conn *net.UnixConn, stdin, stdout *os.File) (handed bool, err error) {
	if !isPipe(stdin) || !isPipe(stdout) {
		_, err := conn.Write([]byte{streamCopied})
		return false, err
	}
	rights := syscall.UnixRights(int(stdin.Fd()), int(stdout.Fd()))
	_, _, err = conn.WriteMsgUnix([]byte{streamHanded}, rights, nil)
	return true, err
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// receiveStream returns the stream that an attach process brings.
func receiveStream(conn *net.UnixConn) (io.ReadWriteCloser, error) {
	var kind [1]byte
	rights := make([]byte, syscall.CmsgSpace(2*4))
	n, rn, _, _, err := conn.ReadMsgUnix(kind[:], rights)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(rights[:rn])
	switch {
	case err != nil:
		return nil, err
	case n == 1 && kind[0] == streamCopied && len(files) == 0:
		return conn, nil
	case n == 1 && kind[0] == streamHanded && len(files) == 2:
		return newHandedStream(conn, files[0], files[1]), nil
	}
	for _, f := range files {
		_ = f.Close()
	}
	return nil, errors.New("an attach process of another version")
}

func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // not files
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd) // child processes must not hold the session open
			if err := syscall.SetNonblock(fd, true); err != nil {
				return nil, fmt.Errorf("use the session's files: %w", err)
			}
			files = append(files, os.NewFile(uintptr(fd), "session"))
		}
	}
	return files, nil
}

// A handedStream is the stdin and stdout of an attach process. It ends with the process, whose end closes the socket.
type handedStream struct {
	in, out *os.File
	conn    *net.UnixConn
	watch   sync.WaitGroup
}

func newHandedStream(conn *net.UnixConn, in, out *os.File) *handedStream {
	s := &handedStream{in: in, out: out, conn: conn}
	s.watch.Go(func() {
		_, _ = io.Copy(io.Discard, conn)
		_, _ = in.Close(), out.Close()
	})
	return s
}

func (s *handedStream) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *handedStream) Write(p []byte) (int, error) { return s.out.Write(p) }

func (s *handedStream) Close() error {
	err := s.conn.Close()
	s.watch.Wait() // it closes the files
	return err
}

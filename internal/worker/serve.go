package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/gputrain/gputrain/internal/private"
)

// serve runs the daemon. It returns only if the daemon cannot go on.
func serve(socket string) error {
	outliveTerminal()
	l, err := listen(socket)
	if err != nil {
		return err
	}
	go func() { _, _ = selfDigest() }() // have it ready for the first hello; ends by itself
	d := newDaemon(&functions, func() (string, error) {
		self, err := selfDigest()
		return self.sum, err
	})
	metered := sync.OnceValue(meterOutput)
	go metered() // have it ready for the first call
	d.printed = func() Printed { return metered().printed() }
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		go func() { // ends with its connection
			stream, err := receiveStream(conn)
			if err != nil {
				_ = conn.Close()
				return
			}
			d.serve(stream)
		}()
	}
}

// listen makes the socket, in a folder that only this user can use. It replaces the socket of a dead daemon.
func listen(socket string) (*net.UnixListener, error) {
	if err := private.Dir(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	if conn, err := dialSocket(socket); err == nil {
		_ = conn.Close()
		return nil, errors.New("another worker serves there already")
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var l *net.UnixListener
	err := withShortPath(socket, func(path string) (err error) {
		l, err = listenPrivate(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path may have been a relative one
	return l, nil
}

// dialSocket connects to a socket in a folder that only this user can use: elsewhere another user could serve it.
func dialSocket(socket string) (conn *net.UnixConn, err error) {
	if err := private.Dir(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	err = withShortPath(socket, func(path string) error {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return conn, err
}

// withShortPath calls use with a path that fits into a socket address (103 bytes on macOS, 107 on Linux): if socket is
// longer, it changes to the socket's directory during the call. It is for the start of a process, when nothing else
// depends on the working directory.
func withShortPath(socket string, use func(path string) error) error {
	const longest = 100
	if len(socket) <= longest {
		return use(socket)
	}
	dir, base := filepath.Split(socket)
	if len(base) > longest {
		return fmt.Errorf("the socket's name %q is too long", base)
	}
	home, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	return errors.Join(use(base), os.Chdir(home))
}

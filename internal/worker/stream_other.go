//go:build !unix

package worker

import (
	"io"
	"net"
	"os"
	"time"
)

// outliveTerminal does nothing: this system has no hang-up signal.
func outliveTerminal() {}

// listenPrivate relies on the directory's permissions.
func listenPrivate(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// hangsUp only waits: a pipe's end shows only by reading from it.
func hangsUp(_ *os.File, wait time.Duration) bool {
	time.Sleep(wait)
	return false
}

// outputMeter does not count on this system.
type outputMeter struct{}

func meterOutput() *outputMeter         { return nil }
func (m *outputMeter) printed() Printed { return Printed{} }

// sendStream lets the attach process copy.
func sendStream(*net.UnixConn, *os.File, *os.File) (handed bool, err error) { return false, nil }

func receiveStream(conn *net.UnixConn) (io.ReadWriteCloser, error) { return conn, nil }

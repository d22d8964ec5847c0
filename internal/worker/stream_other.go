//go:build !unix

package worker

import (
	"io"
	"net"
	"os"
	"time"
)

// outliveTerminal has nothing to do: there is no hang-up signal here.
func outliveTerminal() {}

// listenPrivate relies on the directory's rights.
func listenPrivate(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// hangsUp only waits: a pipe cannot be asked without reading from it.
func hangsUp(_ *os.File, wait time.Duration) bool {
	time.Sleep(wait)
	return false
}

// outputMeter counts nothing here: all output is the process's.
type outputMeter struct{}

func meterOutput() *outputMeter         { return nil }
func (m *outputMeter) printed() Printed { return Printed{} }

// sendStream leaves it to the attach process to copy.
func sendStream(*net.UnixConn, *os.File, *os.File) (handed bool, err error) { return false, nil }

func receiveStream(conn *net.UnixConn) (io.ReadWriteCloser, error) { return conn, nil }

package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"
)

const (
	// startTimeout is how long a daemon may take to make its socket, and
	// restartTimeout how long a socket may be there that nobody listens to.
	startTimeout   = 10 * time.Second
	restartTimeout = time.Second
)

// attach connects stdin and stdout to the daemon, until either side ends.
func attach(socket string, stdin, stdout *os.File, stderr io.Writer) int {
	conn, err := waitForDaemon(socket, stdin)
	if errors.Is(err, errHungUp) {
		return exitGone // there is nobody to tell
	}
	if err != nil {
		message := fmt.Sprintf("no worker serves on %s: %v", socket, err)
		fmt.Fprintln(stderr, "gputrain: "+message)
		tellGone(stdout, message)
		return exitGone
	}
	defer conn.Close()
	if handed, err := sendStream(conn, stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "gputrain: connect to the worker: %v\n", err)
		return exitFailed
	} else if handed {
		// The daemon has both now. Its closing of them must be seen by whoever
		// is at their other ends.
		_, _ = stdin.Close(), stdout.Close()
		_, _ = io.Copy(io.Discard, conn) // until the daemon lets go
		return 0
	}
	go func() { // ends with the process, if not before
		_, _ = io.Copy(conn, stdin)
		_ = conn.CloseWrite()
	}()
	if _, err := io.Copy(stdout, conn); err != nil {
		fmt.Fprintf(stderr, "gputrain: the connection to the worker broke: %v\n", err)
		return exitFailed
	}
	return 0
}

// errHungUp means that the client has gone before a daemon was there.
var errHungUp = errors.New("the client has hung up")

// waitForDaemon connects to the socket, which may still be on its way, for as
// long as there is a client.
func waitForDaemon(socket string, client *os.File) (*net.UnixConn, error) {
	begun := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := dialSocket(socket)
		if err == nil {
			return conn, nil
		}
		patience := restartTimeout
		if errors.Is(err, fs.ErrNotExist) {
			patience = startTimeout
		}
		if time.Since(begun) > patience {
			return nil, err
		}
		if hangsUp(client, pause) {
			return nil, errHungUp
		}
	}
}

// tellGone answers the client in the daemon's place.
func tellGone(stdout io.Writer, why string) {
	b := appendFrame([]byte(nodePreamble), frameReject, 0, raw(encodeWire(rejection{rejectGone, why})), 0)
	_, _ = stdout.Write(b) // the exit code says it too
}

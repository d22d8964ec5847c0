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
	// A daemon makes its socket within startTimeout, and a socket refuses connections for restartTimeout at most: after
	// that, no worker serves.
	startTimeout   = 10 * time.Second
	restartTimeout = time.Second
)

// attach connects stdin and stdout to the daemon, until either side ends.
func attach(socket string, stdin, stdout *os.File, stderr io.Writer) int {
	conn, err := waitForDaemon(socket, stdin)
	if errors.Is(err, errHungUp) {
		return exitGone // the client has gone
	}
	if err != nil {
		message := fmt.Sprintf("no worker serves on %s: %v", socket, err)
		fmt.Fprintln(stderr, "gputrain: "+message)
		replyGone(stdout, message)
		return exitGone
	}
	defer conn.Close()
	if handed, err := sendStream(conn, stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "gputrain: connect to the worker: %v\n", err)
		return exitFailed
	} else if handed {
		// The daemon has both files now. The other ends must notice when it closes them.
		_, _ = stdin.Close(), stdout.Close()
		_, _ = io.Copy(io.Discard, conn) // until the daemon closes
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

// errHungUp means that the client left before a daemon was there.
var errHungUp = errors.New("the client has hung up")

// waitForDaemon connects to the socket, which may not be there yet, and gives up when the client hangs up.
func waitForDaemon(socket string, client *os.File) (*net.UnixConn, error) {
	begun, refused := time.Now(), time.Time{}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := dialSocket(socket)
		if err == nil {
			return conn, nil
		}
		switch now := time.Now(); {
		case errors.Is(err, fs.ErrNotExist):
			refused = time.Time{}
		case refused.IsZero():
			refused = now
		case now.Sub(refused) > restartTimeout:
			return nil, err
		}
		if time.Since(begun) > startTimeout {
			return nil, err
		}
		if hangsUp(client, pause) {
			return nil, errHungUp
		}
	}
}

// replyGone answers the client in place of the daemon.
func replyGone(stdout io.Writer, why string) {
	b := appendFrame([]byte(nodePreamble), frameReject, 0, raw(encodeWire(rejection{rejectGone, why})), 0)
	_, _ = stdout.Write(b) // the exit code reports it too
}

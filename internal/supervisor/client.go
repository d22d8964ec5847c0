package supervisor

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
)

// A Client runs commands where the node's tasks are to run: on its machine, as an [*ssh.Client] does, or in a container
// there. Its errors are those of an ssh.Client.
type Client interface {
	// Open starts a command for a long conversation.
	Open(ctx context.Context, command string) (*ssh.Session, error)
	// Exec runs a command to its end. So does ExecMoving, for one that always reads its stdin soon, or prints.
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	// Down reports whether the machine cannot be reached now, and since when. Err is nil until it never can be again.
	Down() (since time.Time, down bool)
	Err() error
}

// mostInterruptions is how often a command is repeated that a signal on the node has ended.
const mostInterruptions = 3

// isWorthRepeating reports whether a command, which was repeated so many times, may succeed if it is repeated after err. One that
// a lost connection ended may, as long as the connection can come back.
func isWorthRepeating(c Client, err error, repeated int) bool {
	return c.Err() == nil && (errors.Is(err, ssh.ErrDisconnected) || repeated < mostInterruptions && ssh.IsInterrupted(err))
}

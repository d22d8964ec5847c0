package supervisor

import (
	"context"
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

package transfer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// A cancelled call does not wait for a command that outlives its closed session. A server reports nothing about
// such a command until it ends.
func TestCancelledWhileTheCommandRunsOn(t *testing.T) {
	defer func(was time.Duration) { closePatience = was }(closePatience)
	closePatience = 10 * time.Millisecond
	r := node(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller has enough")
	returned := make(chan error, 1)
	go func() {
		returned <- r.stream(ctx, "echo runs; exec sleep 300 >/dev/null 2>&1 </dev/null", "it", nil, func(out io.Reader) error {
			line, err := bufio.NewReader(out).ReadString('\n')
			if line == "runs\n" {
				cancel(why)
			}
			return err
		})
	}()
	select {
	case err := <-returned:
		if !errors.Is(err, why) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a cancelled command is waited for")
	}
	// That ended the connection, and the client reconnects.
	if err := r.stream(t.Context(), "exit 0", "it", nil, nil); err != nil {
		t.Error(err)
	}
}

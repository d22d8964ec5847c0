package worker

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestDialOutlastsCutConnections fails the first stream, and closes the second one at once.
func TestDialOutlastsCutConnections(t *testing.T) {
	n := startNode(t)
	opened := 0
	c, err := Dial(t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
		switch opened++; opened {
		case 1:
			return nil, errors.New("the connection is gone")
		case 2:
			a, err := n.open(ctx)
			if err == nil {
				a.Close()
			}
			return a, err
		}
		return n.open(ctx)
	}, Hello{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte("it"))}); err != nil || string(got.Head) != "it" || opened != 3 {
		t.Errorf("got %q in stream %d, %v", got, opened, err)
	}
}

func TestDialGivesUp(t *testing.T) {
	broken := errors.New("broken")
	opened := 0
	_, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) { opened++; return nil, broken }, Hello{})
	if !errors.Is(err, broken) || opened != dialAttempts {
		t.Errorf("after %d streams: %v", opened, err)
	}
}

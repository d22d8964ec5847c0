package colab_test

import (
	"context"
	"log"
	"os"
	"testing"

	"github.com/gputrain/gputrain"
	"go.uber.org/goleak"
)

// TestMain serves functions if this program runs on a node, as a user's program does.
func TestMain(m *testing.M) {
	gputrain.Init()
	state, err := os.MkdirTemp("", "gputrain-state-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(state)
		os.Exit(code)
	}))
}

var double = gputrain.Func("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })

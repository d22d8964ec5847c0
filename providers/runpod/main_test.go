package runpod

import (
	"testing"

	"github.com/gputrain/gputrain"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	goleak.VerifyTestMain(m)
}

package runpod

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	cloud.Second = 5 * time.Millisecond
	goleak.VerifyTestMain(m)
}

package runpod

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	firstWait, listLag = 5*time.Millisecond, 500*time.Millisecond
	goleak.VerifyTestMain(m)
}

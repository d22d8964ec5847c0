package otelgputrain

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	envPatience = time.Minute // a task's event is late on a slow computer
	e2etest.Main(m)
}

// Package tasks runs tasks and jobs on local nodes, and transfers files in both directions.
package tasks

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

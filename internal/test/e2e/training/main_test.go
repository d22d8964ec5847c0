// Package training tests trainings on containers with PyTorch and Open MPI, whose processes and nodes end in every way.
package training

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

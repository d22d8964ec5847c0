// Package containers tests all features with pools of containers, and checks that the pools leave nothing behind.
package containers

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

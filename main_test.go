package gputrain_test

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestMain begins as a user's own TestMain does: on a node, Init serves the functions of
// this package's tests.
func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

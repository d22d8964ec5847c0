// Package faults cuts links, stops hosts and programs, and lies to pools. The pools recover or give
// up.
package faults

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

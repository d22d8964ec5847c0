// Package crash kills, stops and starves programs with pools, and the containers of those pools.
package crash

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// Package scheduling tests how tasks take turns on the nodes of a simulated cloud, in virtual time.
package scheduling

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// Package reach tests the ways into nodes beside tasks: connections, forwarded ports, shells, and other SSH clients.
package reach

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

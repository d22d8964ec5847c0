package providertest

import (
	"os"
	"testing"

	"github.com/gputrain/gputrain"
)

func TestMain(m *testing.M) {
	gputrain.Init() // the suite runs a function on the nodes
	os.Exit(m.Run())
}

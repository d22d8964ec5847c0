// Package docker tests pools whose tasks run in a container on the machine: Image.Docker on the user's own hosts, over
// real OpenSSH servers, and on local nodes.
package docker

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

package sim_test

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
	"github.com/gputrain/gputrain/providers/sim"
)

func TestReadme(t *testing.T) {
	c := sim.New(sim.Options{})
	defer c.Close()
	readme.Check(t, sim.Config{Cloud: c})
}

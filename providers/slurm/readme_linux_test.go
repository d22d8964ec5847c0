package slurm

import (
	"testing"

	"github.com/gputrain/gputrain/providers/internal/readme"
)

func TestReadme(t *testing.T) {
	c := newCluster(t)
	cfg := startLogin(t, c).config()
	cfg.Partitions = []string{"gpu", "scavenge"}
	readme.Check(t, cfg)
}

package e2etest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// RealCloud returns a cloud whose nodes run real processes with real files.
func RealCloud(t *testing.T) *sim.Cloud {
	t.Helper()
	c := sim.New(sim.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func OpenReal(t *testing.T, c *sim.Cloud, spec gputrain.Spec) *gputrain.Compute {
	t.Helper()
	p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c}, spec, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func SomeFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rates")
	if err := os.WriteFile(name, []byte("0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

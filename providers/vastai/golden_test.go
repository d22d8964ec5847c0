package vastai

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// TestGolden compares what the driver writes into the cloud with the bytes of other versions.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		name   string
		query  driver.Query
		change func(*Config)
	}{
		{"vastai", driver.Query{}, func(*Config) {}},
		{"vastai-bid-overlay", driver.Query{Allocation: driver.Spot, Nodes: 2}, func(c *Config) { c.UseOverlay = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t, slices.Repeat([]row{{"cluster_id": 42}}, 8)...)
			cloudtest.Golden(t, tt.name, tt.query, func(transport http.RoundTripper) driver.Provider {
				cfg := f.config()
				cfg.HTTPClient = &http.Client{Transport: transport}
				tt.change(&cfg)
				return cfg
			})
		})
	}
}

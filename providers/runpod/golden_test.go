//go:build unix

package runpod

import (
	"net/http"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// TestGolden compares what the driver writes into the cloud with the bytes of other versions.
func TestGolden(t *testing.T) {
	query := driver.Query{Accelerator: accelerators.H100()}
	both := driver.Query{Accelerator: accelerators.H100(), Nodes: 2}
	for _, tt := range []struct {
		name  string
		query driver.Query
		cfg   Config
		run   func(*testing.T, string, driver.Query, func(http.RoundTripper) driver.Provider)
	}{
		{"runpod", query, Config{}, cloudtest.Golden},
		{"runpod-graphql", query, Config{Cloud: Community, CountryCodes: []string{"US", "FR"}}, cloudtest.Golden},
		{"runpod-cluster", both, Config{ClusterMode: Instant}, cloudtest.GoldenTogether},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			t.Setenv("HOME", t.TempDir()) // where runpodctl would have left a key
			tt.run(t, tt.name, tt.query, func(transport http.RoundTripper) driver.Provider {
				cfg := tt.cfg
				cfg.APIKey, cfg.Endpoint, cfg.PodEndpoint = testKey, f.URL, f.URL
				cfg.HTTPClient = &http.Client{Transport: transport}
				return cfg
			})
		})
	}
}

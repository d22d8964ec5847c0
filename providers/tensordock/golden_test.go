package tensordock

import (
	"net/http"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// TestGolden compares what the driver writes into the cloud with the bytes of other versions.
func TestGolden(t *testing.T) {
	f := startFake(t)
	cloudtest.Golden(t, "tensordock", driver.Query{Accelerator: accelerators.RTX4090()}, func(transport http.RoundTripper) driver.Provider {
		cfg := f.config()
		cfg.HTTPClient = &http.Client{Transport: transport}
		return cfg
	})
}

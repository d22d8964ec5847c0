package jarvislabs

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
	cloudtest.Golden(t, "jarvislabs", driver.Query{Accelerator: accelerators.L4()}, func(transport http.RoundTripper) driver.Provider {
		return Config{APIKey: testKey, Endpoint: f.URL, HTTPClient: &http.Client{Transport: transport}}
	})
}

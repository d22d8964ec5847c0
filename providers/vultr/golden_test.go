package vultr

import (
	"net/http"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// TestGolden compares what the driver writes into the cloud with the bytes of other versions.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode Mode
		want accelerators.Accelerator
	}{
		{"vultr", Cloud, accelerators.L40S()},
		{"vultr-metal", BareMetal, accelerators.H100(accelerators.Count(8))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			cloudtest.Golden(t, tt.name, driver.Query{Accelerator: tt.want}, func(transport http.RoundTripper) driver.Provider {
				cfg := f.config()
				cfg.Mode, cfg.Region = tt.mode, Anywhere
				cfg.HTTPClient = &http.Client{Transport: transport}
				return cfg
			})
		})
	}
}

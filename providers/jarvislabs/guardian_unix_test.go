//go:build unix

package jarvislabs

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The machines of a killed program are ended by its guardian: nothing else would end their billing.
func TestGuardian(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.HTTPClient, cfg.Endpoint = nil, f.URL // no other process has the client
	cloudtest.Guardian(t, cfg, gputrain.Spec{Accelerator: accelerators.L4()}, f.everything)
}

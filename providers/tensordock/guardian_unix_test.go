//go:build unix

package tensordock

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
	cloudtest.Guardian(t, f.config(), gputrain.Spec{Accelerator: accelerators.RTX4090()}, f.everything)
}

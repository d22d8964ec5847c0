//go:build unix

package vultr

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The machines of a killed program are ended by its guardian: nothing else would end their billing.
func TestGuardian(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Guardian(t, f.config(), gputrain.Spec{}, f.account)
}

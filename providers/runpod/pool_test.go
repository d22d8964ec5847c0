//go:build unix

package runpod

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// A pool that finds no capacity leaves nothing.
func TestPoolWithoutRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.room = 1 })
	dir := t.TempDir()
	_, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{Nodes: 2, MaxReplacements: -1}, gputrain.WithStateDir(dir))
	if !errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

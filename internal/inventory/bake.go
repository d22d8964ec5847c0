package inventory

import (
	"context"

	"github.com/gputrain/gputrain/providers/driver"
)

// Bake has a driver make an image of a machine. If that succeeds, the image belongs to the pool no more, and outlives it.
// Otherwise the end of the pool deletes what there is of it.
func Bake(ctx context.Context, inv *Inventory, b driver.Baker, machineID, key, name string) (driver.BakedImage, error) {
	before := inv.shared.names()
	got, err := b.Bake(ctx, driver.Bake{Pool: inv.Info(), Instance: inv.machines.instance(machineID), Key: key, Name: name})
	inv.called(err)
	if err == nil {
		inv.shared.keep(before)
	}
	return got, err
}

// names returns the rows of what is recorded now.
func (s *shared) names() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	for name := range s.byRow {
		names[name] = true
	}
	return names
}

// keep records that what was recorded after a moment does not belong to the pool any more, although it exists.
func (s *shared) keep(before map[string]bool) {
	s.mu.Lock()
	var kept []string
	for name := range s.byRow {
		if !before[name] {
			kept = append(kept, name)
			delete(s.byRow, name)
			delete(s.since, name)
		}
	}
	s.mu.Unlock()
	s.book.note(s.book.ledger.Gone("it is a baked image now, which outlives the pool", kept...))
}

package inventory

import (
	"context"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// A provider that has accepted a machine's end is first asked about it after firstLook.
const firstLook = time.Second

// Discard ends one machine now. It passes a failure to failed, at once or, if the provider accepts the end and then is
// slower than usual, later.
func (inv *Inventory) Discard(ctx context.Context, id string, failed func(error)) {
	left := map[string]driver.Resource{}
	if !inv.machines.update(id, func(m *machine) {
		m.unwanted = true
		left[id] = m.resource()
	}) {
		return
	}
	left, err := inv.endings.end(ctx, left)
	switch {
	case ctx.Err() != nil: // the end of the pool sees to what is left
	case err != nil:
		failed(err)
	case len(left) > 0:
		inv.discards.Go(func() { inv.awaitEnd(ctx, id, left, failed) })
	}
}

// awaitEnd waits until a machine is confirmed gone whose end the provider has accepted. It asks for the end again
// meanwhile, since an accepted call may still fail. Audits leave the machine alone until then.
func (inv *Inventory) awaitEnd(ctx context.Context, id string, left map[string]driver.Resource, failed func(error)) {
	inv.machines.update(id, func(m *machine) { m.awaited = true })
	defer inv.machines.update(id, func(m *machine) { m.awaited = false })
	begun := time.Now()
	for wait := firstLook; retry.Sleep(ctx, wait); wait = min(2*wait, 15*time.Second) {
		var err error
		if left, err = inv.endings.end(ctx, left); len(left) == 0 || ctx.Err() != nil {
			return
		}
		if inv.machines.isLate(id, begun) {
			if err == nil {
				err = leak(left, nil)
			}
			failed(err)
			return
		}
	}
}

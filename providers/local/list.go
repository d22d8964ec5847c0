package local

import (
	"context"
	"maps"
	"slices"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// List finds the pool's homes on disk and its processes by their marks, from any program. It
// lists a home as a "directory", and its node as a "machine". Terminate takes the machine's ID
// and ends both. List reports only what is certainly this driver's and this user's: homes in
// its directory, and processes whose environment names that directory.
func (d *localDriver) List(_ context.Context, poolID string) ([]driver.Resource, error) {
	homes, err := d.homes.ofPool(poolID)
	if err != nil {
		return nil, fail("list", nil, err)
	}
	found := map[string]mark{}
	states := map[string]driver.InstanceState{}
	for id, h := range homes {
		found[id], states[id] = h.mark, driver.InstanceStopped
	}
	for p := range machine.Processes() {
		m := marksOf(p)
		if _, known := found[m.node]; !known && d.holds(m, poolID) && p.IsOurs() && !d.homes.hasOther(m) {
			found[m.node] = mark{Pool: m.pool}
			states[m.node] = driver.InstanceStopped
		}
	}
	d.mu.Lock()
	for id, n := range d.nodes {
		if poolID != "" && n.mark.Pool != poolID {
			continue
		}
		if _, housed := homes[id]; housed {
			states[id] = driver.InstanceRunning
		} else if _, runs := states[id]; !runs {
			states[id] = driver.InstanceTerminated // it ended itself; only its server is left
		}
		found[id] = n.mark
	}
	d.mu.Unlock()

	var list []driver.Resource
	for _, id := range slices.Sorted(maps.Keys(found)) {
		r := found[id].resource("machine", id, id)
		r.State = states[id]
		list = append(list, r)
	}
	for _, id := range slices.Sorted(maps.Keys(homes)) {
		list = append(list, homes[id].mark.resource("directory", homes[id].path, id))
	}
	return list, nil
}

// holds reports whether a process of this user with these marks is listed for a pool, or for
// all pools.
func (d *localDriver) holds(m marks, poolID string) bool {
	if !validID(m.node) || !validID(m.pool) {
		return false
	}
	if poolID != "" && m.pool != poolID {
		return false
	}
	return m.homes == d.real
}

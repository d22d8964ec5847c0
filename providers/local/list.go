package local

import (
	"context"
	"maps"
	"slices"

	"github.com/gputrain/gputrain"
)

// List finds the pool's homes on disk and its processes by their marks, whoever
// made them. A home is listed as a "directory", and its node as a "machine",
// whose ID Terminate takes and which ends both. It takes only what is certain to be
// this driver's and this user's: homes in its directory, and processes that say that
// theirs is there.
func (d *driver) List(_ context.Context, poolID string) ([]gputrain.Resource, error) {
	homes, err := d.homes.of(poolID)
	if err != nil {
		return nil, fail("list", nil, err)
	}
	found := map[string]mark{}
	states := map[string]gputrain.InstanceState{}
	for id, h := range homes {
		found[id], states[id] = h.mark, gputrain.InstanceStopped
	}
	for p := range markedProcesses() {
		if _, known := found[p.node]; !known && d.holds(p, poolID) && !d.homes.hasOther(p) {
			found[p.node] = mark{Pool: p.pool}
			states[p.node] = gputrain.InstanceStopped
		}
	}
	d.mu.Lock()
	for id, n := range d.nodes {
		if poolID != "" && n.mark.Pool != poolID {
			continue
		}
		if _, housed := homes[id]; housed {
			states[id] = gputrain.InstanceRunning
		} else if _, runs := states[id]; !runs {
			states[id] = gputrain.InstanceTerminated // it ended itself; only its server is left
		}
		found[id] = n.mark
	}
	d.mu.Unlock()

	var list []gputrain.Resource
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

// holds reports whether a process is listed for a pool, or for all of them.
func (d *driver) holds(p marked, poolID string) bool {
	if !validID(p.node) || !validID(p.pool) {
		return false
	}
	if poolID != "" && p.pool != poolID {
		return false
	}
	return p.homes == d.real && isOurProcess(p.pid)
}

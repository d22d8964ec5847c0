package container

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// reserveAttempts bounds the tries for GPUs that another program takes at the same moment.
const reserveAttempts = 10

// reserving holds one lock for each engine: the nodes of one program choose their GPUs one after
// another.
var reserving sync.Map // map[string]*sync.Mutex

// gpuCount returns how many GPUs a node needs. A share of a GPU is a whole one.
func gpuCount(a accelerators.Accelerator) int {
	if a.IsZero() {
		return 0
	}
	return int(math.Ceil(max(a.Count, 1)))
}

// freeGPUs returns those of Config.OwnGPUs that no container has, except containers that are not
// counted. The engine's labels tell, also of other programs' containers.
func (d *containerDriver) freeGPUs(ctx context.Context, except func(report) bool) ([]string, error) {
	reports, err := d.engine.labelled(ctx, "label="+labelGPUs)
	if err != nil {
		return nil, err
	}
	free := slices.Clone(d.cfg.OwnGPUs)
	for _, r := range reports {
		if state, _ := stateOf(r); state == driver.InstanceFailed || except != nil && except(r) {
			continue
		}
		free = slices.DeleteFunc(free, func(g string) bool { return slices.Contains(r.gpus(), g) })
	}
	return free, nil
}

// createWithGPUs creates a node's container with n free GPUs. A created container reserves its
// GPUs by its label. If another program has reserved one of them at the same moment, at least
// one of both programs sees that afterwards, and chooses again.
func (d *containerDriver) createWithGPUs(ctx context.Context, poolID string, node driver.NodeRequest, n int, create func([]string) (string, error)) (string, error) {
	held, _ := reserving.LoadOrStore(d.engine.key(), new(sync.Mutex))
	lock := held.(*sync.Mutex)
	lock.Lock()
	defer lock.Unlock()
	for range reserveAttempts {
		free, err := d.freeGPUs(ctx, func(r report) bool { return isNode(r, poolID, node) })
		if err != nil {
			return "", err
		}
		if len(free) < n {
			return "", fmt.Errorf("%w: %d of the %d OwnGPUs are free, and a node needs %d", driver.ErrNoCapacity, len(free), len(d.cfg.OwnGPUs), n)
		}
		id, err := create(free[:n])
		if err != nil {
			return "", err
		}
		alone, err := d.hasOwnGPUs(ctx, id)
		if alone && err == nil {
			return id, nil
		}
		if left := d.engine.discard(ctx, id); left != nil {
			return id, errors.Join(err, left)
		}
		if err != nil {
			return "", err
		}
		if !retry.Sleep(ctx, settleInterval+rand.N(10*settleInterval)) {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("%w: other programs take the same GPUs at the same time", driver.ErrNoCapacity)
}

// hasOwnGPUs reports whether no other container has a GPU of this one.
func (d *containerDriver) hasOwnGPUs(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	reports, err := d.engine.labelled(ctx, "label="+labelGPUs)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(reports, func(r report) bool { return r.id == id })
	if i < 0 {
		return false, fmt.Errorf("%w: the engine does not list the container that it has created", driver.ErrUnavailable)
	}
	own := reports[i].gpus()
	return !slices.ContainsFunc(reports, func(r report) bool {
		state, _ := stateOf(r)
		return r.id != id && state != driver.InstanceFailed && slices.ContainsFunc(r.gpus(), func(g string) bool { return slices.Contains(own, g) })
	}), nil
}

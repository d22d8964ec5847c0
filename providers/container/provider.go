package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

// A driver holds nothing but values: the engine holds the state.
type driver struct {
	cfg    Config
	engine *engine
	facts  facts
}

var (
	_ gputrain.Driver         = (*driver)(nil)
	_ gputrain.Dialer         = (*driver)(nil)
	_ gputrain.SelfDestructor = (*driver)(nil)
)

// Capabilities says what containers can do.
func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:          d.facts.account,
		Free:             true,
		EndsBilling:      "rm -f",
		PrivateNetwork:   true,
		Mounts:           true,
		DiskResizable:    d.facts.sizedDisk,
		Tags:             true,
		LocalAddresses:   true,
		HostKeys:         gputrain.HostKeyInjected,
		ProvisionTimeout: 2 * time.Minute,
		LateEffect:       5 * time.Second, // a command of the engine outlives its program
	}
}

// Offers yields the engine's machine: no node can have more than all of it.
func (d *driver) Offers(_ context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if spec.Accelerator.Name != "" && d.cfg.GPUs == "" {
			yield(gputrain.Offer{}, &gputrain.Error{Provider: providerName, Op: "offers", Kind: gputrain.ErrNoOffers,
				Err:  fmt.Errorf("%w: %s is wanted, and containers get no GPUs", gputrain.ErrNoOffers, spec.Accelerator.Name),
				Hint: `set GPUs in container.Config: "all" where the engine's machine has them`})
			return
		}
		o := d.offer()
		if d.cfg.GPUs != "" {
			// An engine does not say what its GPUs are: Config.GPUs vouches for them.
			o.Accelerator = spec.Accelerator
		}
		yield(o, nil)
	}
}

func (d *driver) offer() gputrain.Offer {
	return gputrain.Offer{
		Provider:     providerName,
		InstanceType: d.engine.dialect.String(),
		VCPUs:        d.facts.vcpus,
		MemoryGiB:    d.facts.memoryGiB,
		HourlyUSD:    gputrain.USD(0),
	}
}

// Describe reports the named containers, by one call of the engine.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	instances, err := d.describe(ctx, ids)
	return instances, fail("describe", err)
}

func (d *driver) describe(ctx context.Context, ids []string) ([]gputrain.Instance, error) {
	reports, err := d.inspect(ctx, ids)
	if err != nil {
		return nil, err
	}
	var instances []gputrain.Instance
	for _, id := range ids {
		i := slices.IndexFunc(reports, func(r report) bool { return r.id == id || r.name == id })
		if i < 0 {
			instances = append(instances, gputrain.Instance{ID: id, State: gputrain.InstanceTerminated, Offer: d.offer()})
			continue
		}
		instances = append(instances, d.instance(reports[i]))
	}
	return instances, nil
}

// inspect reports those of the named containers that exist. One that is not in
// the answer is gone only where the engine says that this is why.
func (d *driver) inspect(ctx context.Context, ids []string) ([]report, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := []string{"inspect"}
	if d.engine.dialect != apple {
		args = append(args, "--type", "container")
	}
	out, err := d.engine.run(ctx, append(args, ids...)...)
	if err != nil && !isGone(err) {
		return nil, err
	}
	if len(strings.TrimSpace(string(out))) == 0 && err != nil {
		out = []byte("[]")
	}
	reports, parseErr := d.engine.dialect.parseReports(out)
	if parseErr != nil {
		return nil, parseErr
	}
	if err == nil || len(ids) == 1 {
		return reports, nil
	}
	// Some engines stop at the first that is missing: ask for the others alone.
	for _, id := range ids {
		known := slices.ContainsFunc(reports, func(r report) bool { return r.id == id || r.name == id })
		if known || says(err, strings.ToLower(id)) {
			continue
		}
		more, err := d.inspect(ctx, []string{id})
		if err != nil {
			return nil, err
		}
		reports = append(reports, more...)
	}
	return reports, nil
}

func isGone(err error) bool {
	return says(err, "no such container", "no such object", "not found", "no container with name or id")
}

// Terminate removes the containers and returns when they are gone.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	return fail("terminate", d.remove(ctx, ids...))
}

func (d *driver) remove(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	args := []string{"rm", "--force", "--volumes"}
	switch d.engine.dialect {
	case podman:
		args = append(args, "--time", "0") // it would ask the node to stop, and wait
	case apple:
		args = []string{"delete", "--force"}
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	// What the command says does not settle it: a container that is gone, or on its
	// way, is an error to some engines, and podman leaves the others alone then and
	// calls it success. Whether all are gone decides.
	for {
		_, err := d.engine.run(ctx, append(args, ids...)...)
		reports, lookErr := d.inspect(ctx, ids)
		switch {
		case lookErr != nil:
			return errors.Join(err, lookErr)
		case len(reports) == 0:
			return nil
		case err != nil && !says(err, "already in progress") && !isGone(err), !launches.Pause(ctx, settleInterval):
			return cmp.Or(err, context.Cause(ctx))
		}
		ids = nil
		for _, r := range reports {
			ids = append(ids, r.id)
		}
	}
}

// SelfDestruct ends sshd, and so the container: its process 1, the engine's init,
// passes the signal on. Should sshd not obey, all processes are ended at once.
func (d *driver) SelfDestruct(gputrain.Instance) string {
	return "kill -TERM 1; sleep 5; kill -KILL -1"
}

// Close has nothing to give up.
func (d *driver) Close() error { return nil }

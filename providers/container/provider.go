package container

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A containerDriver holds only values: the engine holds the state.
type containerDriver struct {
	cfg    Config
	engine *engine
	facts  facts
	images images
}

var (
	_ driver.Driver   = (*containerDriver)(nil)
	_ driver.Dialer   = (*containerDriver)(nil)
	_ driver.Scripter = (*containerDriver)(nil)
)

// Capabilities describes what containers can do.
func (d *containerDriver) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:          d.facts.account,
		Free:             true,
		EndsBilling:      "rm -f",
		PrivateNetwork:   true,
		Ports:            driver.PortsOfNetwork, // of the engine's machine
		Mounts:           true,
		DiskResizable:    d.facts.sizedDisk,
		Tags:             true,
		UserTags:         true,
		Images:           &driver.Images{Configured: d.cfg.Image, Logins: true},
		LocalAddresses:   true,
		HostKeys:         driver.HostKeyInjected,
		ProvisionTimeout: 2 * time.Minute,
		LateEffect:       5 * time.Second, // a command of the engine outlives its program
	}
}

// Offers yields the engine's machine: no node can have more than all of it.
func (d *containerDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if !spec.Accelerator.IsZero() && d.cfg.GPUs == "" && len(d.cfg.OwnGPUs) == 0 {
			yield(driver.Offer{}, &driver.Error{Provider: providerName, Op: "offers", Kind: driver.ErrNoOffers,
				Err:  fmt.Errorf("%w: the spec asks for %s, but containers get no GPUs", driver.ErrNoOffers, spec.Accelerator),
				Hint: `set GPUs in container.Config: "all" if the engine's machine has them; or OwnGPUs`})
			return
		}
		o := d.offer()
		if d.cfg.GPUs != "" || len(d.cfg.OwnGPUs) > 0 {
			// An engine does not report the names of its GPUs: the Config vouches for them.
			o.Accelerator = spec.Accelerator
		}
		if n := gpuCount(spec.Accelerator); n > 0 && len(d.cfg.OwnGPUs) > 0 {
			free, err := d.freeGPUs(ctx, nil)
			if err != nil {
				yield(driver.Offer{}, fail("offers", err))
				return
			}
			if o.Available = len(free) / n; o.Available == 0 {
				o.Rejected = fmt.Sprintf("has %d of its %d GPUs free; a node needs %d", len(free), len(d.cfg.OwnGPUs), n)
			}
		}
		if err := d.bakery().startFromBaked(ctx, &o, spec.Baked); err != nil {
			yield(driver.Offer{}, fail("offers", err))
			return
		}
		yield(o, nil)
	}
}

func (d *containerDriver) offer() driver.Offer {
	return driver.Offer{
		Provider:     providerName,
		InstanceType: d.engine.dialect.String(),
		VCPUs:        d.facts.vcpus,
		MemoryGiB:    d.facts.memoryGiB,
		HourlyUSD:    driver.USD(0),
	}
}

// Describe reports the named containers, by one call of the engine.
func (d *containerDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	instances, err := d.describe(ctx, ids)
	return instances, fail("describe", err)
}

func (d *containerDriver) describe(ctx context.Context, ids []string) ([]driver.Instance, error) {
	reports, err := d.engine.inspect(ctx, ids)
	if err != nil {
		return nil, err
	}
	var instances []driver.Instance
	for _, id := range ids {
		i := slices.IndexFunc(reports, func(r report) bool { return r.id == id || r.name == id })
		if i < 0 {
			instances = append(instances, driver.Instance{ID: id, State: driver.InstanceTerminated, Offer: d.offer()})
			continue
		}
		instances = append(instances, d.instance(reports[i]))
	}
	return instances, nil
}

// Terminate removes the containers and returns once they are gone.
func (d *containerDriver) Terminate(ctx context.Context, ids ...string) error {
	return fail("terminate", d.engine.remove(ctx, ids...))
}

// Scripts returns a script that ends sshd, and so the container: process 1, the engine's init,
// passes the signal on. If sshd does not obey, the script kills all processes. Only root may
// signal process 1: another user writes to a pipe on which a process of root's waits.
func (d *containerDriver) Scripts(in driver.Instance) driver.Scripts {
	if in.SSH.User != "" && in.SSH.User != root {
		return driver.Scripts{SelfDestruct: "echo end >/run/gputrain/end & sleep 5; kill -KILL -1"}
	}
	return driver.Scripts{SelfDestruct: "kill -TERM 1; sleep 5; kill -KILL -1"}
}

// Close does nothing.
func (d *containerDriver) Close() error { return nil }

package providertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// finding holds, by *sim.Cloud, the IDs that were to be terminated since findNothing.
var finding sync.Map

// findNothing makes a cloud find no machine that it is asked to terminate.
func findNothing(c *sim.Cloud) (undo func()) {
	finding.Store(c, &sync.Map{})
	return func() { finding.Delete(c) }
}

func (d providertestDriver) Terminate(ctx context.Context, ids ...string) error {
	asked, nothing := finding.Load(d.cloud)
	if !nothing {
		return d.simDriver.Terminate(ctx, ids...)
	}
	for _, id := range ids {
		asked.(*sync.Map).Store(id, true)
	}
	return nil
}

const notFound = "the cloud finds nothing there to end"

// isGone reports whether a machine cannot come back, and was not found by Terminate.
func (d providertestDriver) isGone(id string, s driver.InstanceState) bool {
	asked, nothing := finding.Load(d.cloud)
	if !nothing || s != driver.InstancePreempted && s != driver.InstanceFailed {
		return false
	}
	_, ok := asked.(*sync.Map).Load(id)
	return ok
}

func (d providertestDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := d.simDriver.Describe(ctx, ids...)
	for i := range got {
		if d.isGone(got[i].ID, got[i].State) {
			got[i].State, got[i].StateReason = driver.InstanceTerminated, notFound
		}
	}
	return got, err
}

func (d providertestDriver) List(ctx context.Context, pool string) ([]driver.Resource, error) {
	all, err := d.simDriver.List(ctx, pool)
	return slices.DeleteFunc(all, func(r driver.Resource) bool { return d.isGone(r.ID, r.State) }), err
}

func init() {
	flaws = append(flaws,
		flaw{name: "asked to end once, and then only watched", check: "terminate that is not done: undone", says: "must be repeated while",
			driver: func(d providertestDriver) driver.Driver {
				var asked sync.Map
				return terminates{d, func(ctx context.Context, ids ...string) error {
					for _, id := range ids {
						if _, again := asked.LoadOrStore(id, true); again {
							time.Sleep(5 * time.Minute)
							return &driver.Error{Provider: "sim", Op: "terminate", Kind: driver.ErrUnavailable, Err: errors.New("it is not gone yet")}
						}
					}
					return d.Terminate(ctx, ids...)
				}}
			}},
		flaw{name: "an answered end taken for the end", check: "terminate that is not done: undone", says: "the account has it",
			driver: believing},
		flaw{name: "what is not found counts as preempted for ever", check: terminateEnded, says: "must count as gone",
			driver: editedInstances(func(got []driver.Instance) []driver.Instance {
				for i := range got {
					if got[i].StateReason == notFound {
						got[i].State = driver.InstancePreempted
					}
				}
				return got
			})},
		flaw{name: "what runs counts as gone, as it is not found", check: terminateRuns, says: "a machine runs",
			driver: believing},
		flaw{name: "one odd answer ends Open", check: "open that is answered well the second time: html", says: "tried again", opened: asksAtOpen},
		flaw{name: "an odd answer is the key's fault", check: "open that is never answered well: html", says: "must be one of",
			opened: func(p provider, err error) error {
				if err = asksAtOpen(p, err); err != nil {
					err = &driver.Error{Provider: "sim", Op: "open", Kind: driver.ErrAuth, Err: errors.New("success is not said")}
				}
				return err
			}},
		flaw{name: "an odd answer to a read is not tried again", check: "read that is answered well the second time: html", says: "safe to repeat",
			driver: func(d providertestDriver) driver.Driver {
				return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
					return d.simDriver.(patient).simDriver.List(ctx, pool)
				}}
			}},
	)
}

// A believer reports every machine that it was asked to terminate as terminated.
type believer struct {
	providertestDriver
	asked *sync.Map
}

func believing(d providertestDriver) driver.Driver { return believer{d, new(sync.Map)} }

func (b believer) Terminate(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		b.asked.Store(id, true)
	}
	return b.providertestDriver.Terminate(ctx, ids...)
}

func (b believer) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := b.providertestDriver.Describe(ctx, ids...)
	for i := range got {
		if _, ok := b.asked.Load(got[i].ID); ok {
			got[i].State = driver.InstanceTerminated
		}
	}
	return got, err
}

// asksAtOpen makes Open call the API once.
func asksAtOpen(p provider, err error) error {
	if err != nil {
		return err
	}
	d, err := p.Config.Open(context.Background())
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err = d.List(context.Background(), ""); err != nil && !strings.Contains(err.Error(), "not authorized") {
		return err
	}
	return nil
}

package tasks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A bakery is a simulated cloud whose calls about images hang.
type bakery struct{ sim.Config }

type bakeryDriver struct{ driver.Driver }

func (b bakery) Open(ctx context.Context) (driver.Driver, error) {
	d, err := b.Config.Open(ctx)
	return bakeryDriver{d}, err
}

func (bakeryDriver) Bake(ctx context.Context, _ driver.Bake) (driver.BakedImage, error) {
	<-ctx.Done()
	return driver.BakedImage{}, ctx.Err()
}

func (bakeryDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (bakeryDriver) DeleteBaked(ctx context.Context, _ ...string) error {
	<-ctx.Done()
	return ctx.Err()
}

// hangs has each call of a cloud's API take an hour from now on, unless its context ends.
func hangs(c *e2etest.SimCloud) { c.Inject(sim.Fault{Kind: sim.Delay, For: time.Hour}) }

// TestCallersOfAnAPIThatHangs ends the contexts of calls that wait for a cloud's API. They return at once, and what they leave is there
// for the next call.
func TestCallersOfAnAPIThatHangs(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, pool string) error{
		"Plan": func(ctx context.Context, _ *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			_, err := gputrain.Plan(ctx, of, gputrain.Spec{})
			return err
		},
		"Plan, of two": func(ctx context.Context, _ *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			_, err := gputrain.Plan(ctx, gputrain.Cheapest(of, of), gputrain.Spec{})
			return err
		},
		"Open": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, _ string) error { // nothing is rented yet
			_, err := gputrain.Open(ctx, of, gputrain.Spec{}, gputrain.WithStateDir(c.State))
			return err
		},
		"Attach": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, pool string) error {
			_, err := gputrain.Attach(ctx, of, pool, gputrain.WithStateDir(c.State))
			return err
		},
		"Reap": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			_, err := gputrain.StateDir(c.State).Reap(ctx, of)
			return err
		},
		"ReapPool": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, pool string) error {
			_, err := gputrain.StateDir(c.State).ReapPool(ctx, pool, of)
			return err
		},
		"Guard": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			for range gputrain.StateDir(c.State).Guard(ctx, time.Minute, of) {
			}
			return ctx.Err()
		},
		"Bake": func(ctx context.Context, c *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			_, err := gputrain.Bake(ctx, of, gputrain.Spec{Image: gputrain.Image{Setup: []string{"true"}}}, gputrain.WithStateDir(c.State))
			return err
		},
		"BakedImages": func(ctx context.Context, _ *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			_, err := gputrain.BakedImages(ctx, of, of)
			return err
		},
		"DeleteBaked": func(ctx context.Context, _ *e2etest.SimCloud, of gputrain.Provider, _ string) error {
			caps := driver.BakedImage{ID: "image", Provider: of.Name(), Account: account(of)}
			return gputrain.DeleteBaked(ctx, of, caps)
		},
	} {
		for _, after := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
			t.Run(name+"/"+after.String(), func(t *testing.T) {
				e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
					p := c.Pool(t, gputrain.Spec{Nodes: 2, Lease: time.Minute})
					p.Detach() // it refuses once, since these machines end with this program
					id, err := p.Detach()
					if err != nil {
						t.Fatal(err)
					}
					of := bakery{sim.Config{Cloud: c.Cloud}}
					hangs(c)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					given := time.Time{}
					var giving sync.WaitGroup
					giving.Go(func() {
						time.Sleep(after)
						given = time.Now()
						cancel()
					})
					err = call(ctx, c, of, id)
					giving.Wait()
					if late := time.Since(given); late > letgo.Patience {
						t.Errorf("it returned after %v", late)
					}
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%v, want one that is context.Canceled", err)
					}
					c.Calm()
					time.Sleep(2 * time.Hour)
					if _, err := gputrain.StateDir(c.State).Reap(t.Context(), of); err != nil || len(c.Live()) > 0 {
						t.Errorf("%v; left: %v", err, c.Live())
					}
				})
			})
		}
	}
}

// account returns the account of a provider.
func account(of gputrain.Provider) string {
	d, err := of.Open(context.Background())
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	return d.Capabilities().Account
}

// Open waits for the end of what it has rented, also if its caller has given up: for six minutes at most. What the cloud has not
// confirmed by then is in its error, and in the ledger for Reap.
func TestOpenThatIsGivenUpNamesWhatIsLeft(t *testing.T) {
	for _, at := range []time.Duration{0, 50 * time.Millisecond, time.Second, 10 * time.Second, 40 * time.Second} {
		t.Run(at.String(), func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{BootTime: 30 * time.Second, Latency: 20 * time.Millisecond}, func(t *testing.T, c *e2etest.SimCloud) {
				ctx, cancel := context.WithCancel(t.Context())
				var given time.Time
				time.AfterFunc(at, func() {
					hangs(c)
					given = time.Now()
					cancel()
				})
				of := sim.Config{Cloud: c.Cloud}
				p, err := gputrain.Open(ctx, of, gputrain.Spec{Nodes: 3, Image: gputrain.Image{}}, gputrain.WithStateDir(c.State))
				if err == nil { // it was open before
					<-ctx.Done()
					err = p.Close()
				}
				if late := time.Since(given); late > 6*time.Minute {
					t.Errorf("it returned after %v", late)
				}
				for _, live := range c.Live() {
					if !named(err, live) {
						t.Errorf("%s is left, and the error is %v", live.ID, err)
					}
				}
				c.Calm()
				time.Sleep(2 * time.Hour)
				if _, err := gputrain.StateDir(c.State).Reap(t.Context(), of); err != nil || len(c.Live()) > 0 {
					t.Errorf("%v; left: %v", err, c.Live())
				}
			})
		})
	}
}

// named reports whether the error of what is left names a resource, or its kind if it never had an ID.
func named(err error, r gputrain.Resource) bool {
	var left *gputrain.LeakError
	return errors.As(err, &left) && (strings.Contains(err.Error(), r.ID) || strings.Contains(err.Error(), "sim "+r.Kind+" "))
}

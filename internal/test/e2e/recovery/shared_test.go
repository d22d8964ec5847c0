package recovery

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A hoarder creates a volume for each pool, and fails Release as often as a test sets.
type hoarder struct {
	sim.Config
	state string
	fails *int
	made  *[]string              // what the last Release received
	row   func(ledger.Row) error // checks the volume's row before the volume is created
}

type simDriver interface {
	driver.Driver
	driver.Dialer
}

type hoarderDriver struct {
	simDriver
	hoarder
}

func (h hoarder) Open(ctx context.Context) (driver.Driver, error) {
	d, err := h.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return hoarderDriver{d.(simDriver), h}, nil
}

func (d hoarderDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	volume := gputrain.Resource{Kind: "volume", Name: "scratch", HourlyUSD: driver.USD(0.25)}
	if err := pool.Record(volume); err != nil {
		return err
	}
	if d.row != nil {
		dir, err := ledger.OpenDir(d.state)
		if err != nil {
			return err
		}
		snap, err := dir.Read(pool.ID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(snap.Rows, func(r ledger.Row) bool { return r.Kind == "volume" })
		if i < 0 {
			return errors.New("the ledger does not have it")
		}
		if err := d.row(snap.Rows[i]); err != nil {
			return err
		}
	}
	volume.ID = "vol-1"
	if err := pool.Record(volume); err != nil {
		return err
	}
	return d.simDriver.Prepare(ctx, pool)
}

func (d hoarderDriver) Release(ctx context.Context, pool driver.PoolInfo) error {
	*d.made = nil
	for _, r := range pool.Made {
		*d.made = append(*d.made, r.Kind+" "+r.ID)
	}
	if *d.fails > 0 {
		*d.fails--
		return errors.New("the volume is busy")
	}
	return d.simDriver.Release(ctx, pool)
}

func newHoarder(c *e2etest.SimCloud, fails int) hoarder {
	return hoarder{Config: sim.Config{Cloud: c.Cloud}, state: c.State, fails: &fails, made: new([]string)}
}

func (h hoarder) wantMade(t *testing.T, who string) {
	t.Helper()
	want := []string{"key key-", "network network-", "volume vol-1"}
	if !slices.EqualFunc(*h.made, want, func(have, want string) bool { return len(have) >= len(want) && have[:len(want)] == want }) {
		t.Errorf("%s releases %q", who, *h.made)
	}
}

// Resources that a driver creates beside machines are in the ledger before, and Release gets them.
func TestRecordOfWhatIsMadeBesideMachines(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		h := newHoarder(c, 2)
		h.row = func(r ledger.Row) error {
			if r.State != ledger.Intended || r.ID != "" || r.HourlyUSD == nil || *r.HourlyUSD != 0.25 {
				t.Errorf("before the volume is made, its row is %+v", r)
			}
			return nil
		}
		p, err := gputrain.Open(t.Context(), h, gputrain.Spec{}, gputrain.WithStateDir(c.State))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		h.wantMade(t, "Close")
		if pools, err := gputrain.StateDir(c.State).Pools(); len(pools) != 0 || err != nil {
			t.Errorf("%v, %v are left", pools, err)
		}
	})
}

// Resources that cannot be released are in Close's error, and Reap releases them later.
func TestRecordOfWhatIsNotReleased(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		h := newHoarder(c, 1e6)
		p, err := gputrain.Open(t.Context(), h, gputrain.Spec{}, gputrain.WithStateDir(c.State))
		if err != nil {
			t.Fatal(err)
		}
		err = p.Close()
		var leak *gputrain.LeakError
		if !errors.As(err, &leak) || !slices.ContainsFunc(leak.Resources, func(r gputrain.Resource) bool {
			return r.Provider == "sim" && r.Kind == "volume" && r.ID == "vol-1" && r.HourlyUSD == driver.USD(0.25)
		}) {
			t.Fatalf("Close returns %v", err)
		}
		if *h.fails -= 1e6; *h.fails > 0 {
			t.Fatal("Release was not called")
		}
		*h.fails, *h.made = 0, nil
		if _, err := gputrain.StateDir(c.State).Reap(t.Context(), h); err != nil {
			t.Error(err)
		}
		h.wantMade(t, "Reap")
		if pools, err := gputrain.StateDir(c.State).Pools(); len(pools) != 0 || err != nil {
			t.Errorf("%v, %v are left", pools, err)
		}
	})
}

// A pool without a ledger, as in a test of a driver, records nothing.
func TestRecordWithoutALedger(t *testing.T) {
	if err := (driver.PoolInfo{}).Record(gputrain.Resource{Kind: "key", Name: "k"}); err != nil {
		t.Errorf("without a ledger: %v", err)
	}
}

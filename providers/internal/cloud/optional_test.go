package cloud_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// together is a cloud that makes all machines of a launch by one call.
type together struct {
	*memory
	calls int
	err   error
}

func (a *together) CreateTogether(ctx context.Context, orders []cloud.Order) ([]cloud.Machine, error) {
	a.calls++
	if a.err != nil {
		return nil, a.err
	}
	for _, o := range orders {
		if _, err := a.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	return a.Machines(ctx, "")
}

func TestLaunchTogether(t *testing.T) {
	api := &together{memory: &memory{caps: injecting(time.Hour)}}
	d := cloud.New("acme", api, cloud.Options{})
	defer d.Close()
	req := request(t, 3)
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != 3 || api.calls != 1 {
		t.Fatalf("%+v after %d calls, %v", got, api.calls, err)
	}
	for rank, in := range got {
		if in.Rank != rank || in.Name != req.Nodes[rank].Name || in.Offer.ID != "big" || len(in.SSH.HostKeys) != 1 {
			t.Errorf("%+v", in)
		}
	}
	api.machines = nil
	if in := cloudtest.Describe(t, d, got[1].ID); in.State != driver.InstancePending {
		t.Errorf("a machine that is too new to be known: %+v", in)
	}
	api.err = errSoldOut
	got, err = d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrNoCapacity, "acme", "launch", string(req.Nodes[0].HostKey.Private))
	if len(got) > 0 {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Launch(ctx, req); !errors.Is(err, context.Canceled) || api.calls != 2 {
		t.Errorf("given up: %v after %d calls", err, api.calls)
	}
}

// bulk is a cloud that ends several machines by one call, with proof only for the first.
type bulk struct {
	*memory
	asked [][]string
}

func (a *bulk) EndAll(ctx context.Context, ids []string) []error {
	a.asked = append(a.asked, ids)
	errs := make([]error, len(ids))
	for i, id := range ids {
		if errs[i] = cloud.ErrUnproven; i == 0 {
			errs[i] = a.End(ctx, id)
		}
	}
	return errs
}

// A machine that the cloud does not know is terminated only if its own end was granted.
func TestEndOfSeveral(t *testing.T) {
	api := &bulk{memory: &memory{caps: injecting(time.Hour)}}
	d := cloud.New("acme", api, cloud.Options{})
	defer d.Close()
	got, err := d.Launch(t.Context(), request(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{got[0].ID, got[1].ID}
	if err := d.Terminate(t.Context(), ids...); err != nil || len(api.asked) != 1 || !slices.Equal(api.asked[0], ids) {
		t.Errorf("%v after %q", err, api.asked)
	}
	if in := cloudtest.Describe(t, d, ids[1]); in.State != driver.InstanceRunning {
		t.Errorf("it is there, and described as %+v", in)
	}
	api.machines = nil
	if in := cloudtest.Describe(t, d, ids[0]); in.State != driver.InstanceTerminated {
		t.Errorf("ended: %+v", in)
	}
	if in := cloudtest.Describe(t, d, ids[1]); in.State != driver.InstancePending {
		t.Errorf("ended together with another, and perhaps too new to be known: %+v", in)
	}
}

// telling is a cloud that reports the real price of a new machine.
type telling struct {
	*memory
	mute bool
}

func (a *telling) Told(ctx context.Context, id string) (cloud.Machine, bool) {
	m, err := a.Machine(ctx, id)
	m.Offer = driver.Offer{HourlyUSD: driver.USD(3), VCPUs: 16, MemoryGiB: 188}
	return m, err == nil && !a.mute
}

func TestPriceOfANewMachine(t *testing.T) {
	api := &telling{memory: &memory{caps: injecting(0)}}
	d := cloud.New("acme", api, cloud.Options{})
	defer d.Close()
	got, err := d.Launch(t.Context(), request(t, 1))
	in := cloudtest.One(t, got, err)
	if in.Offer.ID != "big" || in.Offer.HourlyUSD != driver.USD(3) || in.Offer.VCPUs != 16 || in.Offer.MemoryGiB != 188 || in.Name != "p1-0" {
		t.Errorf("%+v", in)
	}
	api.mute = true
	got, err = d.Launch(t.Context(), request(t, 1))
	if in := cloudtest.One(t, got, err); !reflect.DeepEqual(in.Offer, request(t, 1).Offer) || in.State != driver.InstancePending {
		t.Errorf("without a word of the cloud's: %+v", in)
	}
}

// A machine whose offer is for several regions is listed with its own region.
func TestListHasTheRegionOfTheMachine(t *testing.T) {
	m := &memory{caps: injecting(0)}
	d := open(t, m, cloud.Options{})
	if _, err := d.Launch(t.Context(), request(t, 2)); err != nil {
		t.Fatal(err)
	}
	m.machines[1].Region = "there"
	listed, err := d.List(t.Context(), "p1")
	if err != nil || len(listed) != 2 || listed[0].Region != "here" || listed[1].Region != "there" {
		t.Errorf("%+v, %v", listed, err)
	}
}

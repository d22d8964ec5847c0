package cloud_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// bank is a cloud that tells the account's money and quota.
type bank struct {
	*memory
	err error
}

func (b *bank) Balance(context.Context, driver.Offer) (driver.Balance, error) {
	return driver.Balance{Known: b.err == nil, USD: 7}, b.err
}

func (b *bank) Quota(context.Context, driver.Offer) (driver.Quota, error) {
	return driver.Quota{Known: b.err == nil, Machines: 3}, b.err
}

func TestAllowance(t *testing.T) {
	silent := open(t, &memory{caps: injecting(0)}, cloud.Options{})
	b, err := silent.Balance(t.Context(), offer())
	q, err2 := silent.Quota(t.Context(), offer())
	if b != (driver.Balance{}) || q != (driver.Quota{}) || err != nil || err2 != nil {
		t.Errorf("%+v, %v; %+v, %v", b, err, q, err2)
	}
	api := &bank{memory: &memory{caps: injecting(0)}}
	d := cloud.New("acme", api, cloud.Options{})
	defer d.Close()
	b, err = d.Balance(t.Context(), offer())
	q, err2 = d.Quota(t.Context(), offer())
	if b.USD != 7 || q.Machines != 3 || err != nil || err2 != nil {
		t.Errorf("%+v, %v; %+v, %v", b, err, q, err2)
	}
	api.err = errSoldOut
	_, err = d.Balance(t.Context(), offer())
	cloudtest.Is(t, err, driver.ErrNoCapacity, "acme", "balance")
	_, err = d.Quota(t.Context(), offer())
	cloudtest.Is(t, err, driver.ErrNoCapacity, "acme", "quota")
}

func TestPriced(t *testing.T) {
	disk, machine := driver.PricePart{Name: "disk", HourlyUSD: 0.5}, driver.PricePart{Name: "machine", HourlyUSD: 2}
	if o := cloud.Priced(offer(), machine, disk); o.HourlyUSD != driver.USD(2.5) || !reflect.DeepEqual(o.Parts, []driver.PricePart{machine, disk}) {
		t.Errorf("%+v", o)
	}
	if o := cloud.Priced(offer(), machine, driver.PricePart{Name: "disk"}); o.HourlyUSD != driver.USD(2) || o.Parts != nil {
		t.Errorf("%+v", o)
	}
}

// A machine costs what its cloud says. The parts of its offer are kept if that is what the offer costs.
func TestChargedPrice(t *testing.T) {
	parts := []driver.PricePart{{Name: "machine", HourlyUSD: 1.5}, {Name: "disk", HourlyUSD: 0.5}}
	for name, tt := range map[string]struct {
		told driver.Offer
		want driver.Offer
	}{
		"nothing":            {driver.Offer{}, driver.Offer{HourlyUSD: driver.USD(2), Parts: parts}},
		"the offer's":        {driver.Offer{HourlyUSD: driver.USD(2)}, driver.Offer{HourlyUSD: driver.USD(2), Parts: parts}},
		"another":            {driver.Offer{HourlyUSD: driver.USD(3)}, driver.Offer{HourlyUSD: driver.USD(3)}},
		"another, in parts":  {driver.Offer{HourlyUSD: driver.USD(3), Parts: parts[:1]}, driver.Offer{HourlyUSD: driver.USD(3), Parts: parts[:1]}},
		"the same, in parts": {driver.Offer{HourlyUSD: driver.USD(2), Parts: parts[1:]}, driver.Offer{HourlyUSD: driver.USD(2), Parts: parts[1:]}},
	} {
		m := &memory{caps: injecting(0)}
		d := open(t, m, cloud.Options{})
		req := request(t, 1)
		req.Offer.Parts = parts
		got, err := d.Launch(t.Context(), req)
		in := cloudtest.One(t, got, err)
		m.machines[0].Offer = tt.told
		if now := cloudtest.Describe(t, d, in.ID); now.Offer.HourlyUSD != tt.want.HourlyUSD || !reflect.DeepEqual(now.Offer.Parts, tt.want.Parts) {
			t.Errorf("%s: %+v", name, now.Offer)
		}
	}
}

package driver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestStartFrom(t *testing.T) {
	shared := append(make([]string, 0, 8), "one")
	for want, price := range map[string]driver.Price{
		"starts from the baked image img-1": driver.USD(0),
		"starts from the baked image img-1, whose storage costs $3.65 a month, with or without machines": driver.USD(0.005),
		"starts from the baked image img-1, whose storage has a price that is not known":                 {},
	} {
		o := driver.Offer{Warnings: shared}
		o.StartFrom(driver.BakedImage{ID: "img-1", HourlyUSD: price})
		if o.Baked != "img-1" || !slices.Equal(o.Warnings, []string{"one", want}) {
			t.Errorf("%+v; want %s", o, want)
		}
	}
	if got := shared[:2][1]; got != "" {
		t.Errorf("other offers' warnings have %q", got)
	}
}

func TestMonthlyUSD(t *testing.T) {
	if usd, known := (driver.BakedImage{HourlyUSD: driver.USD(1)}).MonthlyUSD(); usd != 730 || !known {
		t.Errorf("$%v, %v", usd, known)
	}
	if _, known := (driver.BakedImage{}).MonthlyUSD(); known {
		t.Error("a price that is not known is known")
	}
}

func TestNewest(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	images := []driver.BakedImage{{ID: "b", Created: at}, {ID: "a", Created: at}, {ID: "old", Created: at.Add(-time.Hour)}, {ID: "other", Created: at.Add(time.Hour)}}
	newest, ok := driver.Newest(images, func(b driver.BakedImage) bool { return b.ID != "other" })
	if newest.ID != "b" || !ok {
		t.Errorf("%+v, %v", newest, ok)
	}
	if _, ok := driver.Newest(images, func(driver.BakedImage) bool { return false }); ok {
		t.Error("there is none")
	}
}

func TestIsBake(t *testing.T) {
	for id, want := range map[string]bool{"bake-k3v9x2mq": true, "bake-mine-k3v9x2mq": true, "bakery-k3v9x2mq": false, "pool-k3v9x2mq": false, "": false} {
		if driver.IsBake(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

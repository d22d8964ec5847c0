package fakecloud

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// The bills are worked out by hand.
func TestMeter(t *testing.T) {
	const minute = time.Minute
	for name, tt := range map[string]struct {
		tariff Tariff
		// The machine boots for a time and runs for another; it costs $60 an hour, and its disk $6.
		boots, runs time.Duration
		there, gone float64 // what it has cost after that, while it is there and an hour after it is gone
	}{
		"by the second, from its launch": {Tariff{}, 2 * minute, 3 * minute, 5.5, 5.5},
		"by begun minutes":               {Tariff{Unit: minute}, 0, 90 * time.Second, 2.15, 2.15},
		"from the moment it runs":        {Tariff{Unit: minute, Free: []string{"booting"}}, 10 * minute, 90 * time.Second, 3.15, 3.15},
		"it never runs":                  {Tariff{Free: []string{"booting"}}, 10 * minute, 0, 1, 1},
		"prepaid, and given back":        {Tariff{Unit: 10 * minute, Refunds: true}, 0, 3 * minute, 10.3, 3.3},
		"prepaid":                        {Tariff{Unit: 10 * minute}, 0, 3 * minute, 10.3, 10.3},
	} {
		s := &Server{}
		synctest.Test(t, func(t *testing.T) {
			var all []Metered
			m := s.Meter(tt.tariff, func() []Metered { return all })
			is := func(state string, d time.Duration) {
				if d > 0 {
					s.Do(func() { all = []Metered{{ID: "m1", State: state, HourlyUSD: 60, ExistsUSD: 6}} })
					time.Sleep(d)
				}
			}
			is("booting", tt.boots)
			is("running", tt.runs)
			if usd := m.USD(); math.Abs(usd-tt.there) > 1e-9 {
				t.Errorf("%s: $%v while it is there, want $%v", name, usd, tt.there)
			}
			s.Do(func() { all = nil })
			time.Sleep(time.Hour)
			if usd := m.USD(); math.Abs(usd-tt.gone) > 1e-9 {
				t.Errorf("%s: $%v once it is gone, want $%v", name, usd, tt.gone)
			}
		})
	}
}

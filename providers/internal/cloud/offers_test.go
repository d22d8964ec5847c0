package cloud_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

func TestMarkets(t *testing.T) {
	for allocation, want := range map[driver.Allocation][]bool{
		driver.OnDemand: {false}, driver.Spot: {true}, driver.SpotIfAvailable: {true, false},
	} {
		if got := cloud.Markets(allocation); !slices.Equal(got, want) {
			t.Errorf("%v: %v", allocation, got)
		}
	}
}

func TestEach(t *testing.T) {
	if got := cloud.Each([]int{1, 2}, strconv.Itoa); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("%q", got)
	}
}

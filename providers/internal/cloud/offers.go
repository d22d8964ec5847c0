package cloud

import "github.com/gputrain/gputrain/providers/driver"

// Markets returns the markets that an allocation can take from: true is spot.
func Markets(a driver.Allocation) []bool {
	switch a {
	case driver.OnDemand:
		return []bool{false}
	case driver.Spot:
		return []bool{true}
	}
	return []bool{true, false}
}

// Each converts each row of a list.
func Each[Row, T any](rows []Row, convert func(Row) T) []T {
	var all []T
	for _, r := range rows {
		all = append(all, convert(r))
	}
	return all
}

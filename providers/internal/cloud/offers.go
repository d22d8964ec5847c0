package cloud

import "github.com/gputrain/gputrain"

// Markets returns which of the two an allocation can take from: spot is true.
func Markets(a gputrain.Allocation) []bool {
	switch a {
	case gputrain.OnDemand:
		return []bool{false}
	case gputrain.Spot:
		return []bool{true}
	}
	return []bool{true, false}
}

// Each returns what of makes of each of the rows of a list.
func Each[Row, T any](rows []Row, of func(Row) T) []T {
	var all []T
	for _, r := range rows {
		all = append(all, of(r))
	}
	return all
}

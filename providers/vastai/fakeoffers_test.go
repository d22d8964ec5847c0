package vastai

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// askRow returns a row of the search: a good machine with changed columns. A column
// that is changed to "-" is missing.
func askRow(i int, changed row) row {
	r := row{
		"id": 1000 + i, "machine_id": 88000 + i, "host_id": 5555, "gpu_name": "RTX 4090", "num_gpus": 1, "gpu_ram": 24564,
		"cpu_cores": 64, "cpu_cores_effective": 16.0, "cpu_ram": 262144, "disk_space": 900.5, "dph_base": 0.40 + float64(i)/100, "min_bid": 0.20,
		"storage_cost": 0.144, "cuda_max_good": 12.9, "reliability2": 0.9934, "verification": "verified", "direct_port_count": 12,
		"inet_down": 812.5, "inet_up": 640.2, "inet_down_cost": 0.002, "inet_up_cost": 0.003, "geolocation": "Washington, US",
		"cluster_id": nil, "rentable": true, "rented": false, "duration": 1234567.8,
	}
	for k, v := range changed {
		if r[k] = v; v == "-" {
			delete(r, k)
		}
	}
	return r
}

func (f *fake) search(c *fakecloud.Call) fakecloud.Answer {
	q := input(c)
	offers := []row{}
	for _, a := range f.asks {
		a := copied(a)
		disk, _ := q["allocated_storage"].(float64)
		a["dph_total"] = a["dph_base"].(float64) + disk*a["storage_cost"].(float64)/hoursPerMonth
		a["is_bid"] = q["type"] == "bid"
		if f.unpriced {
			for _, column := range []string{"dph_total", "dph_base", "min_bid", "storage_cost"} {
				delete(a, column)
			}
		}
		if matches(a, q) {
			offers = append(offers, a)
		}
	}
	order := q["order"].([]any)[0].([]any)[0].(string)
	slices.SortStableFunc(offers, func(a, b row) int {
		x, _ := a[order].(float64)
		y, _ := b[order].(float64)
		return cmp.Compare(x, y)
	})
	return fakecloud.Reply(200, row{"offers": offers[:min(asInt(q["limit"]), len(offers))]})
}

func copied(r row) row {
	out := row{}
	for k, v := range r {
		out[k] = v
	}
	return out
}

// matches applies a search's filters on columns that the row has.
func matches(a, q row) bool {
	for column, filter := range q {
		ops, ok := filter.(row)
		if !ok {
			continue
		}
		have, known := a[column]
		if column == "verified" {
			have, known = a["verification"] == "verified", true
		}
		if column == "geolocation" {
			have = countryOf(fmt.Sprint(have))
		}
		if !known {
			continue
		}
		for op, want := range ops {
			x, _ := strconv.ParseFloat(fmt.Sprint(have), 64)
			y, _ := strconv.ParseFloat(fmt.Sprint(want), 64)
			good := true
			switch op {
			case "eq":
				good = fmt.Sprint(have) == fmt.Sprint(want)
			case "neq":
				good = fmt.Sprint(have) != fmt.Sprint(want)
			case "gte":
				good = x >= y
			case "lte":
				good = x <= y
			case "in":
				good = slices.ContainsFunc(want.([]any), func(w any) bool { return fmt.Sprint(w) == fmt.Sprint(have) })
			}
			if !good {
				return false
			}
		}
	}
	return true
}

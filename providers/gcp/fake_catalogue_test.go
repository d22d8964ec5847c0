package gcp

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func machineType(name string, vcpus, memoryMB int, changed row) row {
	r := row{"kind": "compute#machineType", "name": name, "guestCpus": vcpus, "memoryMb": memoryMB, "architecture": "X86_64", "isSharedCpu": false}
	maps.Copy(r, changed)
	return r
}

func withGPUs(kind string, count int) row {
	return row{"accelerators": []row{{"guestAcceleratorType": kind, "guestAcceleratorCount": count}}}
}

func machineTypes() []row {
	return []row{
		machineType("a2-highgpu-1g", 12, 87040, withGPUs("nvidia-tesla-a100", 1)),
		machineType("a2-ultragpu-1g", 12, 174080, row{"accelerators": []row{{"guestAcceleratorType": "nvidia-a100-80gb", "guestAcceleratorCount": 1}}, "bundledLocalSsds": row{"defaultInterface": "NVME", "partitionCount": 1}}),
		machineType("a3-highgpu-1g", 26, 239616, withGPUs("nvidia-h100-80gb", 1)),
		machineType("a3-highgpu-8g", 208, 1916928, withGPUs("nvidia-h100-80gb", 8)),
		machineType("a4-highgpu-8g", 224, 4063232, withGPUs("nvidia-b200", 8)),
		machineType("a9-highgpu-8g", 224, 4063232, withGPUs("nvidia-x900", 8)),
		machineType("c3-standard-192-metal", 192, 786432, nil),
		machineType("c4-standard-2", 2, 7168, nil),
		machineType("ct5lp-hightpu-1t", 24, 49152, withGPUs("ct5lp", 1)),
		machineType("e2-micro", 2, 1024, row{"isSharedCpu": true}),
		machineType("e2-standard-2", 2, 8192, nil),
		machineType("g2-standard-4", 4, 16384, withGPUs("nvidia-l4", 1)),
		machineType("g2-standard-8", 8, 32768, withGPUs("nvidia-l4", 1)),
		machineType("g2-standard-24", 24, 98304, withGPUs("nvidia-l4", 2)),
		machineType("g2-standard-old", 4, 16384, row{"deprecated": row{"state": "DEPRECATED"}, "accelerators": []row{{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}}}),
		machineType("m1-megamem-96", 96, 1433600, nil),
		machineType("n1-highmem-16", 16, 106496, nil),
		machineType("n1-standard-1", 1, 3840, nil),
		machineType("n1-standard-16", 16, 61440, nil),
		machineType("n1-standard-32", 32, 122880, nil),
		machineType("n1-standard-8", 8, 30720, nil),
		machineType("n1-standard-96", 96, 368640, nil),
		machineType("t2a-standard-1", 1, 4096, row{"architecture": "ARM64"}),
	}
}

func acceleratorTypes() []row {
	var all []row
	for name, most := range map[string]int{"nvidia-tesla-t4": 4, "nvidia-tesla-v100": 8, "nvidia-tesla-t4-vws": 4, "nvidia-l4": 8, "ct5lp": 8} {
		all = append(all, row{"kind": "compute#acceleratorType", "name": name, "maximumCardsPerInstance": most})
	}
	slices.SortFunc(all, func(a, b row) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return all
}

// skuRow returns a price of the catalogue.
func skuRow(description, usage, unit string, nanos int, regions ...string) row {
	if regions == nil {
		regions = []string{"us-central1"}
	}
	return row{
		"description": description, "category": row{"resourceFamily": "Compute", "usageType": usage}, "serviceRegions": regions,
		"pricingInfo": []row{{"pricingExpression": row{"usageUnit": unit, "tieredRates": []row{{"unitPrice": row{"currencyCode": "USD", "units": strconv.Itoa(nanos / 1e9), "nanos": nanos % 1e9}}}}}},
	}
}

func testSKUs() []row {
	return []row{
		skuRow("G2 Instance Core running in Americas", "OnDemand", "h", 24988000),
		skuRow("G2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 2927000),
		skuRow("Nvidia L4 GPU running in Americas", "OnDemand", "h", 560040000),
		skuRow("Spot Preemptible G2 Instance Core running in Americas", "Preemptible", "h", 9990000),
		skuRow("Spot Preemptible G2 Instance Ram running in Americas", "Preemptible", "GiBy.h", 1170000),
		skuRow("Nvidia L4 GPU attached to Spot Preemptible VMs running in Americas", "Preemptible", "h", 223700000),
		skuRow("N1 Predefined Instance Core running in Americas", "OnDemand", "h", 31611000),
		skuRow("N1 Predefined Instance Ram running in Americas", "OnDemand", "GiBy.h", 4237000),
		skuRow("Nvidia Tesla T4 GPU running in Americas", "OnDemand", "h", 350000000),
		skuRow("E2 Instance Core running in Americas", "OnDemand", "h", 21811590),
		skuRow("E2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 2923530),
		skuRow("A2 Instance Core running in Americas", "OnDemand", "h", 31611000),
		skuRow("A2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 4237000),
		skuRow("Nvidia Tesla A100 80GB GPU running in Americas", "OnDemand", "h", 3926900000),
		skuRow("SSD backed Local Storage", "OnDemand", "GiBy.mo", 80000000),
		skuRow("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", "h", 4954200000),
		// These must not be mistaken for any of the above.
		skuRow("G2 Sole Tenancy Instance Core running in Americas", "OnDemand", "h", 990000000),
		skuRow("G2 Custom Instance Core running in Americas", "OnDemand", "h", 990000000),
		skuRow("Reserved Nvidia L4 GPU running in Americas", "OnDemand", "h", 1000000),
		skuRow("Commitment v1: Nvidia L4 GPU running in Americas for 1 Year", "Commit1Yr", "h", 1000000),
		skuRow("Sole Tenancy Premium for G2 Sole Tenancy Instance Core running in Americas", "OnDemand", "h", 1000000),
		skuRow("G2 Instance Core running in Tokyo", "OnDemand", "h", 32000000, "asia-northeast1"),
		skuRow("DWS Defined Duration A2 Core running in Americas", "OnDemand", "h", 1000000),
	}
}

func (f *fake) catalog(c *fakecloud.Call, kind string, of map[string][]row) fakecloud.Answer {
	all, ok := of[c.Vars["zone"]]
	if !ok {
		return fakecloud.GoogleError(404, "notFound", "The resource 'projects/"+f.project+"/zones/"+c.Vars["zone"]+"' was not found")
	}
	return fakecloud.Reply(200, paged(f, c, kind, all))
}

func (f *fake) region(c *fakecloud.Call) fakecloud.Answer {
	var zones []string
	for _, zone := range slices.Backward(slices.Sorted(maps.Keys(f.zones))) {
		if regionOf(zone) == c.Vars["region"] {
			zones = append(zones, "https://www.googleapis.com/compute/v1/projects/"+f.project+"/zones/"+zone)
		}
	}
	if zones == nil {
		return notFound("projects/%s/regions/%s", f.project, c.Vars["region"])
	}
	return fakecloud.Reply(200, row{"kind": "compute#region", "name": c.Vars["region"], "zones": zones, "quotas": f.quotaRows(c.Vars["region"])})
}

// regions lists the regions of the fake's zones, and one without any.
func (f *fake) regions(c *fakecloud.Call) fakecloud.Answer {
	zones := map[string][]string{"nowhere-west1": {}}
	for zone := range f.zones {
		zones[regionOf(zone)] = append(zones[regionOf(zone)], "https://www.googleapis.com/compute/v1/projects/"+f.project+"/zones/"+zone)
	}
	all := []row{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		all = append(all, row{"kind": "compute#region", "name": name, "zones": zones[name], "quotas": f.quotaRows(name)})
	}
	return fakecloud.Reply(200, paged(f, c, "compute#regionList", all))
}

func (f *fake) aboutProject(*fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, row{"kind": "compute#project", "name": f.project, "quotas": f.quotaRows("")})
}

// quotaRows returns the quotas of a region or, for "", of the project, with what its machines use.
func (f *fake) quotaRows(region string) []row {
	all := []row{}
	for _, metric := range slices.Sorted(maps.Keys(f.quotas[region])) {
		all = append(all, row{"metric": metric, "limit": f.quotas[region][metric], "usage": f.usage(region, metric)})
	}
	return all
}

// usage counts the L4s of the machines that a quota counts.
func (f *fake) usage(region, metric string) (used float64) {
	for _, v := range f.instances.All(nil) {
		scheduling, _ := v.row["scheduling"].(row)
		spot := scheduling["provisioningModel"] == "SPOT"
		switch {
		case metric != allGPUs && (region != regionOf(last(text(v.row["zone"]))) || spot != strings.HasPrefix(metric, "PREEMPTIBLE_") || !strings.Contains(metric, "L4")):
		case strings.Contains(text(v.row["machineType"]), "g2-standard-24"):
			used += 2
		case strings.Contains(text(v.row["machineType"]), "g2-"):
			used++
		}
	}
	return used
}

// allow sets the quotas of L4s to what is used and n more.
func (f *fake) allow(n int) {
	f.Do(func() {
		f.quotas = map[string]map[string]float64{"us-central1": {}, "": {allGPUs: 1000}}
		for _, metric := range []string{"NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS"} {
			f.quotas["us-central1"][metric] = f.usage("us-central1", metric) + float64(n)
		}
	})
}

func (f *fake) family(c *fakecloud.Call) fakecloud.Answer {
	image, ok := f.families[c.Vars["project"]+"/"+c.Vars["family"]]
	if !ok {
		return notFound("projects/%s/global/images/family/%s", c.Vars["project"], c.Vars["family"])
	}
	image = maps.Clone(image)
	image["kind"] = "compute#image"
	return fakecloud.Reply(200, image)
}

func (f *fake) listSKUs(c *fakecloud.Call) fakecloud.Answer {
	if c.Query.Get("pageSize") != "5000" {
		return fakecloud.GoogleError(400, "invalid", "pageSize")
	}
	from, _ := strconv.Atoi(c.Query.Get("pageToken"))
	if f.skus == nil {
		return fakecloud.Reply(403, row{"error": row{"code": 403, "status": "PERMISSION_DENIED", "message": "Cloud Billing API has not been used in project"}})
	}
	half := (len(f.skus) + 1) / 2
	out := row{"skus": f.skus[from:min(from+half, len(f.skus))], "nextPageToken": ""}
	if from+half < len(f.skus) {
		out["nextPageToken"] = strconv.Itoa(from + half)
	}
	return fakecloud.Reply(200, out)
}

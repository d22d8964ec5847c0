package aws

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func (f *fake) describeTypes(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		MaxResults int
	}
	c.Decode(&in)
	all := []row{}
	for _, t := range f.types {
		if !f.passes(c, in.filters, nil, map[string]string{"instance-type": t.name, "current-generation": strconv.FormatBool(!t.old)}) {
			continue
		}
		usage := t.usage
		if usage == nil {
			usage = []string{"on-demand", "spot"}
		}
		r := row{
			"InstanceType": t.name, "SupportedUsageClasses": usage, "BurstablePerformanceSupported": t.burstable,
			"VCpuInfo": row{"DefaultVCpus": t.vcpus}, "MemoryInfo": row{"SizeInMiB": t.memoryMiB},
			"ProcessorInfo": row{"SupportedArchitectures": []string{t.arch}}, "NetworkInfo": row{"EfaSupported": strings.HasPrefix(t.name, "p4") || strings.HasPrefix(t.name, "p5") || strings.HasSuffix(t.name, "n.24xlarge")}, "SupportedVirtualizationTypes": []string{"hvm"}, "SupportedRootDeviceTypes": []string{"ebs"},
		}
		device := []row{{"Name": t.gpu, "Count": t.count, "MemoryInfo": row{"SizeInMiB": t.size}}}
		switch {
		case t.neuron:
			r["NeuronInfo"] = row{"NeuronDevices": device}
			if t.gpu == "Inferentia" {
				r["InferenceAcceleratorInfo"] = row{"Accelerators": device}
			}
		case t.gpu != "":
			r["GpuInfo"] = row{"Gpus": device}
		}
		all = append(all, r)
	}
	return paged(c, "InstanceTypes", all, min(in.MaxResults, f.pageSize))
}

func (f *fake) zonesOf(t fakeType) []string {
	if t.zones != nil {
		return t.zones
	}
	return slices.Sorted(maps.Keys(testSubnets))
}

func (f *fake) describeOfferings(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		LocationType string
	}
	c.Decode(&in)
	if in.LocationType != "availability-zone" {
		return refused("InvalidParameterValue", "the fake knows zones only")
	}
	all := []row{}
	for _, t := range f.types {
		if f.passes(c, in.filters, nil, map[string]string{"instance-type": t.name}) {
			for _, zone := range f.zonesOf(t) {
				all = append(all, row{"InstanceType": t.name, "LocationType": in.LocationType, "Location": zone})
			}
		}
	}
	return fakecloud.Reply(200, row{"InstanceTypeOfferings": all})
}

func (f *fake) describeSpotPrices(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		InstanceTypes, ProductDescriptions []string
		NextToken, AvailabilityZone        string
	}
	c.Decode(&in)
	if len(in.InstanceTypes) > 100 || !slices.Equal(in.ProductDescriptions, []string{"Linux/UNIX"}) {
		f.t.Errorf("%s: %+v", c.Op, in)
	}
	all := []row{}
	for _, t := range f.types {
		if f.unpriced || t.spotUSD == 0 || !slices.Contains(in.InstanceTypes, t.name) {
			continue
		}
		for _, zone := range f.zonesOf(t) {
			if in.AvailabilityZone != "" && in.AvailabilityZone != zone {
				continue
			}
			all = append(all, row{
				"InstanceType": t.name, "AvailabilityZone": zone, "ProductDescription": "Linux/UNIX",
				"SpotPrice": fmt.Sprintf("%f", f.spotPrice(t, zone)), "Timestamp": time.Now().UTC().Format(time.RFC3339),
			})
		}
	}
	// The first page is never complete: a caller that stops there misses zones.
	half := len(all) / 2
	if in.NextToken == "" && half > 0 {
		return fakecloud.Reply(200, row{"SpotPriceHistory": all[:half], "NextToken": "more"})
	}
	return fakecloud.Reply(200, row{"SpotPriceHistory": all[half:]})
}

func (f *fake) spotPrice(t fakeType, zone string) float64 {
	return t.spotUSD * (1 + float64(zone[len(zone)-1]-'a')/10)
}

// The fake's images, by ID.
var testImages = map[string]row{
	"ami-00000001": {"Name": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261001", "Architecture": "x86_64", "OwnerId": "099720109477", "size": 8},
	"ami-00000002": {"Name": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20261001", "Architecture": "arm64", "OwnerId": "099720109477", "size": 8},
	"ami-00000003": {"Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261001", "Architecture": "x86_64", "OwnerId": "898082745236", "size": 75},
	"ami-00000004": {"Name": "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261001", "Architecture": "arm64", "OwnerId": "898082745236", "size": 75},
	"ami-00000005": {"Name": "Deep Learning AMI Neuron (Ubuntu 24.04) 20261001", "Architecture": "x86_64", "OwnerId": "898082745236", "size": 120},
	"ami-00000006": {"Name": "al2023-ami-2023.1-kernel-6.1-x86_64", "Architecture": "x86_64", "OwnerId": "137112412989", "root": "/dev/xvda", "size": 8},
	"ami-00000007": {"Name": "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20261001", "Architecture": "x86_64", "OwnerId": "099720109477", "size": 8},
}

var testParameters = map[string]string{
	"/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id":         "ami-00000001",
	"/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id":         "ami-00000002",
	"/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id":         "ami-00000007",
	"/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id": "ami-00000003",
	"/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id":  "ami-00000004",
	"/aws/service/neuron/dlami/multi-framework/ubuntu-24.04/latest/image_id":                     "ami-00000005",
}

func rootOf(image row) string {
	if root, ok := image["root"].(string); ok {
		return root
	}
	return "/dev/sda1"
}

func (f *fake) describeImages(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		ImageIds, Owners []string
	}
	c.Decode(&in)
	all := []row{}
	for _, id := range slices.Sorted(maps.Keys(testImages)) {
		im := testImages[id]
		owner := len(in.Owners) == 0 || slices.Contains(in.Owners, im["OwnerId"].(string))
		named := len(in.ImageIds) == 0 || slices.Contains(in.ImageIds, id)
		fields := map[string]string{"name": im["Name"].(string), "state": "available", "architecture": im["Architecture"].(string)}
		if owner && named && f.passes(c, in.filters, nil, fields) {
			all = append(all, row{
				"ImageId": id, "Name": im["Name"], "Architecture": im["Architecture"], "OwnerId": im["OwnerId"], "State": "available",
				"CreationDate": "2026-10-0" + id[len(id)-1:] + "T00:00:00.000Z", "RootDeviceName": rootOf(im), "RootDeviceType": "ebs",
				"BlockDeviceMappings": []row{{"DeviceName": rootOf(im), "Ebs": row{"VolumeSize": im["size"]}}},
			})
		}
	}
	for _, own := range f.ownImages(c) {
		fields := map[string]string{"name": own["Name"].(string), "state": own["State"].(string), "architecture": own["Architecture"].(string)}
		if wants(in.Owners, "self") && wants(in.ImageIds, own["ImageId"].(string)) && f.passes(c, in.filters, rowTags(own), fields) {
			all = append(all, own)
		}
	}
	if len(all) == 0 && len(in.ImageIds) > 0 {
		return refused("InvalidAMIID.NotFound", "The image id '%v' does not exist", in.ImageIds)
	}
	return fakecloud.Reply(200, row{"Images": all})
}

// wants reports whether a list of wanted names is empty or has a name.
func wants(wanted []string, name string) bool {
	return len(wanted) == 0 || slices.Contains(wanted, name)
}

func (f *fake) describeVPCs(c *fakecloud.Call) fakecloud.Answer {
	var in filters
	c.Decode(&in)
	if f.noVPC || !f.passes(c, in, nil, map[string]string{"is-default": "true"}) {
		return fakecloud.Reply(200, row{"Vpcs": []row{}})
	}
	return fakecloud.Reply(200, row{"Vpcs": []row{{"VpcId": testVPC, "IsDefault": true}}})
}

func (f *fake) describeSubnets(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		SubnetIds []string
	}
	c.Decode(&in)
	all := []row{}
	for _, zone := range slices.Sorted(maps.Keys(testSubnets)) {
		id := testSubnets[zone]
		fields := map[string]string{"vpc-id": testVPC, "default-for-az": "true"}
		if (len(in.SubnetIds) == 0 || slices.Contains(in.SubnetIds, id)) && f.passes(c, in.filters, nil, fields) {
			all = append(all, row{"SubnetId": id, "AvailabilityZone": zone, "VpcId": testVPC})
		}
	}
	if len(all) == 0 && len(in.SubnetIds) > 0 {
		return refused("InvalidSubnetID.NotFound", "The subnet ID '%v' does not exist", in.SubnetIds)
	}
	return fakecloud.Reply(200, row{"Subnets": all})
}

package slurm

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestAccelerators(t *testing.T) {
	c := Config{GPUNames: map[string]string{"rome": "A100-80GB", "partition:old": "V100"}}
	for _, tt := range []struct {
		partition, kind string
		features        []string
		want            accelerators.Accelerator
		known           bool
	}{
		{"gpu", "a100", nil, accelerators.Accelerator{Name: "A100"}, true},
		{"gpu", "nvidia_a100_80gb_pcie", nil, must(t, "A100-80GB-PCIe"), true},
		{"gpu", "nvidia_h100_80gb_hbm3", nil, must(t, "NVIDIA H100 80GB HBM3"), true},
		{"gpu", "tesla_v100", nil, must(t, "V100"), true},
		{"gpu", "mi300x", nil, must(t, "MI300X"), true},
		{"gpu", "rome", nil, must(t, "A100-80GB"), true},
		{"gpu", "1g.10gb", nil, accelerators.Exact("1g.10gb"), true},
		{"old", "", []string{"a100"}, must(t, "V100"), true},
		{"gpu", "", []string{"ib", "a100", "epyc"}, must(t, "A100"), true},
		{"gpu", "", []string{"ib", "epyc", "cpu"}, accelerators.Accelerator{}, false},
	} {
		got, known := c.accelerator(tt.partition, tt.kind, tt.features)
		tt.want.Count = 0
		got.Count = 0
		if got != tt.want || known != tt.known {
			t.Errorf("%s %q %q: %+v, %v; want %+v", tt.partition, tt.kind, tt.features, got, known, tt.want)
		}
	}
}

func must(t *testing.T, name string) accelerators.Accelerator {
	t.Helper()
	a, err := accelerators.Parse(name)
	if err != nil {
		t.Error(err)
	}
	return a
}

func TestPrices(t *testing.T) {
	paid := Config{HourlyUSD: map[string]float64{"gpu": 1.5, "cpu": 0.02}}
	for _, tt := range []struct {
		c          Config
		partition  string
		gpus, cpus int
		want       driver.Price
	}{
		{Config{}, "gpu", 2, 8, driver.USD(0)},
		{paid, "gpu", 2, 8, driver.USD(3)},
		{paid, "gpu", 0, 8, driver.USD(0.16)},
		{paid, "gpu", 0, 0, driver.USD(0.02)},
		{paid, "other", 1, 8, driver.Price{}},
	} {
		if got := tt.c.price(tt.partition, tt.gpus, tt.cpus); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// Types of GRES that are parts of a device, by MIG, are shares: nobody who asks for a whole one gets them.
func TestPartsOfDevices(t *testing.T) {
	d := &controller{}
	for kind, wanted := range map[string]string{"a100_3g.20gb": "A100-20GB:0.25", "nvidia_h100_80gb_hbm3_1g.10gb": "H100-10GB:0.125"} {
		share, err := accelerators.Parse(wanted)
		if err != nil {
			t.Fatal(err)
		}
		g := group{partition: "gpu", kind: kind, nodes: []siteNode{{}}, most: 4}
		o, ok := d.offerFor(g, partition{}, 1, driver.Query{Accelerator: share})
		whole := accelerators.Accelerator{Name: share.Name}
		if !ok || !share.Matches(o.Accelerator) || whole.Matches(o.Accelerator) || o.InstanceType != "gpu:"+kind+":1" {
			t.Errorf("%s: %+v, %v", kind, o, ok)
		}
		if o, ok := d.offerFor(g, partition{}, 2, driver.Query{Accelerator: whole}); ok {
			t.Errorf("two of %s: %+v", kind, o)
		}
	}
}

// A node whose GPUs the cluster does not name is examined.
func TestProbed(t *testing.T) {
	want := driver.Query{Accelerator: accelerators.A100(accelerators.Count(2))}
	has, err := probed(want, "NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-SXM4-40GB, 40960\n")
	if err != nil || has.Count != 2 {
		t.Errorf("%v, %v", has, err)
	}
	for _, printed := range []string{"", "No devices were found\n", "Tesla T4, 15360\n", "NVIDIA A100-SXM4-40GB, 40960\n",
		"NVIDIA A100-PCIE-40GB, 40960\nQuadro P400, 2000\n", "NVIDIA GeForce GT 710, 2048\nNVIDIA GeForce GT 710, 2048\n",
		"NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-SXM4-40GB, [GPU requires reset]\n", "NVIDIA A100-SXM4-40GB, 40960\n[GPU is lost], [GPU is lost]\n"} {
		if has, err := probed(want, printed); !errors.Is(err, driver.ErrNoOffers) {
			t.Errorf("%q: %v, %v", printed, has, err)
		}
	}
	if _, err := probed(want, "NVIDIA A100-PCIE-40GB, 40960\nQuadro P400, 2000\n"); err == nil || !strings.Contains(err.Error(), `A100-40GB-PCIe and "Quadro P400"`) {
		t.Errorf("what was found is not told: %v", err)
	}
	for _, printed := range []string{
		"WARNING: infoROM is corrupted at gpu 0000:B3:00.0\nQuadro P400, 2000\nNVIDIA A100-PCIE-40GB, 40960\nNVIDIA A100-PCIE-40GB, 40950\n",
	} {
		if has, err := probed(want, printed); err != nil || has.Name != "A100" || has.Count != 2 || has.MemoryGiB*1024 != 40950 {
			t.Errorf("%q: %v, %v", printed, has, err)
		}
	}
	d := &slurmDriver{}
	in := driver.Instance{Offer: driver.Offer{InstanceType: "gpu:2", Warnings: []string{untypedWarning}}}
	if s := d.Scripts(in); s.Probe == "" || s.Probed == nil {
		t.Error("GPUs without a type are not examined")
	}
	in.Offer.InstanceType = "gpu:a100:2"
	if s := d.Scripts(in); s.Probe != "" || s.Probed != nil {
		t.Error("GPUs with a type are examined")
	}
}

package verda

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// lines returns offers in a short form.
func lines(all []driver.Offer) (out []string) {
	for _, o := range all {
		out = append(out, fmt.Sprintf("%s %v %v", o.ID, o.Accelerator, o.HourlyUSD))
	}
	return out
}

// The preferred region comes first, a location may be listed twice, and spot has a call of its
// own. Prices are text, for the complete machine.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, tt := range []struct {
		spec gputrain.Spec
		want []string
	}{
		{gputrain.Spec{}, []string{
			"FIN-01/1H100.80S.30V/on-demand H100-80GB-SXM $3.17", "FIN-01/CPU.4V.16G/on-demand cpu $0.10",
			"FIN-03/1H100.80S.30V/on-demand H100-80GB-SXM $3.17", "FIN-03/8H100.80S.176V/on-demand H100-80GB-SXM:8 $25.36", "FIN-03/CPU.4V.16G/on-demand cpu $0.10",
		}},
		{gputrain.Spec{Allocation: driver.Spot}, []string{"FIN-01/1H100.80S.30V/spot H100-80GB-SXM $0.95"}},
		{gputrain.Spec{Allocation: driver.SpotIfAvailable, Regions: []string{"fin-01"}}, []string{
			"FIN-01/1H100.80S.30V/spot H100-80GB-SXM $0.95", "FIN-01/1H100.80S.30V/on-demand H100-80GB-SXM $3.17", "FIN-01/CPU.4V.16G/on-demand cpu $0.10",
		}},
		{gputrain.Spec{Regions: []string{"ICE"}}, nil},
	} {
		if got := lines(cloudtest.Offers(t, d, tt.spec.Query())); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %s\nwant %s", tt.spec, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	cfg := f.config()
	cfg.Region = "fin-03"
	if got := cloudtest.Offers(t, cloudtest.Open(t, cfg), driver.Query{}); got[0].Region != "FIN-03" || got[len(got)-1].Region != "FIN-01" {
		t.Errorf("%v", lines(got))
	}
}

// The API writes a price as text or as a number, and the memory of all GPUs or of one.
func TestHardware(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	grace, cc, amd, unknown := typeRow("GB300", "", 1, "9", "3"), typeRow("8B200.240V.CC", "8x B200 SXM6 180GB", 8, "9", "3"), typeRow("1x", "1x Radeon RX 7900XTX", 1, "9", "3"), typeRow("2FUTURE.10V", "2x Something New", 2, "9", "3")
	grace["price_per_hour"], grace["currency"], amd["manufacturer"] = 12.5, "USD", "AMD"
	euro := typeRow("1H200.141S.44V", "1x H200 SXM5 141GB", 1, "4", "2")
	euro["currency"] = "eur"
	f.types = []row{grace, cc, amd, unknown, euro}
	f.stock[false] = []row{{"location_code": "FIN-01", "availabilities": []string{"GB300", "8B200.240V.CC", "1x", "2FUTURE.10V", "1H200.141S.44V", "sold out"}}}
	d := cloudtest.Open(t, f.config())
	got := cloudtest.Offers(t, d, driver.Query{DiskGiB: 1})
	if want := []string{"FIN-01/GB300/on-demand GB300-80GB $12.50", `FIN-01/2FUTURE.10V/on-demand "2FUTURE.10V":2 $9.00`, "FIN-01/1H200.141S.44V/on-demand H200-141GB-SXM unknown"}; !slices.Equal(lines(got), want) {
		t.Errorf("%q; want %q", lines(got), want)
	}
	if got[0].Arch != "arm64" || got[1].Arch != "amd64" || got[0].BillingUnit != billingUnit || got[0].VCPUs != 30 || got[0].MemoryGiB != 120 || got[0].DiskGiB < 46 {
		t.Errorf("%+v", got[0])
	}
	byName := cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.Exact("8B200.240V.CC")})
	if !slices.ContainsFunc(byName, func(o driver.Offer) bool { return o.InstanceType == "8B200.240V.CC" && o.Accelerator.Exact }) {
		t.Errorf("what is named is hidden: %v", lines(byName))
	}
}

// Only the API knows the regions.
func TestRegionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Region = "ICL-01"
	for _, err := range cloudtest.Open(t, cfg).Offers(t.Context(), driver.Query{}) {
		cloudtest.Is(t, err, driver.ErrInvalid, "verda", "offers")
		if !strings.Contains(err.Error(), "FIN-01, FIN-03") {
			t.Errorf("%v", err)
		}
	}
}

// The image fits the GPU: the newest CUDA on Ubuntu 24.04, in every spelling of its name.
func TestImages(t *testing.T) {
	t.Parallel()
	all := []image{
		{Type: "ubuntu-22.04-cuda-13.1"}, {Type: "24.04.base", IsDefault: true}, {Type: "24.04.cuda12.9.docker"}, {ID: "an-id", Name: "Ubuntu 24.04 + CUDA 13.0 Open"},
		{Type: "ubuntu-24.04-cuda-13.2-cluster", IsCluster: true}, {Type: "ubuntu-24.04-cuda-13.3", Details: []string{"Jupyter"}},
	}
	if got, want := ranked(all, true, ""), []string{"an-id", "24.04.cuda12.9.docker", "24.04.base", "ubuntu-22.04-cuda-13.1"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	if got := ranked(all, false, "12.9"); got[0] != "24.04.base" {
		t.Errorf("%q for a machine without GPU", got)
	}
	if got := ranked(all, true, "12.9"); !slices.Equal(got, []string{"24.04.cuda12.9.docker"}) {
		t.Errorf("%q with CUDA 12.9", got)
	}
	if got := ranked(all, true, "12"); len(got) > 0 {
		t.Errorf("%q with CUDA 12", got)
	}
}

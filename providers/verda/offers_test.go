package verda

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// lines returns offers in a short form.
func lines(all []driver.Offer) (out []string) {
	for _, o := range all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %v %v %s", o.ID, o.Accelerator, o.HourlyUSD, o.Rejected)))
	}
	return out
}

// The preferred region comes first, a location may be listed twice, and spot has a call of its
// own. Prices are text, for the complete machine, to which its volume comes. What is sold out is
// last.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, tt := range []struct {
		spec gputrain.Spec
		want []string
	}{
		{gputrain.Spec{}, []string{
			"FIN-01/1H100.80S.30V/on-demand H100-80GB-SXM $3.20", "FIN-01/CPU.4V.16G/on-demand cpu $0.13",
			"FIN-03/1H100.80S.30V/on-demand H100-80GB-SXM $3.20", "FIN-03/8H100.80S.176V/on-demand H100-80GB-SXM:8 $25.39", "FIN-03/CPU.4V.16G/on-demand cpu $0.13",
			"FIN-01/8H100.80S.176V/on-demand H100-80GB-SXM:8 $25.39 is sold out",
		}},
		{gputrain.Spec{Allocation: driver.Spot, Accelerator: accelerators.H100()}, []string{
			"FIN-01/1H100.80S.30V/spot H100-80GB-SXM $0.98", "FIN-03/1H100.80S.30V/spot H100-80GB-SXM $0.98 is sold out",
		}},
		{gputrain.Spec{Allocation: driver.SpotIfAvailable, Regions: []string{"fin-01"}, Accelerator: accelerators.H100()}, []string{
			"FIN-01/1H100.80S.30V/spot H100-80GB-SXM $0.98", "FIN-01/1H100.80S.30V/on-demand H100-80GB-SXM $3.20", "FIN-01/CPU.4V.16G/on-demand cpu $0.13",
		}},
		{gputrain.Spec{Regions: []string{"ICE"}}, nil},
		{gputrain.Spec{Countries: []string{"IS"}}, nil},
		{gputrain.Spec{Regions: []string{"fi"}, Countries: []string{"FI"}, Accelerator: accelerators.H100(accelerators.Count(8))}, []string{
			"FIN-01/1H100.80S.30V/on-demand H100-80GB-SXM $3.20", "FIN-01/CPU.4V.16G/on-demand cpu $0.13",
			"FIN-03/1H100.80S.30V/on-demand H100-80GB-SXM $3.20", "FIN-03/8H100.80S.176V/on-demand H100-80GB-SXM:8 $25.39", "FIN-03/CPU.4V.16G/on-demand cpu $0.13",
			"FIN-01/8H100.80S.176V/on-demand H100-80GB-SXM:8 $25.39 is sold out",
		}},
	} {
		if got := lines(cloudtest.AllOffers(t, d, tt.spec.Query())); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %s\nwant %s", tt.spec, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	cfg := f.config()
	cfg.Region = "fin-03"
	if got := cloudtest.AllOffers(t, cloudtest.Open(t, cfg), driver.Query{}); got[0].Region != "FIN-03" || got[len(got)-1].Region != "FIN-01" || got[0].Country != "FI" {
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
	got := cloudtest.AllOffers(t, d, driver.Query{DiskGiB: 1, Regions: []string{"FIN-01"}})
	want := []string{
		"FIN-01/GB300/on-demand GB300-80GB $12.51", `FIN-01/2FUTURE.10V/on-demand "2FUTURE.10V":2 $9.01`, "FIN-01/1H200.141S.44V/on-demand H200-141GB-SXM $4.41",
		`FIN-01/8B200.240V.CC/on-demand B200-180GB-SXM:8 $9.01 is for confidential computing; accelerators.Exact("8B200.240V.CC") asks for it`,
		`FIN-01/1x/on-demand RX7900XTX-80GB $9.01 has a GPU of AMD, for which there is no image; accelerators.Exact("1x") asks for it`,
	}
	if !slices.Equal(lines(got), want) {
		t.Errorf("%q; want %q", lines(got), want)
	}
	if got[0].Arch != "arm64" || got[1].Arch != "amd64" || got[0].BillingUnit != billingUnit || got[0].VCPUs != 30 || got[0].MemoryGiB != 120 || got[0].DiskGiB < 46 {
		t.Errorf("%+v", got[0])
	}
	byName := cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.Exact("8B200.240V.CC")})
	if !slices.ContainsFunc(byName, func(o driver.Offer) bool { return o.InstanceType == "8B200.240V.CC" && o.Accelerator.Exact }) {
		t.Errorf("what is named is hidden: %v", lines(byName))
	}
}

// A price without that of the volume, or in another currency, says so. One whose currency has no
// known value is unknown.
func TestPrices(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(f *fake)
		price  string
		parts  int
		says   []string
	}{
		"in dollars":           {func(*fake) {}, "$3.23", 2, nil},
		"in euros":             {func(f *fake) { f.types[0]["currency"] = "eur" }, "$3.55", 2, []string{"its price is in EUR"}},
		"in crowns":            {func(f *fake) { f.types[0]["currency"] = "sek" }, "unknown", 0, []string{"value of SEK"}},
		"without the volume's": {func(f *fake) { f.disks = f.disks[:1] }, "$3.17", 0, []string{"without its system volume of 215 GB"}},
		"with a warning":       {func(f *fake) { f.types[0]["deploy_warning"] = "slow today" }, "$3.23", 2, []string{"Verda says: slow today"}},
	} {
		f := startFake(t)
		tt.change(f)
		o := cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.H100(), DiskGiB: 200})[0]
		if o.HourlyUSD.String() != tt.price || len(o.Parts) != tt.parts || len(o.Warnings) != len(tt.says) {
			t.Errorf("%s: %v of %+v, with %q", name, o.HourlyUSD, o.Parts, o.Warnings)
		}
		for i, says := range tt.says {
			if !strings.Contains(o.Warnings[i], says) {
				t.Errorf("%s: %q", name, o.Warnings)
			}
		}
	}
}

// The balance may be in another currency.
func TestBalance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config()).(driver.Balancer)
	for code, want := range map[string]float64{"usd": 42.5, "EUR": 46.75, "": 42.5} {
		f.Do(func() { f.currency = code })
		if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || !b.Known || b.LeastUSD != 0 || math.Abs(b.USD-want) > 1e-9 {
			t.Errorf("%s: %+v, %v", code, b, err)
		}
	}
	f.Do(func() { f.currency = "sek" })
	_, err := d.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrInvalid, "verda", "balance")
}

// A machine has ten tags: two are the user's, and those of a lease still fit.
func TestUserTags(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	for _, tags := range []map[string]string{{"a": "1", "b": "2", "c": "3"}, {"a=b": "1"}, {"": "1"}, {strings.Repeat("k", 64): "1"}, {"a": strings.Repeat("v", 128)}} {
		info := cloudtest.Info("p1")
		info.Tags = tags
		cloudtest.Is(t, d.Prepare(t.Context(), info), driver.ErrInvalid, "verda", "prepare")
		req := cloudtest.Request(t, driver.Query{}, cloudtest.AllOffers(t, d, driver.Query{})[0], 0)
		req.Pool.Tags = tags
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, "verda", "launch")
	}
	if n := len(f.Records(opCreate)); n > 0 {
		t.Errorf("%d machines were made", n)
	}
	req := cloudtest.Request(t, driver.Query{}, cloudtest.AllOffers(t, d, driver.Query{})[0], 0)
	req.Pool.Tags, req.Pool.Expires = map[string]string{"team": "vision", "cost-center": ""}, time.Now().Add(time.Hour)
	req.Nodes[0].HostKey = driver.HostKey{} // as in a pool, where the first contact decides
	got, err := d.Launch(t.Context(), req)
	in := cloudtest.One(t, got, err)
	for i := range 3 {
		if err := d.(driver.LeaseMarker).MarkLease(t.Context(), req.Pool, time.Now().Add(time.Duration(i)*time.Hour), in.ID); err != nil {
			t.Error(err)
		}
	}
	if has := f.userTags(in.ID); len(has) != 2 || has["team"] != "vision" {
		t.Errorf("%v", has)
	}
	if body := f.Records(opCreate)[0].Body; strings.Count(body, `{"key":"team","value":"vision"}`) != 2 { // of the volume, too
		t.Errorf("%s", body)
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

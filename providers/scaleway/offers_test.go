package scaleway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Prices are in euros, and are compared in dollars.
func TestEuros(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for rate, want := range map[float64]string{0: "$0.87", 1.2: "$0.94"} {
		cfg := f.config()
		cfg.USDPerEUR = rate
		o := offer(t, cloudtest.AllOffers(t, cloudtest.Open(t, cfg), l4.Query()), "L4-1-24G")
		if o.HourlyUSD.String() != want || o.BillingUnit != time.Minute {
			t.Errorf("at %v it is %v by %v", rate, o.HourlyUSD, o.BillingUnit)
		}
		if said := strings.Join(o.Warnings, "; "); !strings.Contains(said, "EUR, at $"+fmt.Sprint(max(rate, 1.1))) || !strings.Contains(said, "volume of 100 GB") {
			t.Errorf("at %v it warns %q", rate, said)
		}
	}
}

// All types are billed by the minute, except the oldest with a GPU.
func TestBillingUnits(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.products["RENDER-S"] = gpuProduct(1.221, 10, 42, "P100", 1, 16)
	f.labels["ubuntu_noble"] = append(f.labels["ubuntu_noble"], "RENDER-S")
	all := cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), driver.Query{})
	for kind, want := range map[string]time.Duration{"L4-2-24G": time.Minute, "RENDER-S": time.Hour, "DEV1-S": time.Minute} {
		if got := offer(t, all, kind).BillingUnit; got != want {
			t.Errorf("%s is billed by %v, want %v", kind, got, want)
		}
	}
}

func offer(t *testing.T, all []driver.Offer, kind string) driver.Offer {
	t.Helper()
	i := slices.IndexFunc(all, func(o driver.Offer) bool { return o.InstanceType == kind })
	if i < 0 {
		t.Fatalf("%s is not among %+v", kind, all)
	}
	return all[i]
}

// Products come in pages. A type that is out of stock, or at its end, or that no image fits, is
// offered with the reason why it cannot be launched.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.shortage = "H100-1-80G"
	f.products["B300-SXM-8-288G"] = gpuProduct(60, 224, 3840, "B300-SXM", 8, 288)
	d := cloudtest.Open(t, f.config())
	var got []string
	for _, o := range cloudtest.AllOffers(t, d, driver.Query{}) {
		if o.Country != "FR" {
			t.Errorf("%s in %s is in %q", o.InstanceType, o.Region, o.Country)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %v %s", o.InstanceType, o.Accelerator, o.Arch, o.VCPUs, o.MemoryGiB, o.Rejected)))
	}
	slices.Sort(got)
	const noImage = "is of a type for which its zone has no image ubuntu_noble_gpu_os_13_nvidia, ubuntu_noble_gpu_os_12, ubuntu_jammy_gpu_os_12, ubuntu_noble, ubuntu_jammy, ubuntu_resolute"
	want := []string{
		"B300-SXM-8-288G B300-288GB-SXM:8 amd64 224 3840 " + noImage, "COPARM1-2C8G cpu arm64 2 8", "DEV1-S cpu amd64 2 2",
		`GPU-3070-S RTX3070-8GB amd64 8 16 is of a type at its end of service`, "H100-1-80G H100-80GB-PCIe amd64 24 240 is sold out",
		"L4-1-24G L4-24GB amd64 8 48", "L4-2-24G L4-24GB:2 amd64 16 96",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, o := range cloudtest.AllOffers(t, d, l4.Query()) {
		if o.Accelerator.IsZero() {
			t.Errorf("%+v has no GPU", o)
		}
	}
	spot := l4
	spot.Allocation = driver.Spot
	if all := cloudtest.AllOffers(t, d, spot.Query()); len(all) > 0 {
		t.Errorf("%+v: there is no spot", all)
	}
}

// Images differ between zones. Without Config.Zone all zones are asked. A zone that the API
// does not know, or that has no GPU, has no offers.
func TestZones(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.stocked = []string{"fr-par-1", "fr-par-2", "nl-ams-1"}
	f.Inject(fakecloud.Fault{Op: opProducts, Times: 1, Answer: failure(404, "not_found", "zone not found", nil)}) // the first, fr-par-2
	cfg := f.config()
	cfg.Zone = ""
	d := cloudtest.Open(t, cfg)
	places, images := map[string]bool{}, map[string]bool{}
	for _, o := range cloudtest.AllOffers(t, d, l4.Query()) {
		p, err := readPlace(o.ID)
		if err != nil || p.zone != o.Region {
			t.Errorf("%+v: %v", o, err)
		}
		places[p.zone], images[p.image] = true, true
	}
	if len(places) != 2 || !places["fr-par-1"] || !places["nl-ams-1"] || len(images) != 2 {
		t.Errorf("offers in %v, of images %v", places, images)
	}
	dutch := l4
	dutch.Regions = []string{"nl-ams"}
	in := cloudtest.MustLaunch(t, d, dutch.Query(), 0)
	if !strings.HasPrefix(in.ID, "nl-ams-1/") {
		t.Errorf("it is %s", in.ID)
	}
	if list, err := d.List(t.Context(), ""); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	f.Inject(fakecloud.Fault{Op: opServers, Answer: fakecloud.Reply(404, "page not found")})
	if list, err := d.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a 404 that is not the API's is %+v, %v", list, err)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
}

// The user's image is in the create call: an ID unchanged, a label as the zone's ID.
func TestImages(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for given, want := range map[string]string{
		"":             imageID(testZone, "ubuntu_noble_gpu_os_13_nvidia"),
		"ubuntu_noble": imageID(testZone, "ubuntu_noble"),
		testImage:      testImage,
	} {
		cfg := f.config()
		cfg.Image = given
		p, err := readPlace(offer(t, cloudtest.AllOffers(t, cloudtest.Open(t, cfg), l4.Query()), "L4-1-24G").ID)
		if err != nil || p.image != want {
			t.Errorf("%q is %q, %v", given, p.image, err)
		}
	}
	cfg := f.config()
	cfg.Image = "ubuntu_jammy" // not for a type with GPUs
	for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, cfg), l4.Query()) {
		if !strings.Contains(o.Rejected, "no image ubuntu_jammy") && !strings.Contains(o.Rejected, "end of service") {
			t.Errorf("%+v", o)
		}
	}
}

// Without Config.Zone the zone of an image is looked up, once, among the project's images and the
// public ones. Machines of other zones cannot start from it.
func TestZoneOfAnImage(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.stocked = []string{"fr-par-2", "fr-par-1", "nl-ams-1"}
	f.ownImages = map[string]string{testImage: "nl-ams-1"}
	for id, zone := range map[string]string{testImage: "nl-ams-1", imageID("fr-par-1", "ubuntu_noble"): "fr-par-1", newID(1, 1): ""} {
		cfg := f.config()
		cfg.Zone, cfg.Image = "", id
		d, looks := cloudtest.Open(t, cfg), 0
		for range 2 { // no call for images finds out more the second time
			for _, o := range cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.H100()}) {
				if o.InstanceType != "H100-1-80G" {
					continue
				}
				p, err := readPlace(o.ID)
				if o.Region == zone && (err != nil || p.image != id || o.Rejected != "") || o.Region != zone && o.Rejected != "is in another zone than Config.Image" {
					t.Errorf("%s: %+v, %v", id, o, err)
				}
			}
			if n := len(f.Records(opZoneImages)); zone != "" && looks > 0 && n != looks {
				t.Errorf("%s is looked up again, by %d calls", id, n-looks)
			} else {
				looks = n
			}
		}
	}
}

// The countries and regions of a spec are those of zones.
func TestCountries(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.stocked = []string{"fr-par-2", "pl-waw-2", "nl-ams-1"}
	cfg := f.config()
	cfg.Zone = ""
	d := cloudtest.Open(t, cfg)
	for _, tt := range []struct {
		spec gputrain.Spec
		want string
	}{
		{gputrain.Spec{Countries: []string{"pl"}}, "PL"}, {gputrain.Spec{Regions: []string{"NL"}}, "NL"}, {gputrain.Spec{Regions: []string{"fr-par"}}, "FR"},
	} {
		all := cloudtest.AllOffers(t, d, tt.spec.Query())
		for _, o := range all {
			if o.Country != tt.want {
				t.Errorf("%+v: %s in %s", tt.spec, o.Country, o.Region)
			}
		}
		if len(all) == 0 {
			t.Errorf("%+v has no offers", tt.spec)
		}
	}
	if got := countryOf("de-fra-1") + countryOf(""); got != "" {
		t.Errorf("an unknown zone is in %q", got)
	}
	for _, zone := range zones {
		if countryOf(zone) == "" {
			t.Errorf("%s is in no country", zone)
		}
	}
}

// A list with fewer items than its total is an error.
func TestListThatBreaksOff(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for name, answer := range map[string]fakecloud.Answer{
		"without its list": fakecloud.Reply(200, row{}),
		"cut":              fakecloud.Reply(200, row{"servers": []row{}}).With("X-Total-Count", "3"),
		"without an ID":    fakecloud.Reply(200, row{"servers": []row{{"name": "gputrain-p1-0"}}}),
	} {
		f.Inject(fakecloud.Fault{Op: opServers, Answer: answer})
		if list, err := d.List(t.Context(), "p1"); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// A full page without a total is not the last one.
func TestListWithoutItsLength(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	full := []row{}
	for n := range perPage {
		full = append(full, row{"id": newID(0xf1, n), "tags": []string{}})
	}
	f.Inject(fakecloud.Fault{Op: opVolumes, Answer: fakecloud.Undescribed(200, row{"volumes": full})})
	if list, err := d.List(t.Context(), "p1"); err != nil || len(list) != 2 || list[0].ID != in.ID {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAcceleratorOfProducts(t *testing.T) {
	one, eight := 1, 8
	for _, tt := range []struct {
		kind string
		p    product
		want string
	}{
		{"L4-1-24G", product{GPU: &one, GPUInfo: &gpuInfo{"L4", 24 << 30}}, `"L4-1-24G"-24GB`},
		{"H100-1-80G", product{GPU: &one, GPUInfo: &gpuInfo{"H100-PCIe", 80 << 30}}, "H100-80GB-PCIe"},
		{"H100-SXM-8-80G", product{GPU: &eight, GPUInfo: &gpuInfo{"H100-SXM", 80 << 30}}, "H100-80GB-SXM:8"},
		{"RENDER-S", product{GPU: &one, GPUInfo: &gpuInfo{"P100", 16 << 30}}, "P100-16GB-PCIe"},
		{"GP1-XS", product{}, "cpu"},
		{"NEW-1", product{GPU: &one}, `"NEW-1"`},
	} {
		if got := accelerator(tt.kind, tt.p, accelerators.Exact("L4-1-24G")); got.String() != tt.want {
			t.Errorf("%s is %v, want %s", tt.kind, got, tt.want)
		}
	}
}

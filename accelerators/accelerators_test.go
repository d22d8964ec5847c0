package accelerators

import (
	"math"
	"strings"
	"testing"
)

func mustParse(t *testing.T, s string) Accelerator {
	t.Helper()
	a, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		want, offer string
		ok          bool
	}{
		{"cpu", "cpu", true},
		{"cpu", "A100:8", true},
		{"A100", "cpu", false},
		{"A100", "A100", true},
		{"A100", "H100", false},
		{"L40", "L40S", false},
		{"A100:4", "A100:8", false},
		{"A100:4", "A100:4", true},
		{"A100:4+", "A100:8", true},
		{"A100:4+", "A100:2", false},
		{"A100:2-4", "A100:4", true},
		{"A100:2-4", "A100:3", true},
		{"A100:2-4", "A100:8", false},
		{"A100:2-4", "A100", false},
		{"A100:4", "A100:2", false},
		{"L4:0.5", "L4", true},
		{"L4", "L4:0.5", false},
		{"L4:0.25", "L4:0.5", true},
		{"L4:0.25", "L4:0.125", false},
		{"L4:0.25", "L4:2", false},
		{"any", "A100", true},
		{"any-48GB:2+", "any-48GB:2+", true}, // of a provider that promises it
		{"any-48GB:2+", "any-48GB:2-4", false},
		{"any", "cpu", false},
		{"any", "A100:2", false},
		{"any:2+", "A100:8", true},
		{"any-48GB", "L40S", true},
		{"any-48GB", "L40S-44.7GB", true},
		{"any-48GB", "L4", false},
		{"any-48GB", "A100", false}, // the smallest A100 has 40 GB
		{"any-48GB", `"acme"-80GB`, true},
		{"any-48GB", `"acme"`, false},
		{"any-..24GB", "L4", true},
		{"any-..24GB", "L4-22.5GB", true},
		{"any-..40GB", "A100", false}, // the largest has 80
		{"any-..40GB", "A100-40GB", true},
		{"any-16..24GB", "T4", true},
		{"any-16..24GB", "L40S", false},
		{"any-..24GB", `"acme"`, false},
		{"A100-..40GB", "A100-80GB", false},
		{"any-160GBtotal:1+", "A100-80GB:2", true},
		{"any-160GBtotal:1+", "A100-80GB", false},
		{"any-160GBtotal:1+", "B300", true},
		{"any-..160GBtotal:1+", "B300", false},
		{"any-..160GBtotal:1+", "L4:4", true},
		{"any-24GBtotal:0.5", "L4:0.5", false}, // half of 24
		{"any-cc8.9", "L4", true},
		{"any-cc8.9", "B200", true}, // 10.0
		{"any-cc8.9", "A100", false},
		{"any-cc8.0..8.9", "H100", false},
		{"any-cc..8.0", "A100", true},
		{"any-cc3.0", "MI300X", false}, // CUDA does not run on it
		{"any-cc3.0", `"acme"`, false},
		{"any-AMD", "MI300X", true},
		{"any-AMD", "H100", false},
		{"any-AMD", `"acme"`, false},
		{"any-SXM:8", "H100-SXM:8", true},
		{"any-SXM:8", "H100-PCIe:8", false},
		{"A100-80GB", "A100-79.2GB", true},
		{"A100-80GB", "A100-40GB", false},
		{"A100-40GB", "A100-80GB", true}, // a minimum
		{"A100-80GB", "A100", false},     // it may have 40 GB
		{"A100-40GB", "A100", true},
		{"A10G-24GB", "A10G-22.35GB", true}, // what AWS reports
		{"L40S-48GB", "L40S-44.7GB", true},
		{"B300-288GB", "B300-268GB", true},
		{"H100-SXM:1+", "H100-SXM:8", true},
		{"H100-SXM", "H100-PCIe", false},
		{"H100-SXM", "H100", false}, // the offer's form is unknown
		{"H100-NVL-94GB", "H100-NVL", true},
		{"L4-PCIe", "L4", true}, // it has no other form
		{"RTX4090", "RTX4090D", false},
		{`"acme":2+`, `"acme":4`, true},
		{`"acme":2`, `"acme":4`, false},
		{`"acme"`, `"Acme"`, false},
		{`"A100"`, "A100", true},
		{`"acme"-80GB`, `"acme"`, false},
	} {
		if got := mustParse(t, tt.want).Matches(mustParse(t, tt.offer)); got != tt.ok {
			t.Errorf("%s matches an offer of %s: %v, want %v", tt.want, tt.offer, got, tt.ok)
		}
	}
}

// An alias of the catalogue's name matches.
func TestMatchesAliases(t *testing.T) {
	if !(A6000(Form("pcie"))).Matches(Accelerator{Name: "RTX A6000", FormFactor: "PCI-E"}) {
		t.Error("an A6000 is no RTX A6000")
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		a    Accelerator
		says string
	}{
		{Accelerator{}, ""},
		{A100(), ""},
		{Accelerator{Name: "A100"}, ""},
		{A100(Count(4), Memory(80), Form("sxm4")), ""},
		{A100(Memory(60)), ""}, // a minimum
		{Exact("anything", Count(0.25), Memory(1000), Form("odd")), ""},
		{Accelerator{Exact: true, Count: 1}, "no name"},
		{Any(), ""},
		{Accelerator{MemoryGiB: 48}, ""},
		{Any(AtLeast(2), MemoryBetween(40, 80), TotalMemory(160), Vendor("nvidia"), CapabilityBetween(8, 9), Form(SXM)), ""},
		{A100(Vendor("NVIDIA"), Capability(8), CountBetween(2, 4)), ""},
		{A100(Vendor("AMD")), "A100 is made by NVIDIA, not AMD"},
		{A100(Capability(8.9)), "the compute capability of A100 is 8.0, not 8.9"},
		{MI300X(CapabilityBetween(8, 9)), "the compute capability of MI300X is none, not 8.0..9.0"},
		{Any(Vendor("ATI")), `no vendor is called "ATI"; there are NVIDIA, AMD, Intel, AWS, Google`},
		{Any(Form("round")), `no form factor is called "round"`},
		{Exact("odd", Vendor("AMD")), "not known"},
		{A100(CountBetween(4, 2)), "the largest count, 2, is less than the smallest, 4"},
		{A100(CountBetween(1, 2.5)), "not a number of devices"},
		{A100(CountBetween(1, -2)), "not a number of devices"},
		{A100(CountBetween(1, math.NaN())), "not a number of devices"},
		{Any(MemoryBetween(80, 40)), "the largest memory, 40, is less than the smallest, 80"},
		{Any(TotalMemoryBetween(80, 40)), "the largest total memory"},
		{Any(Capability(math.Inf(1))), "compute capability +Inf is not an amount"},
		{A100(Count(-1)), "number of devices"},
		{A100(Count(math.NaN())), "number of devices"},
		{A100(Count(math.Inf(1))), "number of devices"},
		{A100(Count(2.5)), "neither whole"},
		{A100(Memory(-1)), "not an amount"},
		{A100(Memory(math.NaN())), "not an amount"},
		{A100(Memory(200)), "at most 80"},
		{T4(Form(SXM)), "does not come as SXM"},
		{T4(Form("round")), "does not come as round"},
		{Accelerator{Name: "A1000"}, "did you mean"},
	} {
		err := tt.a.Validate()
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%+v: %v", tt.a, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%+v: %v, want %q", tt.a, err, tt.says)
		}
	}
	err := A100(Count(-1), Memory(-1)).Validate()
	if err == nil || !strings.Contains(err.Error(), "count") || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v, want both faults", err)
	}
}

func TestString(t *testing.T) {
	for want, a := range map[string]Accelerator{
		"cpu":             {},
		"A100":            A100(),
		"A100-80GB-SXM:4": A100(Count(4), Memory(80), Form(SXM)),
		"L4:0.5":          L4(Count(0.5)),
		"T4":              {Name: "T4"},
		`"odd \"id\"":2`:  Exact(`odd "id"`, Count(2)),
		"RTX6000Ada:8":    RTX6000Ada(Count(8)),
		"any":             Any(),
		"any-48GB":        {MemoryGiB: 48},
		"A100:2-4":        A100(CountBetween(2, 4)),
		"A100:1+":         A100().OrMore(),
		"any-NVIDIA-40..80GB-160GBtotal-cc8.0..9.0-SXM:2+": Any(AtLeast(2), MemoryBetween(40, 80), TotalMemory(160), Vendor("NVIDIA"), CapabilityBetween(8, 9), Form(SXM)),
		"any-..80GB-..160GBtotal-cc8.9":                    Any(MemoryBetween(0, 80), TotalMemoryBetween(0, 160), Capability(8.9)),
		`"MI300X-VF"-192GB`:                                Exact("MI300X-VF", Memory(192)),
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v prints %s, want %s", a, got, want)
		}
	}
}

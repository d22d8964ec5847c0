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
		{"A100:4", "A100:8", true},
		{"A100:4", "A100:2", false},
		{"L4:0.5", "L4", true},
		{"L4", "L4:0.5", false},
		{"A100-80GB", "A100-79.2GB", true},
		{"A100-80GB", "A100-40GB", false},
		{"A100-40GB", "A100-80GB", true}, // a minimum
		{"A100-80GB", "A100", false},     // it may have 40 GB
		{"A100-40GB", "A100", true},
		{"A10G-24GB", "A10G-22.35GB", true}, // what AWS reports
		{"L40S-48GB", "L40S-44.7GB", true},
		{"B300-288GB", "B300-268GB", true},
		{"H100-SXM", "H100-SXM:8", true},
		{"H100-SXM", "H100-PCIe", false},
		{"H100-SXM", "H100", false}, // the offer's form is unknown
		{"H100-NVL-94GB", "H100-NVL", true},
		{"L4-PCIe", "L4", true}, // it has no other form
		{"RTX4090", "RTX4090D", false},
		{`"acme":2`, `"acme":4`, true},
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
		{Accelerator{Count: 1}, "no name"},
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
		"cpu":               {},
		"A100":              A100(),
		"A100-80GB-SXM:4":   A100(Count(4), Memory(80), Form(SXM)),
		"L4:0.5":            L4(Count(0.5)),
		"T4":                {Name: "T4"},
		`"odd \"id\"":2`:    Exact(`odd "id"`, Count(2)),
		"RTX6000Ada:8":      RTX6000Ada(Count(8)),
		`"MI300X-VF"-192GB`: Exact("MI300X-VF", Memory(192)),
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v prints %s, want %s", a, got, want)
		}
	}
}

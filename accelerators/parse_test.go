package accelerators

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Accelerator{
		// As users write it.
		"cpu":               {},
		" None ":            {},
		"A100":              {Name: "A100", Count: 1},
		"A100:4":            {Name: "A100", Count: 4},
		"a100-80gb:4":       {Name: "A100", Count: 4, MemoryGiB: 80},
		"A100 80GB : 4":     {Name: "A100", Count: 4, MemoryGiB: 80},
		"A100_80G":          {Name: "A100", Count: 1, MemoryGiB: 80},
		"A10080GB":          {Name: "A100", Count: 1, MemoryGiB: 80},
		"A100-79.2GiB":      {Name: "A100", Count: 1, MemoryGiB: 79.2},
		"H100-SXM:8":        {Name: "H100", Count: 8, FormFactor: SXM},
		"h100sxm5:8":        {Name: "H100", Count: 8, FormFactor: SXM},
		"H100 NVL":          {Name: "H100", Count: 1, FormFactor: NVL},
		"8x H100":           {Name: "H100", Count: 8},
		"8xH100":            {Name: "H100", Count: 8},
		"8 × H100-SXM":      {Name: "H100", Count: 8, FormFactor: SXM},
		"H100 x8":           {Name: "H100", Count: 8},
		"RTX4090:1":         {Name: "RTX4090", Count: 1},
		"rtx 4090":          {Name: "RTX4090", Count: 1},
		"2x4090":            {Name: "RTX4090", Count: 2},
		"7900XTX":           {Name: "RX7900XTX", Count: 1},
		"L4:0.5":            {Name: "L4", Count: 0.5},
		"RTX 6000 Ada":      {Name: "RTX6000Ada", Count: 1},
		"RTX A6000":         {Name: "A6000", Count: 1},
		"trainium2:16":      {Name: "Trainium2", Count: 16},
		"TPU v5e:4":         {Name: "TPUv5e", Count: 4},
		`"acme gpu: x":2`:   {Name: "acme gpu: x", Count: 2, Exact: true},
		`"acme"-80GB-SXM:2`: {Name: "acme", Count: 2, MemoryGiB: 80, FormFactor: SXM, Exact: true},

		// As clouds and drivers do.
		"NVIDIA A100-SXM4-80GB":                                   {Name: "A100", Count: 1, MemoryGiB: 80, FormFactor: SXM},
		"NVIDIA A100 80GB PCIe":                                   {Name: "A100", Count: 1, MemoryGiB: 80, FormFactor: PCIe},
		"nvidia-tesla-a100":                                       {Name: "A100", Count: 1},
		"nvidia-h100-mega-80gb":                                   {Name: "H100", Count: 1, MemoryGiB: 80},
		"NVIDIA H100 80GB HBM3":                                   {Name: "H100", Count: 1, MemoryGiB: 80, FormFactor: SXM},
		"h100-sxm5-80gb":                                          {Name: "H100", Count: 1, MemoryGiB: 80, FormFactor: SXM},
		"H100-80G-PCIe-NVLink":                                    {Name: "H100", Count: 1, MemoryGiB: 80, FormFactor: PCIe},
		"NVIDIA_HGX_B200":                                         {Name: "B200", Count: 1, FormFactor: SXM},
		"NVIDIA B300 SXM6 AC":                                     {Name: "B300", Count: 1, FormFactor: SXM},
		"NVIDIA GH200 480GB":                                      {Name: "GH200", Count: 1},
		"Tesla V100-FHHL-16GB":                                    {Name: "V100", Count: 1, MemoryGiB: 16, FormFactor: PCIe},
		"teslav100-pcie-16gb":                                     {Name: "V100", Count: 1, MemoryGiB: 16, FormFactor: PCIe},
		"geforcertx4090-pcie-24gb":                                {Name: "RTX4090", Count: 1, MemoryGiB: 24, FormFactor: PCIe},
		"NVIDIA GeForce RTX 4080 SUPER":                           {Name: "RTX4080Super", Count: 1},
		"NVIDIA RTX 4000 SFF Ada Generation":                      {Name: "RTX4000SFFAda", Count: 1},
		"NVIDIA RTX PRO 6000 Blackwell Server Edition":            {Name: "RTXPRO6000", Count: 1},
		"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": {Name: "RTXPRO6000MaxQ", Count: 1},
		"RTX PRO 6000 Max-Q":                                      {Name: "RTXPRO6000MaxQ", Count: 1},
		"Q RTX 8000":                                              {Name: "QuadroRTX8000", Count: 1},
		"quadrortx8000-pcie-48gb":                                 {Name: "QuadroRTX8000", Count: 1, MemoryGiB: 48, FormFactor: PCIe},
		"AMD Instinct MI300X OAM":                                 {Name: "MI300X", Count: 1, FormFactor: OAM},
		"InstinctMI210":                                           {Name: "MI210", Count: 1},
	} {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, says := range map[string]string{
		"":                "cpu",
		"-":               "cpu",
		":4":              "cpu",
		"A101":            "did you mean A100",
		"H1000":           "did you mean H100",
		"RTX 4900":        "RTX4090",
		"Gaudi9":          "Gaudi2",
		"RTX 4090 laptop": "no accelerator",
		"zzzzzzzz":        "accelerators.Exact",
		"A100:0":          "number above 0",
		"A100:-1":         "number above 0",
		"A100:NaN":        "number above 0",
		"A100:Inf":        "number above 0",
		"A100:x":          "number above 0",
		"A100:":           "number above 0",
		"RTX 4090: D":     "number above 0",
		"A100:1_0":        "number above 0",
		"A100:+4":         "number above 0",
		"A100:1e3":        "number above 0",
		"A100:1.5":        "neither whole nor a share",
		"A100:four":       "number above 0",
		"2x A100:4":       "two counts",
		"A100-160GB":      "at most 80 GiB",
		"H100-PCIe-94GB":  "at most 80 GiB",
		"L4-SXM":          "does not come as SXM",
		"A100-SXM-PCIe":   "no accelerator",
		"A100-80GB:0.5":   "A100:0.5 has at most 40 GiB",
		"2x A16-2Q":       "more than one share",
		"A16-99Q":         "no accelerator",
		"A16-0Q":          "no accelerator",
		"A101-2Q":         "no accelerator",
		"A101 MIG 1g.5gb": "no accelerator",
		"A100-40GB-80GB":  "no accelerator",
		`"acme`:           "quote",
		`""`:              "cpu",
		`"acme" whatever`: "neither memory nor",
	} {
		if a, err := Parse(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%q) = %+v, %v; want an error with %q", in, a, err, says)
		}
	}
}

// A parsed text is valid, and its own text parses to the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"cpu", "A100:4", "A100-80GB:4", "H100-SXM:8", "8x H100", "RTX4090:1", "L4:0.125", `"a:b"-80GB-SXM:2`, `"\x00\xff"`,
		"NVIDIA A100-SXM4-80GB", "A10080GB", "2x7900XTX", ":", "x", "1x", `"`, "A100-0.5GB", "A100:1e3", "é:1", "A100-1e400GB", "A100:1e400",
		"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "A40-16Q", "A100DX-1-10C", "A16-2GB:0.125", "A40-16GB:0.3333333333333333", "MIG MIG 1g.1gb", "A16-1-2Q:1",
		"NVIDIA_HGX_H100", "8x Tesla V100 (16 GB)", "Q RTX 8000", "geforcertx4090-pcie-24gb", "vcg-a16-2c-8g-2vram", "1H100.80S.30V",
		"any", "ANY-NVIDIA-40..80GB-..160GBtotal-cc8.0..9.0-SXM:2+", "A100:2-4", "A100:2-", "A100:-4", "any-..GB", "any-0..2GB", "A100-NVIDIA-cc8.9", "L4:0.5-2", "any-AMD-cc9",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := Parse(s)
		if err != nil {
			return
		}
		if err := a.Validate(); err != nil {
			t.Errorf("Parse(%q) = %+v, which is not valid: %v", s, a, err)
		}
		again, err := Parse(a.String())
		if err != nil || again != a {
			t.Errorf("Parse(%q) = %+v, but Parse(%q) = %+v, %v", s, a, a.String(), again, err)
		}
		if !a.Matches(a) {
			t.Errorf("%+v does not match itself", a)
		}
	})
}

// No two models of the catalogue have the same spelling, and every name parses.
func TestCatalogue(t *testing.T) {
	owner := map[string]string{}
	for m := range Models() {
		for _, s := range append([]string{m.Name}, m.Aliases...) {
			if other, ok := owner[normal(s)]; ok {
				t.Errorf("%s is %s and %s", s, other, m.Name)
			}
			owner[normal(s)] = m.Name
			if a, err := Parse(s); err != nil || a.Name != m.Name {
				t.Errorf("Parse(%q) = %+v, %v", s, a, err)
			}
		}
		if len(m.Variants) == 0 || (m.Vendor == "NVIDIA") != (m.ComputeCapability != "") {
			t.Errorf("odd entry %+v", m)
		}
		for _, v := range m.Variants {
			a := Accelerator{Name: m.Name, Count: 1, MemoryGiB: v.MemoryGiB, FormFactor: v.FormFactor}
			if got, err := Parse(a.String()); err != nil || got != a {
				t.Errorf("Parse(%q) = %+v, %v", a.String(), got, err)
			}
		}
	}
}

func TestModelsAreCopies(t *testing.T) {
	for m := range Models() {
		m.Variants[0].MemoryGiB = -1
		break
	}
	if catalogue[0].Variants[0].MemoryGiB < 0 {
		t.Error("a caller can change the catalogue")
	}
}

func TestNearest(t *testing.T) {
	if got := nearest("RTX490"); !slices.Contains(got, "RTX4090") {
		t.Errorf("nearest to RTX490: %v", got)
	}
	if got := nearest("completely else"); len(got) != 0 {
		t.Errorf("nearest to another name: %v", got)
	}
}

package accelerators

import "testing"

// Shares have their own names. MIG's are from NVIDIA's user guide.
func TestParseShares(t *testing.T) {
	for in, want := range map[string]string{
		// Partitions: their sizes are eighths of the device's memory.
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":          "A100-5GB-SXM:0.125",
		"NVIDIA A100-SXM4-80GB MIG 1g.10gb+me":      "A100-10GB-SXM:0.125",
		"NVIDIA A100-SXM4-80GB MIG 1g.20gb":         "A100-20GB-SXM:0.25",
		"NVIDIA A100-SXM4-80GB MIG 3g.40gb":         "A100-40GB-SXM:0.5",
		"NVIDIA A100-SXM4-80GB MIG 7g.80gb":         "A100-80GB-SXM",
		"NVIDIA A100-SXM4-40GB MIG 2c.7g.40gb":      "A100-40GB-SXM",
		"NVIDIA H100 80GB HBM3 MIG 1g.10gb":         "H100-10GB-SXM:0.125",
		"NVIDIA H100 PCIe MIG 2g.20gb":              "H100-20GB-PCIe:0.25",
		"NVIDIA H100 NVL MIG 1g.12gb":               "H100-12GB-NVL:0.125",
		"NVIDIA H200 MIG 1g.18gb":                   "H200-18GB:0.125",
		"NVIDIA B200 MIG 1g.23gb":                   "B200-23GB:0.125",
		"NVIDIA B300 SXM6 AC MIG 1g.34gb":           "B300-34GB-SXM:0.125",
		"NVIDIA B300 SXM6 AC MIG 7g.269gb":          "B300-269GB-SXM",
		"NVIDIA A30 MIG 2g.12gb":                    "A30-12GB:0.5",
		"h100-80gb-mig-1g.10gb":                     "H100-10GB:0.125",
		"1x NVIDIA RTX PRO 6000 MIG 1g.24gb":        "RTXPRO6000-24GB:0.25",
		"NVIDIA RTX PRO 6000 Blackwell MIG 4g.96gb": "RTXPRO6000-96GB",

		// As Slurm's AutoDetect names them.
		"a100_3g.20gb":                  "A100-20GB:0.25",
		"nvidia_h100_80gb_hbm3_1g.10gb": "H100-10GB-SXM:0.125",
		"nvidia_a100_1g.5gb":            "A100-5GB:0.125",

		// Virtual GPUs.
		"NVIDIA A16-2Q":           "A16-2GB:0.125",
		"NVIDIA A16-16Q":          "A16-16GB",
		"NVIDIA L4-3Q":            "L4-3GB:0.125",
		"NVIDIA A40-16Q":          "A40-16GB:0.3333333333333333",
		"NVIDIA L40S-48C":         "L40S-48GB",
		"GRID T4-4C":              "T4-4GB:0.25",
		"GRID RTX6000-8Q":         "QuadroRTX6000-8GB:0.3333333333333333",
		"NVIDIA RTX6000-Ada-12Q":  "RTX6000Ada-12GB:0.25",
		"GRID V100DX-8C":          "V100-8GB-SXM:0.25",
		"GRID A100-10C":           "A100-10GB-PCIe:0.25",
		"GRID A100D-40C":          "A100-40GB-PCIe:0.5",
		"GRID A100X-40C":          "A100-40GB-SXM",
		"GRID A100DX-80C":         "A100-80GB-SXM",
		"GRID A100DX-1-10C":       "A100-10GB-SXM:0.125",
		"NVIDIA H100XM-80C":       "H100-80GB-SXM",
		"NVIDIA H100L-94C":        "H100-94GB-NVL",
		"NVIDIA H200X-1-18C":      "H200-18GB-SXM:0.125",
		"NVIDIA H200-141C":        "H200-141GB-NVL",
		"A100X":                   "A100X", // the card, which is no virtual GPU
		"NVIDIA A100-SXM4-80GB":   "A100-80GB-SXM",
		"L4:0.125":                "L4:0.125",
		"L4-2.794GB:0.125":        "L4-2.794GB:0.125", // what AWS reports of a g6f.large
		"A40-16GB:0.333333333333": "A40-16GB:0.333333333333",
	} {
		if a, err := Parse(in); err != nil || a.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", in, a, err, want)
		}
	}
}

func TestMatchesShares(t *testing.T) {
	for _, tt := range []struct {
		want, offer string
		ok          bool
	}{
		{"L4:0.125", "L4-2.794GB:0.125", true},
		{"L4-3GB:0.125", "L4-2.794GB:0.125", true},
		{"L4:0.25", "L4-2.794GB:0.125", false},
		{"L4-3GB:0.125", "L4:0.125", true}, // an eighth of 24
		{"L4-6GB:0.25", "L4:0.25", true},
		{"L4-24GB", "L4-24GB:1", true},
		{"A100-40GB", "A100-40GB:0.5", false}, // half of a device with 80 GB is not a whole device
		{"A100-40GB:0.5", "A100-40GB", true},
		{"A40:0.33", "A40-16Q", true},
		{"A100:0.5", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", true},
		{"A100:0.5", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", false},
	} {
		if got := mustParse(t, tt.want).Matches(mustParse(t, tt.offer)); got != tt.ok {
			t.Errorf("%s matches an offer of %s: %v, want %v", tt.want, tt.offer, got, tt.ok)
		}
	}
}

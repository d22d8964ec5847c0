package accelerators

import (
	"strings"
	"testing"
)

// The name and the memory.total of nvidia-smi satisfy the right request, and no
// other.
func TestReported(t *testing.T) {
	for _, tt := range []struct {
		name       string
		mib        float64
		want       string
		satisfies  string
		butNotThis string
	}{
		{"NVIDIA A100-SXM4-80GB", 81920, "A100-80GB-SXM", "A100-80GB-SXM", "A100-PCIe"},
		{"NVIDIA A100-SXM4-40GB", 40960, "A100-40GB-SXM", "A100-40GB", "A100-80GB"},
		{"A100-SXM4-40GB", 40536, "A100-39.5859375GB-SXM", "A100-40GB", "A100-80GB"},
		{"NVIDIA A100 80GB PCIe", 81920, "A100-80GB-PCIe", "A100-80GB-PCIe", "A100-SXM"},
		{"NVIDIA A100-PCIE-40GB", 40960, "A100-40GB-PCIe", "A100-40GB", "A100-80GB"},
		{"NVIDIA H100 80GB HBM3", 81559, "H100-79.6474609375GB-SXM", "H100-80GB-SXM", "H100-NVL"},
		{"NVIDIA H100 PCIe", 81559, "H100-79.6474609375GB-PCIe", "H100-80GB-PCIe", "H100-SXM"},
		{"NVIDIA H100 NVL", 95830, "H100-93.583984375GB-NVL", "H100-94GB-NVL", "H100-SXM"},
		{"NVIDIA H200", 143771, "H200-140.4013671875GB-SXM", "H200-141GB-SXM", "H200-NVL"},
		{"NVIDIA H200 NVL", 143771, "H200-140.4013671875GB-NVL", "H200-NVL", "H200-SXM"},
		{"NVIDIA GH200 480GB", 97871, "GH200-95.5771484375GB", "GH200-96GB", "GH200-144GB"},
		{"NVIDIA GH200 144G HBM3e", 0, "GH200-144GB", "GH200-144GB", "H200"},
		{"NVIDIA B200", 183359, "B200-179.0615234375GB", "B200-180GB-SXM", "GB200"},
		{"NVIDIA B300 SXM6 AC", 275040, "B300-268.59375GB-SXM", "B300-288GB", "B200"},
		{"NVIDIA GB200", 189471, "GB200-185.0302734375GB", "GB200", "B200"},
		{"NVIDIA L4", 23034, "L4-22.494140625GB", "L4-24GB", "L40"},
		{"NVIDIA L40S", 46068, "L40S-44.98828125GB", "L40S-48GB", "L40"},
		{"NVIDIA A10G", 22731, "A10G-22.1982421875GB", "A10G-24GB", "A10"},
		{"NVIDIA A40", 45634, "A40-44.564453125GB", "A40-48GB", "A16"},
		{"NVIDIA A40 (graphics mode)", 49140, "A40-47.98828125GB", "A40-48GB", "A16"},
		{"NVIDIA GB10", 0, "GB10", "GB10", "GB200"},
		{"NVIDIA L20", 46068, "L20-44.98828125GB", "L20-48GB", "L2"},
		{"NVIDIA L2", 23034, "L2-22.494140625GB", "L2-24GB", "L20"},
		{"Tesla M10", 8192, "M10-8GB", "M10-8GB", "M40"},
		{"NVIDIA H20-3e", 143771, "H20-140.4013671875GB", "H20-141GB", "H200"},
		{"Tesla V100-DGXS-32GB", 32505, "V100-31.7431640625GB", "V100-32GB", "V100S"},
		{"Tesla T4", 15360, "T4-15GB", "T4-16GB", "T4G"},
		{"Tesla T4", 15109, "T4-14.7548828125GB", "T4-16GB", "T4:2"}, // drivers before 510
		{"Tesla V100-SXM2-16GB", 16384, "V100-16GB-SXM", "V100-16GB-SXM", "V100-32GB"},
		{"Tesla V100-SXM3-32GB", 32768, "V100-32GB-SXM", "V100-32GB", "V100-PCIe"},
		{"Tesla P100-PCIE-16GB", 16280, "P100-15.8984375GB-PCIe", "P100-16GB", "P100-SXM"},
		{"Tesla M40 24GB", 22945, "M40-22.4072265625GB", "M40-24GB", "M60"},
		{"NVIDIA RTX A6000", 49140, "A6000-47.98828125GB", "A6000-48GB", "RTX6000Ada"},
		{"NVIDIA RTX A6000", 45634, "A6000-44.564453125GB", "A6000-48GB", "A5000"}, // with ECC
		{"NVIDIA RTX 6000 Ada Generation", 49140, "RTX6000Ada-47.98828125GB", "RTX6000Ada", "RTX 6000"},
		{"Quadro RTX 6000", 24220, "QuadroRTX6000-23.65234375GB", "RTX 6000", "RTX6000Ada"},
		{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "RTXPRO6000-95.5927734375GB", "RTXPRO6000-96GB", "RTXPRO6000MaxQ"},
		{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, "RTXPRO6000MaxQ-95.5927734375GB", "RTXPRO6000MaxQ", "RTXPRO6000"},
		{"NVIDIA RTX PRO 4500 Blackwell", 32623, "RTXPRO4500-31.8583984375GB", "RTXPRO4500-32GB", "RTX4500Ada"},
		{"NVIDIA GeForce RTX 4090", 24564, "RTX4090-23.98828125GB", "RTX4090-24GB", "RTX4090D"},
		{"NVIDIA GeForce RTX 4090 D", 24564, "RTX4090D-23.98828125GB", "RTX4090D", "RTX4090"},
		{"NVIDIA GeForce RTX 3080 Ti", 12288, "RTX3080Ti-12GB", "RTX3080Ti", "RTX3080"},
		{"NVIDIA GeForce RTX 4070 Ti SUPER", 16376, "RTX4070TiSuper-15.9921875GB", "RTX4070TiSuper-16GB", "RTX4070Ti"},
		{"NVIDIA GeForce GTX 1660 SUPER", 6144, "GTX1660Super-6GB", "GTX1660Super", "GTX1660"},
		{"NVIDIA TITAN Xp", 12288, "TitanXp-12GB", "TitanXp", "TitanV"},
		{"AMD Instinct MI300X OAM", 196592, "MI300X-191.984375GB-OAM", "MI300X-192GB", "MI325X"},

		// Shares: an eighth satisfies a request for an eighth, but not for a
		// whole device.
		{"NVIDIA A16-2Q", 2048, "A16-2GB:0.125", "A16:0.125", "A16"},
		{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9984, "H100-9.75GB-SXM:0.125", "H100-10GB:0.125", "H100"},
		{"NVIDIA H200 MIG 1g.18gb", 16384, "H200-16GB-SXM:0.125", "H200-SXM:0.125", "H200"},

		// More memory than in the catalogue is accepted.
		{"NVIDIA GeForce RTX 4090", 49140, "RTX4090-47.98828125GB", "RTX4090-24GB", "RTX5090"},

		// lspci.
		{"01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)", 0, "H100-80GB-SXM", "H100-SXM", "H100-PCIe"},
		{"NVIDIA Corporation TU104GL [Tesla T4]", 0, "T4", "T4", "L4"},
	} {
		a, err := Reported(tt.name, tt.mib)
		if err != nil || a.String() != tt.want {
			t.Errorf("%q with %v MiB is %v, %v; want %s", tt.name, tt.mib, a, err, tt.want)
			continue
		}
		if !mustParse(t, tt.satisfies).Matches(a) {
			t.Errorf("%q with %v MiB is %v, and not a %s", tt.name, tt.mib, a, tt.satisfies)
		}
		if mustParse(t, tt.butNotThis).Matches(a) {
			t.Errorf("%q with %v MiB is %v, and passes for a %s", tt.name, tt.mib, a, tt.butNotThis)
		}
	}
}

func TestReportedRefuses(t *testing.T) {
	for _, name := range []string{"", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA Z9000", "llvmpipe", "[]"} {
		if a, err := Reported(name, 24564); err == nil || !strings.Contains(err.Error(), "accelerator") {
			t.Errorf("%q is %v, %v", name, a, err)
		}
	}
}

package accelerators

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ParseFrom reads a name as one cloud writes it: that of a device, or of a
// machine whose name has its devices in it.
//
//	ParseFrom("jarvislabs", "A100")             // A100-40GB: they call the other A100-80GB
//	ParseFrom("lambda", "gpu_8x_h100_sxm5")     // H100-SXM:8
//	ParseFrom("vultr", "vcg-a16-2c-8g-2vram")   // A16-2GB:0.125
//
// A cloud is named like its package under providers. Names that mean the same
// everywhere are parsed as by [Parse], and so are all names of other clouds.
func ParseFrom(cloud, s string) (Accelerator, error) {
	text := strings.TrimSpace(s)
	if len(text) > longest {
		return Accelerator{}, fmt.Errorf("accelerator %q of %s: %w", s, cloud, errLong)
	}
	for _, r := range dialects[cloud] {
		m := r.fits.FindStringSubmatch(text)
		switch {
		case m == nil:
		case r.refuse != "":
			return Accelerator{}, fmt.Errorf("accelerator %q of %s: %s", s, cloud, r.refuse)
		case r.compute != nil:
			text = r.compute(m)
		default:
			text = r.fits.ReplaceAllString(text, r.means)
		}
	}
	a, err := parse(text)
	if err != nil {
		return Accelerator{}, fmt.Errorf("accelerator %q of %s: %w", s, cloud, err)
	}
	return a, nil
}

// A rule rewrites a name that a cloud writes in its own way. All matching rules
// of a cloud are applied, in order, and the result is for [Parse].
type rule struct {
	fits    *regexp.Regexp
	means   string                // what to write instead, as Regexp.Expand takes it
	compute func([]string) string // the same, if text alone cannot say it
	refuse  string                // or why no device is meant
}

func say(fits, means string) rule { return rule{fits: regexp.MustCompile("(?i)" + fits), means: means} }
func not(fits, why string) rule   { return rule{fits: regexp.MustCompile("(?i)" + fits), refuse: why} }

// dialects has the rules by cloud. If a cloud's name omits the form factor and
// the cloud has only one form, a rule adds it.
var dialects = map[string][]rule{
	"aws": {
		not(`^[a-z]+\d+[a-z0-9-]*\.[a-z0-9-]+$`, "an instance type does not name its devices; DescribeInstanceTypes does, in GpuInfo and NeuronInfo"),
		not(`^vu9p$`, "an FPGA is no accelerator of this package"),
		say(`^(V100|A100|H100|H200)$`, "$1-SXM"),
	},
	"gcp": {
		not(`[-_]vws$`, "it is licensed for graphics; the same device is there without"),
		not(`^ct\d`, "a TPU is a node of the TPU API, and no machine's accelerator"),
		not(`^[a-z]\d+[a-z]*-[a-z]+-\d+g?$`, "a machine type does not name its devices; its list of accelerators does"),
		say(`^nvidia-tesla-p100$`, "P100-16GB-PCIe"),
		say(`^nvidia-tesla-v100$`, "V100-16GB-SXM"),
		say(`^nvidia-tesla-a100$`, "A100-40GB-SXM"),
		say(`^nvidia-(a100-80gb|h[12]00-.+)$`, "$1-SXM"),
	},
	"hyperstack": {
		say(`-spot$`, ""),
		say(`^n\d+-(.+?)x(\d+)(?:-NVLink|-K8s|-v\d+)*$`, "$1:$2"),
		say(`^([AH]100)(:\d+)$`, "$1-80GB-PCIe$2"),
		say(`^([AH]100-SXM\d)(:\d+)$`, "$1-80GB$2"),
	},
	"jarvislabs": {
		say(`^A100$`, "A100-40GB"),
		say(`^(H100|H200)$`, "$1-SXM"),
	},
	"lambda": {
		say(`^(?:cpu_.+|N/A)$`, "cpu"),
		say(`^gpu_(\d+)x_(.+?)(?:gdr|_n)?$`, "$2:$1"),
		say(`^(a100)(_sxm4)?(:\d+)$`, "$1-40GB$2$3"),
		say(`^(v100)(:\d+)$`, "$1-16GB$2"),
	},
	"massedcompute": {
		say(`\s*\[[^\]]*\]`, ""), // "[Spot]"
		say(`^cpu_.+$`, "cpu"),
		say(`^gpu_(\d+)x_(.+?)(?:_low_ram|_high_ram|_nvlink|_spot|_discount)*$`, "$2:$1"),
		say(`^(a100_sxm4|dgx_a100)(:\d+)$`, "$1-80GB$2"),
		say(`^pro_6000_blackwell\b`, "RTX_PRO_6000"),
		say(`^6000_ada\b`, "RTX_6000_Ada"),
	},
	"novita": {
		not(`^\S+\.\d+c\d+g(?:\.\S+)?$`, "a product's id is opaque; its name identifies the device"),
	},
	"runpod": slices.Concat(driver, []rule{
		not(`^NVIDIA A5000 Ada$`, "no card has this name, which may mean the A5000 or the RTX 5000 Ada"),
		not(`^(?:AMPERE|ADA|HOPPER|BLACKWELL)_`, "a pool of serverless workers has several devices"),
	}),
	"scaleway": {
		say(`^RENDER-S$`, "P100-16GB-PCIe"),
		say(`^H100-(\d+)-80G$`, "H100-80GB-PCIe:$1"),
		say(`^(.+)-(\d+)-(\d+G)$`, "$1-$3:$2"),
	},
	"tensordock": {
		say(`lhr(-|$)`, "$1"), // slow at mining, and the same otherwise
	},
	"vastai": {
		not(`\blaptop$`, "a laptop's GPU is another chip of the same name, with less memory"),
		say(`^H200$`, "H200-SXM"),
	},
	"verda": {
		say(`^CPU\..+$`, "cpu"),
		say(`\.\d+V(?:\.CC)?$`, ""),
		say(`^(\d\d?)([A-Z]\S*)$`, "$2:$1"),
		say(`\.(\d+)S(:\d+)$`, "-${1}GB-SXM$2"),
		say(`^(A100)(:\d+)$`, "$1-80GB-SXM$2"),
		say(`^(V100)(:\d+)$`, "$1-16GB$2"),
	},
	"vultr": {
		say(`^vbm-64c-2048gb-8-l40-gpu$`, "L40S:8"),
		say(`^vbm-.+-(\d+)-([a-z0-9]+)-gpu$`, "$2:$1"),
		say(`^vbm-.+-([a-z0-9]+)-gpu$`, "$1"),
		say(`^a100(:\d+)$`, "A100-80GB$1"),
		say(`^vcg-mi325x-252c-2872g-1536vram$`, "MI325X-192GB:8"), // of 256 it would be 6, and is sold as 8
		{fits: regexp.MustCompile(`(?i)^vcg-([a-z0-9]+)-\d+c-\d+gb?-(\d+)vram$`), compute: vultrPlan},
	},
}

// vultrPlan parses a plan's name, which has the memory of all its devices. If
// the plan is a share, that is less than one device has.
func vultrPlan(m []string) string {
	model, ok := Lookup(m[1])
	total, err := strconv.ParseFloat(m[2], 64)
	if !ok || err != nil {
		return m[0]
	}
	one := model.most(SXM)
	if one == 0 {
		one = model.most("")
	}
	if total < one {
		return fmt.Sprintf("%s-%sGB:%s", model.Name, decimal(total), decimal(total/one))
	}
	devices := float64(int(total / one))
	return fmt.Sprintf("%s-%sGB:%s", model.Name, decimal(total/devices), decimal(devices))
}

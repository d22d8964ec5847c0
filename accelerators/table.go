package accelerators

import "slices"

// The catalogue: what the clouds' lists name. Memory is nominal, per device;
// GB200 and the like count one GPU as one device, and so do cards with several.
//
// Sources, beside the clouds' own lists of names, counts and memory:
//   - NVIDIA: "CUDA GPU Compute Capability" and the legacy list beside it; the
//     data sheets; "Supported GPUs" in the MIG user guide
//   - AMD: "AMD GPU specifications" in the ROCm documentation
//   - Intel: "Gaudi Architecture" in the Gaudi documentation
//   - AWS: the architecture guides of the Neuron documentation
//   - Google: the pages on each version in the Cloud TPU documentation
var catalogue = slices.Concat(dataCentre, workstation, geForce, otherVendors)

// on lists variants of one form factor.
func on(form string, gib ...float64) (out []Variant) {
	for _, g := range gib {
		out = append(out, Variant{form, g})
	}
	return out
}

func nvidia(name, capability string, variants []Variant, aliases ...string) Model {
	return Model{Name: name, Vendor: "NVIDIA", ComputeCapability: capability, Variants: variants, Aliases: aliases}
}

var dataCentre = []Model{
	nvidia("K520", "3.0", on(PCIe, 4)),
	nvidia("K80", "3.7", on(PCIe, 12)),
	nvidia("M10", "5.0", on(PCIe, 8)), // each of its four
	nvidia("M40", "5.2", on(PCIe, 24, 12)),
	nvidia("M60", "5.2", on(PCIe, 8)),
	nvidia("P4", "6.1", on(PCIe, 8)),
	nvidia("P40", "6.1", on(PCIe, 24)),
	nvidia("P100", "6.0", slices.Concat(on(PCIe, 12, 16), on(SXM, 16))),
	nvidia("V100", "7.0", slices.Concat(on(PCIe, 16, 32), on(SXM, 16, 32))),
	nvidia("V100S", "7.0", on(PCIe, 32)),
	nvidia("T4", "7.5", on(PCIe, 16)),
	nvidia("T4G", "7.5", on(PCIe, 16)),
	nvidia("A2", "8.6", on(PCIe, 16)),
	nvidia("A10", "8.6", on(PCIe, 24)),
	nvidia("A10G", "8.6", on(PCIe, 24)),
	nvidia("A16", "8.6", on(PCIe, 16)),
	nvidia("A30", "8.0", on(PCIe, 24), "RTXA30"), // so RunPod has it too
	nvidia("A40", "8.6", on(PCIe, 48)),
	nvidia("A100", "8.0", slices.Concat(on(PCIe, 40, 80), on(SXM, 40, 80))),
	nvidia("A100X", "8.0", on(PCIe, 80)),
	nvidia("A800", "8.0", slices.Concat(on(PCIe, 40, 80), on(SXM, 80))),
	nvidia("L2", "8.9", on(PCIe, 24)),
	nvidia("L4", "8.9", on(PCIe, 24)),
	nvidia("L20", "8.9", on(PCIe, 48)),
	nvidia("L40", "8.9", on(PCIe, 48)),
	nvidia("L40S", "8.9", on(PCIe, 48)),
	nvidia("H20", "9.0", on(SXM, 96, 141), "H20-3e"), // the latter has 141 GB
	nvidia("H100", "9.0", slices.Concat(on(PCIe, 80), on(SXM, 80), on(NVL, 94)), "H100 Mega"),
	nvidia("H200", "9.0", slices.Concat(on(SXM, 141), on(NVL, 141))),
	nvidia("H800", "9.0", slices.Concat(on(PCIe, 80), on(SXM, 80))),
	nvidia("GH200", "9.0", on("", 96, 144), "GH200 480GB", "GH200 SXM"), // 480 GB is the processor's memory
	nvidia("B200", "10.0", on(SXM, 180)),
	nvidia("B300", "10.3", on(SXM, 288)),
	nvidia("GB10", "12.1", on("", 128)), // the processor's memory
	nvidia("GB200", "10.0", on("", 186)),
	nvidia("GB300", "10.3", on("", 288)),
}

var workstation = []Model{
	nvidia("QuadroRTX4000", "7.5", on(PCIe, 8), "QRTX4000", "RTX4000"),
	nvidia("QuadroRTX5000", "7.5", on(PCIe, 16), "QRTX5000", "RTX5000"),
	nvidia("QuadroRTX6000", "7.5", on(PCIe, 24), "QRTX6000", "RTX6000"),
	nvidia("QuadroRTX8000", "7.5", on(PCIe, 48), "QRTX8000", "RTX8000"),
	nvidia("A2000", "8.6", on(PCIe, 6, 12), "RTXA2000"),
	nvidia("A4000", "8.6", on(PCIe, 16), "RTXA4000"),
	nvidia("A4500", "8.6", on(PCIe, 20), "RTXA4500"),
	nvidia("A5000", "8.6", on(PCIe, 24), "RTXA5000"),
	nvidia("A5500", "8.6", on(PCIe, 24), "RTXA5500"),
	nvidia("A6000", "8.6", on(PCIe, 48), "RTXA6000"),
	nvidia("RTX2000Ada", "8.9", on(PCIe, 16)),
	nvidia("RTX4000Ada", "8.9", on(PCIe, 20)),
	nvidia("RTX4000SFFAda", "8.9", on(PCIe, 20)),
	nvidia("RTX4500Ada", "8.9", on(PCIe, 24)),
	nvidia("RTX5000Ada", "8.9", on(PCIe, 32)),
	nvidia("RTX5880Ada", "8.9", on(PCIe, 48)),
	nvidia("RTX6000Ada", "8.9", on(PCIe, 48)),
	nvidia("RTXPRO4000", "12.0", on(PCIe, 24)),
	nvidia("RTXPRO4500", "12.0", on(PCIe, 32)),
	nvidia("RTXPRO5000", "12.0", on(PCIe, 48, 72)),
	nvidia("RTXPRO6000", "12.0", on(PCIe, 96), "RTXPRO6000S", "RTXPRO6000WS", "RTXPRO6000Server", "RTXPROServer6000", "RTXPRO6000Workstation"),
	nvidia("RTXPRO6000MaxQ", "12.0", on(PCIe, 96), "RTXPRO6000MaxQWorkstation"), // half the power of the other
	nvidia("TitanV", "7.0", on(PCIe, 12)),
	nvidia("TitanXp", "6.1", on(PCIe, 12)),
	nvidia("TitanRTX", "7.5", on(PCIe, 24)),
}

var geForce = []Model{
	nvidia("GTX1060", "6.1", on(PCIe, 3, 6)),
	nvidia("GTX1070", "6.1", on(PCIe, 8)),
	nvidia("GTX1070Ti", "6.1", on(PCIe, 8)),
	nvidia("GTX1080", "6.1", on(PCIe, 8)),
	nvidia("GTX1080Ti", "6.1", on(PCIe, 11), "1080Ti"),
	nvidia("GTX1650", "7.5", on(PCIe, 4)),
	nvidia("GTX1650Super", "7.5", on(PCIe, 4), "GTX1650S"),
	nvidia("GTX1660", "7.5", on(PCIe, 6)),
	nvidia("GTX1660Super", "7.5", on(PCIe, 6), "GTX1660S"),
	nvidia("GTX1660Ti", "7.5", on(PCIe, 6)),
	nvidia("RTX2060", "7.5", on(PCIe, 6, 12)),
	nvidia("RTX2060Super", "7.5", on(PCIe, 8), "RTX2060S"),
	nvidia("RTX2070", "7.5", on(PCIe, 8)),
	nvidia("RTX2070Super", "7.5", on(PCIe, 8), "RTX2070S"),
	nvidia("RTX2080", "7.5", on(PCIe, 8)),
	nvidia("RTX2080Super", "7.5", on(PCIe, 8), "RTX2080S"),
	nvidia("RTX2080Ti", "7.5", on(PCIe, 11), "2080Ti"),
	nvidia("RTX3050", "8.6", on(PCIe, 6, 8)),
	nvidia("RTX3060", "8.6", on(PCIe, 8, 12), "3060"),
	nvidia("RTX3060Ti", "8.6", on(PCIe, 8)),
	nvidia("RTX3070", "8.6", on(PCIe, 8), "3070"),
	nvidia("RTX3070Ti", "8.6", on(PCIe, 8)),
	nvidia("RTX3080", "8.6", on(PCIe, 10, 12), "3080"),
	nvidia("RTX3080Ti", "8.6", on(PCIe, 12), "3080Ti"),
	nvidia("RTX3090", "8.6", on(PCIe, 24), "3090"),
	nvidia("RTX3090Ti", "8.6", on(PCIe, 24), "3090Ti"),
	nvidia("RTX4060", "8.9", on(PCIe, 8), "4060"),
	nvidia("RTX4060Ti", "8.9", on(PCIe, 8, 16), "4060Ti"),
	nvidia("RTX4070", "8.9", on(PCIe, 12), "4070"),
	nvidia("RTX4070Super", "8.9", on(PCIe, 12), "RTX4070S"),
	nvidia("RTX4070Ti", "8.9", on(PCIe, 12), "4070Ti"),
	nvidia("RTX4070TiSuper", "8.9", on(PCIe, 16), "RTX4070STi", "RTX4070TiS"),
	nvidia("RTX4080", "8.9", on(PCIe, 16), "4080"),
	nvidia("RTX4080Super", "8.9", on(PCIe, 16), "RTX4080S"),
	nvidia("RTX4090", "8.9", on(PCIe, 24), "4090"),
	nvidia("RTX4090D", "8.9", on(PCIe, 24), "4090D"),
	nvidia("RTX5060", "12.0", on(PCIe, 8), "5060"),
	nvidia("RTX5060Ti", "12.0", on(PCIe, 8, 16), "5060Ti"),
	nvidia("RTX5070", "12.0", on(PCIe, 12), "5070"),
	nvidia("RTX5070Ti", "12.0", on(PCIe, 16), "5070Ti"),
	nvidia("RTX5080", "12.0", on(PCIe, 16), "5080"),
	nvidia("RTX5090", "12.0", on(PCIe, 32), "5090"),
	nvidia("RTX5090D", "12.0", on(PCIe, 32)),
}

func made(vendor, name string, variants []Variant, aliases ...string) Model {
	return Model{Name: name, Vendor: vendor, Variants: variants, Aliases: aliases}
}

var otherVendors = []Model{
	made("AMD", "MI50", on(PCIe, 16, 32)),
	made("AMD", "MI100", on(PCIe, 32)),
	made("AMD", "MI210", on(PCIe, 64)),
	made("AMD", "MI250", on(OAM, 128)),
	made("AMD", "MI250X", on(OAM, 128)),
	made("AMD", "MI300A", on("", 128)),
	made("AMD", "MI300X", on(OAM, 192)),
	made("AMD", "MI325X", on(OAM, 256)),
	made("AMD", "MI350X", on(OAM, 288)),
	made("AMD", "MI355X", on(OAM, 288)),
	made("AMD", "RX7900XTX", on(PCIe, 24), "7900XTX"),
	made("AMD", "V520", on(PCIe, 8), "RadeonProV520"),
	made("AMD", "W7900", on(PCIe, 48), "PROW7900", "RadeonPROW7900"),

	made("Intel", "Gaudi", on(OAM, 32), "Gaudi1", "HL205"),
	made("Intel", "Gaudi2", on(OAM, 96), "HL225"),
	made("Intel", "Gaudi3", slices.Concat(on(OAM, 128), on(PCIe, 128)), "HL325"),

	made("AWS", "Inferentia", on("", 8), "Inferentia1", "Inf1"),
	made("AWS", "Inferentia2", on("", 32), "Inf2"),
	made("AWS", "Trainium", on("", 32), "Trainium1", "Trn1"),
	made("AWS", "Trainium2", on("", 96), "Trn2"),

	made("Google", "TPUv2", on("", 16)),
	made("Google", "TPUv3", on("", 32)),
	made("Google", "TPUv4", on("", 32), "TPUPodsliceV4"),
	made("Google", "TPUv5e", on("", 16), "TPUv5lite", "v5litepod", "TPULitePodsliceV5", "TPULiteDeviceV5"),
	made("Google", "TPUv5p", on("", 95)),
	made("Google", "TPUv6e", on("", 32), "Trillium"),
}

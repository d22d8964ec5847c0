package vultr

import "maps"

// aPlan returns a plan that ewr and ord sell, with changed fields. A field that is changed to
// "-" is missing.
func aPlan(id string, changed row) row {
	p := row{
		"id": id, "vcpu_count": 16, "ram": 184320, "disk": 700, "disk_count": 2, "monthly_cost": 1122.912, "hourly_cost": 1.671,
		"hourly_cost_preemptible": 0, "type": "vcg", "locations": []string{"ewr", "ord"}, "location_cost": row{}, "deploy_ondemand": true,
		"gpu_type": "NVIDIA_L40S", "gpu_vram_gb": 48, "gpu_count": 1, "gpu_brand": "nvidia",
	}
	maps.Copy(p, changed)
	maps.DeleteFunc(p, func(_ string, v any) bool { return v == "-" })
	return p
}

func cloudPlans() []row {
	noGPU := row{"gpu_type": "-", "gpu_vram_gb": "-", "gpu_count": "-", "gpu_brand": "-"}
	bare := row{"gpu_type": "-", "gpu_vram_gb": "-", "gpu_count": "-", "type": "vdm", "disk_type": "DEDICATEDMETAL"}
	with := func(a, b row) row {
		c := maps.Clone(a)
		maps.Copy(c, b)
		return c
	}
	return []row{
		aPlan("vcg-l40s-16c-180g-48vram", row{"location_cost": row{"ord": row{"hourly_cost": 1.9, "monthly_cost": 1276.8}}}),
		aPlan("vcg-a16-2c-8g-2vram", row{"gpu_type": "NVIDIA_A16", "gpu_vram_gb": 2, "hourly_cost": 0.059, "ram": 8192, "vcpu_count": 2}),
		aPlan("vcg-a16-96c-960g-256vram", row{"gpu_type": "NVIDIA_A16", "gpu_vram_gb": 256, "gpu_count": 16, "hourly_cost": "-", "monthly_cost": 6720.0}),
		aPlan("vcg-h100-216c-1914gb-640vram", with(bare, row{"hourly_cost": 24.0})),
		aPlan("vcg-mi325x-252c-2872g-1536vram", with(bare, row{"hourly_cost": 36.0, "gpu_brand": "amd"})),
		aPlan("vcg-b200-248c-2826g-1536vram", with(bare, row{"deploy_ondemand": false, "hourly_cost_preemptible": 25.6})),
		aPlan("vcg-a40-96c-480g-192vram", row{"gpu_type": "NVIDIA_A40", "gpu_vram_gb": 192, "gpu_count": 4, "locations": []string{}}),
		aPlan("vcg-a40-24c-120g-48vram", row{"gpu_type": "NVIDIA_A40", "locations": []string{"", "ord"}}),
		aPlan("vcg-z900-16c-180g-64vram", row{"gpu_type": "NVIDIA_Z900", "gpu_vram_gb": 64}),
		aPlan("vc2-1c-1gb", with(noGPU, row{"type": "vc2", "hourly_cost": 0.007, "vcpu_count": 1, "ram": 1024})),
		aPlan("vc2-1c-0.5gb-v6", with(noGPU, row{"type": "vc2", "hourly_cost": 0.003})),
	}
}

func metalPlans() []row {
	metal := func(id string, changed row) row {
		all := row{"vcpu_count": "-", "cpu_count": 112, "cpu_threads": 224, "ram": 2097152, "disk": 960, "type": "NVMe", "hourly_cost": 23.92, "location_cost": []any{}, "gpu_brand": "-"}
		maps.Copy(all, changed)
		p := aPlan(id, all)
		if _, odd := p["location_cost"].([]any); odd {
			delete(p, "location_cost")
		}
		return p
	}
	return []row{
		metal("vbm-112c-2048gb-8-h100-gpu", row{"gpu_type": "NVIDIA_HGX_H100", "gpu_count": 8, "gpu_vram_gb": 640}),
		metal("vbm-72c-480gb-gh200-gpu", row{"gpu_type": "NVIDIA_GH200", "gpu_count": 1, "gpu_vram_gb": 96, "hourly_cost": 2.0}),
		metal("vbm-256c-2048gb-8-mi300x-gpu", row{"gpu_type": "AMD_MI300X", "gpu_count": 8, "gpu_vram_gb": 1536, "hourly_cost": 31.92, "locations": []string{"ord"}}),
		metal("vbm-64c-2048gb-8-l40-gpu", row{"gpu_type": "-", "gpu_count": "-", "gpu_vram_gb": "-", "hourly_cost": 11.2}),
	}
}

package fleet

import "maps"

// The labels that every node has by itself.
const (
	LabelProvider     = "provider"
	LabelRegion       = "region"
	LabelInstanceType = "instance-type"
	LabelAccelerator  = "accelerator"
	LabelOS           = "os"
	LabelArch         = "arch"
	LabelMarket       = "market" // "spot" or "on-demand"
)

// currentLabels returns the member's labels now: those of its provider, and the pool's own.
func (m *Member) currentLabels() map[string]string {
	inst, facts := m.Node.Instance(), m.Node.Facts()
	labels := make(map[string]string, len(inst.Labels)+7)
	add := func(key, value string) {
		if value != "" {
			labels[key] = value
		}
	}
	offer := inst.Offer
	add(LabelProvider, m.Node.Provider())
	add(LabelRegion, offer.Region)
	add(LabelInstanceType, offer.InstanceType)
	add(LabelAccelerator, offer.Accelerator.Name)
	add(LabelOS, facts.OS)
	add(LabelArch, facts.Arch)
	if inst.ID != "" {
		add(LabelMarket, map[bool]string{true: "spot", false: "on-demand"}[offer.Spot])
	}
	maps.Copy(labels, inst.Labels)
	return labels
}

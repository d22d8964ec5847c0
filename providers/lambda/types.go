package lambda

import (
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// An item is a type of machine, and the regions that have some free.
type item struct {
	Type    instanceType `json:"instance_type"`
	Regions []region     `json:"regions_with_capacity_available"`
}

type instanceType struct {
	Name           string `json:"name"`
	GPUDescription string `json:"gpu_description"` // "H100 (80 GB PCIe)"
	Cents          int    `json:"price_cents_per_hour"`
	Specs          struct {
		VCPUs      float64 `json:"vcpus"`
		MemoryGiB  float64 `json:"memory_gib"`
		StorageGiB float64 `json:"storage_gib"`
		GPUs       int     `json:"gpus"`
	} `json:"specs"`
}

type region struct {
	Name        string `json:"name"`
	Description string `json:"description"` // "Utah, USA"
}

type sshKey struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	PublicKey string `json:"public_key"`
}

type launch struct {
	Region      string   `json:"region_name"`
	Type        string   `json:"instance_type_name"`
	SSHKeys     []string `json:"ssh_key_names"` // exactly one
	Name        string   `json:"name"`
	FileSystems []string `json:"file_system_names,omitempty"`
	Image       *image   `json:"image,omitempty"`
	UserData    string   `json:"user_data"`
	Tags        []tag    `json:"tags"`
}

type image struct {
	Family string `json:"family"`
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// An instance is a machine. The address and the name may be missing while it boots.
type instance struct {
	ID     string       `json:"id"`
	Name   string       `json:"name"`
	IP     string       `json:"ip"`
	Status string       `json:"status"`
	Region region       `json:"region"`
	Type   instanceType `json:"instance_type"`
	Tags   *[]tag       `json:"tags"`
}

// tag returns the owner of a machine. If the answer has no tags at all, the name identifies it.
func (in instance) tag() pooltag.Tag {
	if in.Tags == nil {
		return pooltag.FromName(in.Name)
	}
	pairs := map[string]string{}
	for _, t := range *in.Tags {
		pairs[t.Key] = t.Value
	}
	return pooltag.FromPairs(pairs)
}

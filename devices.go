package gputrain

import (
	"regexp"
	"strconv"
	"strings"
)

// Variables that keep a program to some of a node's accelerators.
const (
	cudaVisible = "CUDA_VISIBLE_DEVICES" // NVIDIA's
	hipVisible  = "HIP_VISIBLE_DEVICES"  // AMD's
)

// devices are a node's accelerators, by the names that their vendor's variable takes.
type devices struct {
	variable string
	ids      []string
}

// findDevices says what the node has: by the image's variables, by what nvidia-smi lists,
// or by what the kernel knows of AMD's.
func (n *poolNode) findDevices() devices {
	if set := n.p.spec.Image.Env; set[cudaVisible] != "" {
		return devices{cudaVisible, strings.Split(set[cudaVisible], ",")}
	} else if set[hipVisible] != "" {
		return devices{hipVisible, strings.Split(set[hipVisible], ",")}
	}
	if ids := parseNvidia(n.facts.NVIDIA); len(ids) > 0 {
		return devices{cudaVisible, ids}
	}
	if n.facts.AMD <= 0 || n.facts.AMD > mostDevices {
		return devices{}
	}
	d := devices{variable: hipVisible}
	for i := range n.facts.AMD {
		d.ids = append(d.ids, strconv.Itoa(i))
	}
	return d
}

// A node has mostDevices accelerators at most, whatever it says.
const mostDevices = 1024

var nvidiaLine = regexp.MustCompile(`^( *)(GPU|MIG) .*\(UUID: ([^()\s,]+)\)\s*$`)

// parseNvidia reads the lines of "nvidia-smi -L". A GPU goes by its index, which every
// program understands, and a part of one (MIG) by its UUID, as it has no other
// name: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
func parseNvidia(list []string) []string {
	var ids []string
	gpus, parts := 0, 0
	for _, line := range list {
		if len(ids) == mostDevices {
			break
		}
		m := nvidiaLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		switch {
		case m == nil:
		case m[2] == "GPU":
			ids = append(ids, strconv.Itoa(gpus))
			gpus, parts = gpus+1, 0
		case len(ids) > 0:
			if parts == 0 { // of a divided GPU only the parts can be used
				ids = ids[:len(ids)-1]
			}
			ids = append(ids, m[3])
			parts++
		}
	}
	return ids
}

// share returns the devices of one of so many slots: its own, as long as there are
// as many devices as slots; else one that it has together with others. Nil means
// that the slot has the whole node.
func (d devices) share(slot, slots int) []string {
	have := len(d.ids)
	switch {
	case slots <= 1 || have <= 1:
		return nil
	case slots > have:
		return d.ids[slot%have : slot%have+1]
	}
	return d.ids[slot*have/slots : (slot+1)*have/slots]
}

// env is what keeps a program to its slot's devices.
func (d devices) env(slot, slots int) map[string]string {
	share := d.share(slot, slots)
	if share == nil {
		return nil
	}
	env := map[string]string{d.variable: strings.Join(share, ",")}
	if d.variable == cudaVisible {
		env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID" // as nvidia-smi counts
	}
	return env
}

// visible returns the devices that a call in the slot may use.
func (d devices) visible(slot, slots int) []string {
	if share := d.share(slot, slots); share != nil {
		return share
	}
	return d.ids
}

// slotDevices returns the devices that the node's slots share.
func (n *poolNode) slotDevices() devices {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return n.has
}

// learnDevices notes what the node has, so that its slots can share it.
func (n *poolNode) learnDevices() {
	d := n.findDevices()
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.has = d
}

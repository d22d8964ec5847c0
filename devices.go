package gputrain

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/ssh"
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

// findDevices asks the node for its accelerators. NVIDIA's are told by
// nvidia-smi, AMD's by the kernel.
func (n *poolNode) findDevices(ctx context.Context) (devices, error) {
	if set := n.p.spec.Image.Env; set[cudaVisible] != "" {
		return devices{cudaVisible, strings.Split(set[cudaVisible], ",")}, nil
	} else if set[hipVisible] != "" {
		return devices{hipVisible, strings.Split(set[hipVisible], ",")}, nil
	}
	if n.facts.Tools["nvidia-smi"] {
		var out ssh.Answer
		if err := n.client.Exec(ctx, "nvidia-smi -L || :", nil, &out, nil); err != nil {
			return devices{}, err
		}
		if ids := parseNvidia(out.String()); len(ids) > 0 {
			return devices{cudaVisible, ids}, nil
		}
	}
	if !n.facts.Tools["kfd"] {
		return devices{}, nil
	}
	var out ssh.Answer
	if err := n.client.Exec(ctx, amdCount, nil, &out, nil); err != nil {
		return devices{}, err
	}
	count, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil || count <= 0 || count > mostDevices {
		return devices{}, nil
	}
	d := devices{variable: hipVisible}
	for i := range count {
		d.ids = append(d.ids, strconv.Itoa(i))
	}
	return d, nil
}

// A node has mostDevices accelerators at most, whatever it says.
const mostDevices = 1024

// amdCount counts the GPUs that the kernel's compute driver knows: its nodes
// without SIMD units are the processors. HIP_VISIBLE_DEVICES counts alike:
// https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
const amdCount = `sh -c 'n=0; for f in /sys/class/kfd/kfd/topology/nodes/*/properties; do while read -r k v; do ` +
	`if [ "$k" = simd_count ] && [ "$v" -gt 0 ]; then n=$((n+1)); fi; done <"$f"; done 2>/dev/null; echo $n'`

var nvidiaLine = regexp.MustCompile(`^( *)(GPU|MIG) .*\(UUID: ([^()\s,]+)\)\s*$`)

// parseNvidia reads "nvidia-smi -L". A GPU goes by its index, which every
// program understands, and a part of one (MIG) by its UUID, as it has no other
// name: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
func parseNvidia(list string) []string {
	var ids []string
	gpus, parts := 0, 0
	for line := range strings.Lines(list) {
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

// learnDevices finds out what the node has, so that its slots can share it.
func (n *poolNode) learnDevices(ctx context.Context) error {
	d, err := n.findDevices(ctx)
	if err != nil {
		return fmt.Errorf("ask for accelerators: %w", err)
	}
	n.p.mu.Lock()
	n.has = d
	n.p.mu.Unlock()
	return nil
}

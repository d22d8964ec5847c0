package node

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// Variables that restrict a program to some of a node's accelerators.
const (
	cudaVisible = "CUDA_VISIBLE_DEVICES" // NVIDIA's
	hipVisible  = "HIP_VISIBLE_DEVICES"  // AMD's
)

// Devices are a node's accelerators, by the names that their vendor's variable takes.
type Devices struct {
	variable string
	ids      []string
}

// devicesOf returns the devices of a node: by the image's variables, by the login's, by what
// nvidia-smi lists, or by what the kernel reports of AMD's.
func devicesOf(image map[string]string, facts supervisor.Facts) Devices {
	if image[cudaVisible] != "" {
		return Devices{cudaVisible, strings.Split(image[cudaVisible], ",")}
	} else if image[hipVisible] != "" {
		return Devices{hipVisible, strings.Split(image[hipVisible], ",")}
	}
	if ids := parseNvidia(facts.NVIDIA); len(ids) > 0 {
		if n := len(facts.Visible); n > 0 && n <= maxDevices && !slices.ContainsFunc(facts.Visible, func(id string) bool { return !deviceID.MatchString(id) }) {
			ids = facts.Visible
		}
		return Devices{cudaVisible, ids}
	}
	if facts.AMD <= 0 || facts.AMD > maxDevices {
		return Devices{}
	}
	d := Devices{variable: hipVisible}
	for i := range facts.AMD {
		d.ids = append(d.ids, strconv.Itoa(i))
	}
	return d
}

// A node has maxDevices accelerators at most, whatever it reports.
const maxDevices = 1024

// deviceID is the form of an index or a UUID in CUDA_VISIBLE_DEVICES.
var deviceID = regexp.MustCompile(`^[0-9]+$|^(GPU|MIG)-[0-9A-Za-z-]+$`)

var nvidiaLine = regexp.MustCompile(`^( *)(GPU|MIG) .*\(UUID: ([^()\s,]+)\)\s*$`)

// parseNvidia reads the lines of "nvidia-smi -L". A GPU is named by its index, which every
// program understands, and a part of one (MIG) by its UUID, as it has no other
// name: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
func parseNvidia(list []string) []string {
	var ids []string
	gpus, parts := 0, 0
	for _, line := range list {
		if len(ids) == maxDevices {
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

// share returns the devices of one of so many slots: its own, if there are as many devices as slots; else one that it
// shares with other slots. Nil means that the slot has the whole node.
func (d Devices) share(slot, slots int) []string {
	have := len(d.ids)
	switch {
	case slots <= 1 || have <= 1:
		return nil
	case slots > have:
		return d.ids[slot%have : slot%have+1]
	}
	return d.ids[slot*have/slots : (slot+1)*have/slots]
}

// Env returns the variables that restrict a program to the devices of its slot, or nil if the
// slot has the whole node.
func (d Devices) Env(slot, slots int) map[string]string {
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

// Visible returns the devices that a call in the slot may use.
func (d Devices) Visible(slot, slots int) []string {
	if share := d.share(slot, slots); share != nil {
		return share
	}
	return d.ids
}

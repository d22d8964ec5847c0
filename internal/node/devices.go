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
	shares   int // so many tasks share each device; zero or 1 is none
}

// devicesOf returns the devices of a node: by the image's variables, by the login's, by what
// nvidia-smi lists, or by what the kernel reports of AMD's.
func devicesOf(image map[string]string, facts supervisor.Facts) Devices {
	if image[cudaVisible] != "" {
		return Devices{variable: cudaVisible, ids: strings.Split(image[cudaVisible], ",")}
	} else if image[hipVisible] != "" {
		return Devices{variable: hipVisible, ids: strings.Split(image[hipVisible], ",")}
	}
	if ids := parseNvidia(facts.NVIDIA); len(ids) > 0 {
		if n := len(facts.Visible); n > 0 && n <= maxDevices && !slices.ContainsFunc(facts.Visible, func(id string) bool { return !deviceID.MatchString(id) }) {
			ids = facts.Visible
		}
		return Devices{variable: cudaVisible, ids: ids}
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

var nvidiaLine = regexp.MustCompile(`^( *)(GPU|MIG) (?:(\d+):)?.*\(UUID: ([^()\s,]+)\)\s*$`)

// parseNvidia reads the lines of "nvidia-smi -L". A GPU is named by its index, which every
// program understands, and a part of one (MIG) by its UUID, as it has no other
// name: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
// If the list has other lines, or lacks an index, all are named by their UUIDs: a device is lost, and CUDA may count only those
// that it finds.
func parseNvidia(list []string) []string {
	var ids, uuids []string
	gpus, parts, odd := 0, 0, false
	for _, line := range list {
		if len(ids) == maxDevices {
			break
		}
		line = strings.TrimRight(line, "\r\n")
		m := nvidiaLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			odd = odd || strings.TrimSpace(line) != ""
		case m[2] == "GPU":
			index := strconv.Itoa(gpus)
			odd = odd || m[3] != index
			ids, uuids = append(ids, index), append(uuids, m[4])
			gpus, parts = gpus+1, 0
		case len(ids) > 0:
			if parts == 0 { // of a divided GPU only the parts can be used
				ids, uuids = ids[:len(ids)-1], uuids[:len(ids)-1]
			}
			ids, uuids = append(ids, m[4]), append(uuids, m[4])
			parts++
		}
	}
	if odd {
		return uuids
	}
	return ids
}

// wellGPUs returns the UUIDs of a list of "nvidia-smi -L" without the GPUs of these rows. Nil means that it cannot be told: the
// list has fewer GPUs, or a part of one.
func wellGPUs(list []string, sick []int) (uuids []string) {
	row := 0
	for _, line := range list {
		m := nvidiaLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		switch {
		case m == nil:
			continue
		case m[2] != "GPU":
			return nil
		case !slices.Contains(sick, row) && len(uuids) < maxDevices:
			uuids = append(uuids, m[4])
		}
		row++
	}
	if len(sick) > 0 && row <= slices.Max(sick) {
		return nil
	}
	return uuids
}

// Units returns how many units the devices are for tasks that have units alone, and how many in a row are shares of one
// device.
func (d Devices) Units() (count, group int) { return len(d.ids) * max(d.shares, 1), max(d.shares, 1) }

// Sharers returns how many tasks with so many units each the node has room for. Nil units are the whole node.
func (d Devices) Sharers(units []int) int {
	count, _ := d.Units()
	if len(units) == 0 {
		return 1
	}
	return max(count/len(units), 1)
}

// of returns the devices that have any of the units, which are sorted, and the fewest units that one of them has.
func (d Devices) of(units []int) (ids []string, least int) {
	_, group := d.Units()
	for len(units) > 0 && units[0]/group < len(d.ids) {
		device, n := units[0]/group, 1
		for n < len(units) && units[n]/group == device {
			n++
		}
		if ids = append(ids, d.ids[device]); least == 0 || n < least {
			least = n
		}
		units = units[n:]
	}
	return ids, least
}

// Env returns the variables that restrict a program to the devices of its units. Nil units are the whole node, which
// need no variables, and so do those of a node without devices.
//
// A share of a device is a part of its threads, but not of its memory: NVIDIA's variable for that,
// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, numbers the devices, and does not say whether as the program sees them.
// https://docs.nvidia.com/deploy/mps/latest/appendix-environment-variables.html
func (d Devices) Env(units []int) map[string]string {
	if units == nil || len(d.ids) == 0 {
		return nil
	}
	ids, least := d.of(units)
	env := map[string]string{d.variable: strings.Join(ids, ",")}
	if d.variable == cudaVisible {
		env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID" // as nvidia-smi counts
	}
	if d.shares > 1 {
		env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(max(100*least/d.shares, 1))
	}
	return env
}

// Visible returns the devices that a call with the units may use. Nil units are the whole node.
func (d Devices) Visible(units []int) []string {
	if units == nil {
		return d.ids
	}
	ids, _ := d.of(units)
	return ids
}

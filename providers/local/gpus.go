package local

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/childenv"
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/nvidia"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// visibleEnv restricts a program to some GPUs, and orderEnv has it count them as nvidia-smi
	// does.
	visibleEnv = "CUDA_VISIBLE_DEVICES"
	orderEnv   = "CUDA_DEVICE_ORDER"
	pciOrder   = "PCI_BUS_ID"

	// noDevices is nvidia-smi's output if its driver runs and has no GPU.
	noDevices = "No devices were found"

	// listTimeout bounds nvidia-smi, which hangs if the driver does.
	listTimeout = 20 * time.Second
	// reserveAttempts bounds the tries for GPUs that another program takes at the same moment.
	reserveAttempts = 10
)

// A gpu is one of this machine's.
type gpu struct {
	index, uuid string
	// name is by what CUDA_VISIBLE_DEVICES has it: the index or, beside a GPU that is lost, the UUID. CUDA may count only
	// those that it finds.
	name        string
	accelerator accelerators.Accelerator
}

// A gpuList is the GPUs of this machine that this program may use.
type gpuList struct {
	mu     sync.Mutex
	listed bool
	gpus   []gpu
	odd    []string // what nvidia-smi says besides, such as of a GPU that is lost
}

// all returns the GPUs. It asks nvidia-smi once. A machine without nvidia-smi has none.
func (l *gpuList) all(ctx context.Context) ([]gpu, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed {
		return l.gpus, nil
	}
	path, err := exec.LookPath("nvidia-smi")
	if errors.Is(err, exec.ErrNotFound) {
		l.listed = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, failed := nvidiaSMI(ctx, path, "--query-gpu=index,uuid,name,memory.total,mig.mode.current", "--format=csv,noheader,nounits")
	gpus, odd := parseGPUs(out)
	list, restricted := os.LookupEnv(visibleEnv)
	switch {
	case len(gpus) > 0, failed == nil && len(odd) == 0: // an error tells of others then
	case strings.Contains(out, noDevices):
		odd = nil
	case failed != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		return nil, fmt.Errorf("nvidia-smi: %w %.300s", failed, line)
	default:
		return nil, fmt.Errorf("nvidia-smi: cannot read the list of GPUs: %.80q", odd[0])
	}
	if restricted {
		if strings.Contains(list, migPrefix) {
			parts, _ := nvidiaSMI(ctx, path, "-L")
			gpus = append(gpus, parseParts(parts)...)
		}
		gpus = visible(gpus, list)
	}
	for i, g := range gpus {
		if gpus[i].name = g.index; len(odd) > 0 {
			gpus[i].name = g.uuid
		}
	}
	l.listed, l.gpus, l.odd = true, leveled(gpus), odd
	return l.gpus, nil
}

// nvidiaSMI returns what nvidia-smi prints.
func nvidiaSMI(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.WaitDelay = childenv.Of(childenv.System), time.Second
	var answer bounded.Buffer
	cmd.Stdout = &answer
	err := cmd.Run()
	return answer.String(), err
}

// parseGPUs reads the output of nvidia-smi. It omits a GPU that is divided into MIG instances, which can only be used in
// parts. Odd are the lines of GPUs that cannot be used, and those that are no GPUs.
func parseGPUs(text string) (gpus []gpu, odd []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		r := csv.NewReader(strings.NewReader(line))
		r.FieldsPerRecord, r.TrimLeadingSpace, r.LazyQuotes = 5, true, true
		row, err := r.Read()
		if err != nil {
			odd = append(odd, line)
			continue
		}
		n, err := strconv.Atoi(row[0])
		mib, well, isMemory := nvidia.Memory(row[3])
		switch {
		case err != nil || n < 0 || !nvidia.Tells(row[1]) || !nvidia.Tells(row[2]) || !well || !isMemory:
			odd = append(odd, line)
		case row[4] != "Enabled":
			a := nvidia.Device{Name: row[2], MemoryMiB: mib}.Accelerator()
			a.Count = 1
			gpus = append(gpus, gpu{index: row[0], uuid: row[1], accelerator: a})
		}
	}
	return gpus, odd
}

// migPrefix begins the name of a part of a GPU: a MIG instance.
const migPrefix = "MIG-"

// parseParts reads the parts of GPUs from the output of nvidia-smi -L. A part has no index: programs name it by its UUID.
func parseParts(text string) (parts []gpu) {
	whole := ""
	for line := range strings.Lines(text) {
		if m := wholeLine.FindStringSubmatch(line); m != nil {
			whole = m[1]
		} else if m := partLine.FindStringSubmatch(line); m != nil && whole != "" {
			a := nvidia.Device{Name: whole + " MIG " + m[1]}.Accelerator()
			parts = append(parts, gpu{index: m[2], uuid: m[2], accelerator: a})
		}
	}
	return parts
}

var (
	wholeLine = regexp.MustCompile(`^GPU \d+: (.*\S) \(UUID: GPU-[^()\s,]+\)\s*$`)
	partLine  = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^()\s,]+)\)\s*$`)
)

// leveled has GPUs of one kind be alike, though one has a display, or corrects errors.
func leveled(gpus []gpu) []gpu {
	all := make([]accelerators.Accelerator, len(gpus))
	for i, g := range gpus {
		all[i] = g.accelerator
	}
	nvidia.Level(all)
	for i := range gpus {
		gpus[i].accelerator = all[i]
	}
	return gpus
}

// visible returns the GPUs of a CUDA_VISIBLE_DEVICES, which names them by index or by the
// beginning of the UUID. As in CUDA, a name without a GPU ends the list:
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
func visible(gpus []gpu, list string) (seen []gpu) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(gpus, func(g gpu) bool {
			return g.index == name || (strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, migPrefix)) && strings.HasPrefix(g.uuid, name)
		})
		if i < 0 || slices.Contains(seen, gpus[i]) {
			break
		}
		seen = append(seen, gpus[i])
	}
	return seen
}

// gpuCount returns how many GPUs a node needs. A share of a GPU is a whole one.
func gpuCount(a accelerators.Accelerator) int {
	if a.IsZero() {
		return 0
	}
	return int(math.Ceil(max(a.Count, 1)))
}

// gpuOffers returns an offer for each kind of GPU that this machine has, with as many as the
// query asks for, if there are so many.
func (d *localDriver) gpuOffers(ctx context.Context, want accelerators.Accelerator) ([]driver.Offer, error) {
	all, err := d.gpus.all(ctx)
	if err != nil {
		return nil, err
	}
	free, err := d.freeGPUs(all)
	if err != nil {
		return nil, err
	}
	var offers []driver.Offer
	var kinds []accelerators.Accelerator
	for _, g := range all {
		if slices.Contains(kinds, g.accelerator) {
			continue
		}
		kinds = append(kinds, g.accelerator)
		has, unused, n := ofKind(all, g.accelerator), ofKind(free, g.accelerator), gpuCount(want)
		o := d.offer()
		o.Accelerator = g.accelerator
		o.ID += " " + o.Accelerator.String()
		if o.Accelerator.Count >= 1 { // or it is the share that a part is
			o.Accelerator.Count = float64(min(n, len(has)))
		}
		for _, line := range d.gpus.odd {
			o.Warnings = append(o.Warnings, fmt.Sprintf("nvidia-smi says of another GPU, or of this machine: %.300s", line))
		}
		if o.Available = len(unused) / n; o.Available == 0 && n <= len(has) {
			o.Rejected = fmt.Sprintf("has %d of its %d GPUs free; a node needs %d", len(unused), len(has), n)
		}
		offers = append(offers, o)
	}
	return offers, nil
}

// ofKind returns the GPUs that are such a device.
func ofKind(gpus []gpu, a accelerators.Accelerator) (same []gpu) {
	if a.Count > 1 {
		a.Count = 1
	}
	for _, g := range gpus {
		if g.accelerator == a {
			same = append(same, g)
		}
	}
	return same
}

// freeGPUs returns the GPUs that no node has: the homes of all programs of this user tell, those
// of Config.Dir.
func (d *localDriver) freeGPUs(all []gpu) ([]gpu, error) {
	homes, err := d.homes.ofPool("")
	if err != nil {
		return nil, err
	}
	var used []string
	for _, h := range homes {
		used = append(used, h.mark.GPUs...)
	}
	return slices.DeleteFunc(slices.Clone(all), func(g gpu) bool { return slices.Contains(used, g.index) || slices.Contains(used, g.uuid) }), nil
}

// reserving has the nodes of this program choose their GPUs one after another.
var reserving sync.Mutex

// newHomeWithGPUs makes a home for a node with GPUs of its own. The home's mark reserves them. If
// another program has reserved one of them at the same moment, at least one of both programs sees
// that afterwards, and chooses again.
func (d *localDriver) newHomeWithGPUs(ctx context.Context, id string, m mark, hostKey string) (machine.Home, mark, error) {
	all, err := d.gpus.all(ctx)
	if err != nil {
		return "", m, err
	}
	reserving.Lock()
	defer reserving.Unlock()
	n := gpuCount(m.Accelerator)
	for range reserveAttempts {
		free, err := d.freeGPUs(all)
		if err != nil {
			return "", m, err
		}
		free = ofKind(free, m.Accelerator)
		if len(free) < n {
			return "", m, fmt.Errorf("%w: %d GPUs are free, and a node needs %d", driver.ErrNoCapacity, len(free), n)
		}
		m.GPUs = nil
		for _, g := range free[:n] {
			m.GPUs = append(m.GPUs, g.name)
		}
		home, err := d.homes.newHome(id, m, []byte(hostKey))
		if err != nil {
			return "", m, err
		}
		homes, err := d.homes.ofPool("")
		shared := false
		for other, h := range homes {
			shared = shared || other != id && slices.ContainsFunc(h.mark.GPUs, func(g string) bool { return slices.Contains(m.GPUs, g) })
		}
		if err == nil && !shared {
			return home, m, nil
		}
		home.Remove()
		if err != nil {
			return "", m, err
		}
		if !retry.Sleep(ctx, time.Duration(1+rand.IntN(100))*time.Millisecond) {
			return "", m, context.Cause(ctx)
		}
	}
	return "", m, fmt.Errorf("%w: other programs take the same GPUs at the same time", driver.ErrNoCapacity)
}

// withGPUs returns the environment of a node that may use only these GPUs. Without any it is the
// same.
func withGPUs(env, gpus []string) []string {
	if len(gpus) == 0 {
		return env
	}
	env = slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, visibleEnv+"=") || strings.HasPrefix(v, orderEnv+"=")
	})
	return append(env, visibleEnv+"="+strings.Join(gpus, ","), orderEnv+"="+pciOrder)
}

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/childenv"
	"github.com/gputrain/gputrain/internal/machine"
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
	accelerator accelerators.Accelerator
}

// A gpuList is the GPUs of this machine that this program may use.
type gpuList struct {
	mu     sync.Mutex
	listed bool
	gpus   []gpu
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
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--query-gpu=index,uuid,name,memory.total,mig.mode.current", "--format=csv,noheader,nounits")
	cmd.Env, cmd.WaitDelay = childenv.Of(childenv.System), time.Second
	var answer bounded.Buffer
	cmd.Stdout = &answer
	err = cmd.Run()
	out := answer.String()
	if strings.Contains(out, noDevices) {
		l.listed = true
		return nil, nil
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		return nil, fmt.Errorf("nvidia-smi: %w %.300s", err, line)
	}
	gpus, err := parseGPUs(out)
	if err != nil {
		return nil, err
	}
	list, restricted := os.LookupEnv(visibleEnv)
	if restricted {
		gpus = visible(gpus, list)
	}
	l.listed, l.gpus = true, gpus
	return gpus, nil
}

// parseGPUs reads the output of nvidia-smi. It omits a GPU that is divided into MIG instances,
// which can only be used in parts.
func parseGPUs(text string) (gpus []gpu, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = 5, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: cannot read the list of GPUs: %w", err)
	}
	for _, row := range rows {
		if n, err := strconv.Atoi(row[0]); err != nil || n < 0 || row[1] == "" {
			return nil, fmt.Errorf("nvidia-smi: cannot read the list of GPUs: %.80q", row)
		}
		if row[4] == "Enabled" {
			continue
		}
		mib, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			mib = 0 // "[N/A]", if processor and GPU share their memory
		}
		a, err := accelerators.Reported(row[2], mib)
		if err != nil || a.IsZero() {
			a = accelerators.Accelerator{Name: row[2], MemoryGiB: mib / 1024, Exact: true}
		}
		a.Count = 1
		gpus = append(gpus, gpu{index: row[0], uuid: row[1], accelerator: a})
	}
	return gpus, nil
}

// visible returns the GPUs of a CUDA_VISIBLE_DEVICES, which names them by index or by the
// beginning of the UUID. As in CUDA, a name without a GPU ends the list:
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
func visible(gpus []gpu, list string) (seen []gpu) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(gpus, func(g gpu) bool {
			return g.index == name || strings.HasPrefix(name, "GPU-") && strings.HasPrefix(g.uuid, name)
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
		o.Accelerator.Count = float64(min(n, len(has)))
		if o.Available = len(unused) / n; o.Available == 0 && n <= len(has) {
			o.Rejected = fmt.Sprintf("has %d of its %d GPUs free; a node needs %d", len(unused), len(has), n)
		}
		offers = append(offers, o)
	}
	return offers, nil
}

// ofKind returns the GPUs that are such a device.
func ofKind(gpus []gpu, a accelerators.Accelerator) (same []gpu) {
	a.Count = 1
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
	return slices.DeleteFunc(slices.Clone(all), func(g gpu) bool { return slices.Contains(used, g.index) }), nil
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
			m.GPUs = append(m.GPUs, g.index)
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

//go:build unix

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// withNVIDIA puts an nvidia-smi on PATH that lists these GPUs: name and memory in MiB.
func withNVIDIA(t *testing.T, gpus ...string) {
	t.Helper()
	var list, query, short strings.Builder
	for i, g := range gpus {
		name, mib, _ := strings.Cut(g, ", ")
		fmt.Fprintf(&list, "GPU %d: %s (UUID: GPU-%d000)\n", i, name, i)
		fmt.Fprintf(&query, "%d, GPU-%d000, %s, %s, Disabled\n", i, i, name, mib)
		fmt.Fprintf(&short, "%s, %s\n", name, mib)
	}
	withNVIDIAScript(t, `case "$*" in
-L) printf '%s' '`+list.String()+`' ;;
*query-gpu=index,uuid,name,memory.total,mig.mode.current*) printf '%s' '`+query.String()+`' ;;
*query-gpu=name,memory.total*) printf '%s' '`+short.String()+`' ;;
*) echo "CUDA Version: 12.8" ;;
esac`)
}

func withNVIDIAScript(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(visibleEnv, "") // so that it is restored
	os.Unsetenv(visibleEnv)
}

const a100, l4 = "NVIDIA A100-SXM4-80GB, 81920", "NVIDIA L4, 23034"

func (p *testPool) offers(a accelerators.Accelerator) (all []driver.Offer) {
	p.t.Helper()
	for o, err := range p.Offers(p.t.Context(), driver.Query{Accelerator: a}) {
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// launchGPUs launches nodes of the first offer for an accelerator.
func (p *testPool) launchGPUs(nodes int, a accelerators.Accelerator) ([]driver.Instance, error) {
	p.t.Helper()
	req := p.request(nodes)
	req.Offer = p.offers(a)[0]
	got, err := p.Launch(p.t.Context(), req)
	p.t.Cleanup(func() {
		for _, in := range got {
			p.Terminate(p.t.Context(), in.ID)
		}
	})
	return got, err
}

func TestGPUOffers(t *testing.T) {
	withNVIDIA(t, a100, l4, a100, l4, a100)
	p := newPool(t, Config{})
	offers := p.offers(accelerators.A100(accelerators.Count(2)))
	if len(offers) != 2 || offers[0].ID == offers[1].ID {
		t.Fatalf("offers %+v", offers)
	}
	want := accelerators.A100(accelerators.Count(2), accelerators.Memory(80))
	if o := offers[0]; !want.Matches(o.Accelerator) || o.Accelerator.FormFactor != accelerators.SXM || o.Available != 1 || o.Rejected != "" {
		t.Errorf("two of three A100: %+v", o)
	}
	if o := offers[1]; o.Accelerator.Name != "L4" || o.Accelerator.Count != 2 || o.Available != 1 {
		t.Errorf("%+v", o)
	}
	// A machine offers no more than it has.
	if o := p.offers(accelerators.A100(accelerators.Count(4)))[0]; o.Accelerator.Count != 3 || accelerators.A100(accelerators.Count(4)).Matches(o.Accelerator) {
		t.Errorf("four of three: %+v", o)
	}
	if o := p.offers(accelerators.Any(accelerators.AtLeast(2)))[0]; o.Accelerator.Count != 2 {
		t.Errorf("two or more: %+v", o)
	}
	if all := p.offers(accelerators.Accelerator{}); len(all) != 1 || !all[0].Accelerator.IsZero() {
		t.Errorf("nothing is asked for: %+v", all)
	}
}

// No two nodes have the same GPU, whatever their pools, and a node's are free after its end.
func TestNodesHaveGPUsOfTheirOwn(t *testing.T) {
	withNVIDIA(t, a100, l4, a100, a100)
	first := newPool(t, Config{PassEnv: []string{"CUDA_*"}})
	second := newPool(t, Config{Dir: first.dir})
	second.info.ID += "b"
	t.Setenv(orderEnv, "FASTEST_FIRST")
	nodes, err := first.launchGPUs(1, accelerators.A100(accelerators.Count(2)))
	if err != nil {
		t.Fatal(err)
	}
	const show = `echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"`
	if got := first.output(nodes[0], show); got != "0,2 PCI_BUS_ID\n" {
		t.Errorf("the node may use %q", got)
	}
	if o := nodes[0].Offer.Accelerator; o.Name != "A100" || o.Count != 2 {
		t.Errorf("its offer has %v", o)
	}
	others, err := second.launchGPUs(2, accelerators.A100())
	if !errors.Is(err, driver.ErrNoCapacity) || len(others) != 1 {
		t.Fatalf("two nodes on one GPU: %d nodes, %v", len(others), err)
	}
	if got := second.output(others[0], show); got != "3 PCI_BUS_ID\n" {
		t.Errorf("the other pool's node may use %q", got)
	}
	if o := second.offers(accelerators.A100())[0]; o.Available != 0 || o.Rejected != "has 0 of its 3 GPUs free; a node needs 1" {
		t.Errorf("all are used: %+v", o)
	}
	if err := first.Terminate(t.Context(), nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	if o := second.offers(accelerators.A100())[0]; o.Available != 2 || o.Rejected != "" {
		t.Errorf("two are free again: %+v", o)
	}
}

// A node keeps its GPUs when another program takes it over.
func TestResumedNodeKeepsItsGPUs(t *testing.T) {
	withNVIDIA(t, a100, a100)
	p := newPool(t, Config{})
	if _, err := p.launchGPUs(2, accelerators.A100()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	other := newPool(t, Config{Dir: p.dir})
	other.info.ID, other.info.AuthorizedKey, other.signer = p.info.ID, p.info.AuthorizedKey, p.signer
	id := p.info.ID + "-1"
	if err := other.Driver.(driver.Resumer).Resume(t.Context(), other.info, id); err != nil {
		t.Fatal(err)
	}
	got, err := other.Describe(t.Context(), id)
	if err != nil || got[0].Offer.Accelerator.Name != "A100" {
		t.Fatalf("described %+v, %v", got, err)
	}
	if seen := other.output(got[0], `echo $CUDA_VISIBLE_DEVICES`); seen != "1\n" {
		t.Errorf("it may use %q", seen)
	}
}

func TestGPUsUnderContention(t *testing.T) {
	withNVIDIA(t, l4, l4, l4, l4, l4, l4)
	first := newPool(t, Config{})
	pools := []*testPool{first}
	for i := range 2 {
		p := newPool(t, Config{Dir: first.dir})
		p.info.ID += string(rune('a' + i))
		pools = append(pools, p)
	}
	var wg sync.WaitGroup
	for _, p := range pools {
		wg.Go(func() {
			if nodes, err := p.launchGPUs(2, accelerators.L4()); err != nil || len(nodes) != 2 {
				t.Errorf("%d nodes, %v", len(nodes), err)
			}
		})
	}
	wg.Wait()
	homes, err := first.Driver.(*localDriver).homes.ofPool("")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, h := range homes {
		used = append(used, h.mark.GPUs...)
	}
	if slices.Sort(used); !slices.Equal(used, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("handed out: %q", used)
	}
}

// The slots of a node share the node's own GPUs, not the machine's.
func TestSlotsShareTheNodesGPUs(t *testing.T) {
	withNVIDIA(t, l4, l4, l4, l4)
	spec := gputrain.Spec{Nodes: 2, Concurrency: 2, Accelerator: accelerators.L4(accelerators.Count(2))}
	pool, err := gputrain.Open(t.Context(), Config{Dir: t.TempDir()}, spec, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var tasks []gputrain.Task
	for range 4 { // they wait for each other, so that each has a slot of its own
		tasks = append(tasks, gputrain.Script(`sleep 1; echo "$CUDA_VISIBLE_DEVICES"`))
	}
	var seen []string
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		seen = append(seen, strings.TrimSpace(string(r.Stdout)))
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"0", "1", "2", "3"}) {
		t.Errorf("the tasks may use %q", seen)
	}
}

func TestVisible(t *testing.T) {
	all := []gpu{{index: "0", uuid: "GPU-aa11"}, {index: "1", uuid: "GPU-bb22"}, {index: "2", uuid: "GPU-bb33"}}
	for list, want := range map[string]string{"": "", "1": "1", "2,0": "20", "GPU-bb3": "2", "0,7,1": "0", "-1": "", "1,1": "1", " 0, 2": "02", "NoDevFiles": ""} {
		got := ""
		for _, g := range visible(all, list) {
			got += g.index
		}
		if got != want {
			t.Errorf("%q leaves %q, want %q", list, got, want)
		}
	}
}

// This program's own CUDA_VISIBLE_DEVICES bounds what its nodes get.
func TestGPUsOfThisProgram(t *testing.T) {
	withNVIDIA(t, l4, l4, l4)
	t.Setenv(visibleEnv, "2,1")
	p := newPool(t, Config{})
	nodes, err := p.launchGPUs(1, accelerators.L4())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.output(nodes[0], `echo $CUDA_VISIBLE_DEVICES`); got != "2\n" {
		t.Errorf("the node may use %q", got)
	}
	if o := p.offers(accelerators.L4())[0]; o.Available != 1 {
		t.Errorf("%+v", o)
	}
}

func TestParseGPUs(t *testing.T) {
	got, odd := parseGPUs("0, GPU-aa, NVIDIA A100-SXM4-40GB, 40960, Enabled\n1, GPU-bb, NVIDIA A100-SXM4-40GB, 40960, Disabled\n2, GPU-cc, NVIDIA GB10, [N/A], [N/A]\n3, GPU-dd, Strange Device 9, 1024, [N/A]\n")
	if odd != nil || len(got) != 3 || got[0].index != "1" || got[0].accelerator.MemoryGiB != 40 || got[1].accelerator.MemoryGiB != 0 || got[2].accelerator.Name == "" {
		t.Errorf("%+v, %v", got, odd)
	}
	if got, odd := parseGPUs(""); odd != nil || got != nil {
		t.Errorf("no GPU: %+v, %v", got, odd)
	}
	for _, line := range []string{
		"No devices were found\n", "x, GPU-aa, NVIDIA L4, 1, Disabled\n", "0, , NVIDIA L4, 1, Disabled\n", "0, GPU-aa, \"NVIDIA L4, 1, Disabled\n",
		"WARNING: infoROM is corrupted at gpu 0000:B3:00.0\n", "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n",
		"0, GPU-aa, NVIDIA L4, [GPU requires reset], [N/A]\n", "0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n", "0, GPU-aa, [Unknown Error], 23034, Disabled\n",
	} {
		for _, text := range []string{line + "1, GPU-bb, NVIDIA L4, 23034, Disabled\n", "1, GPU-bb, NVIDIA L4, 23034, Disabled\n" + line} {
			if got, odd := parseGPUs(text); len(got) != 1 || got[0].uuid != "GPU-bb" || len(odd) != 1 || odd[0] != strings.TrimSpace(line) {
				t.Errorf("%q is %+v, %q", text, got, odd)
			}
		}
	}
}

// An odd line, a GPU that is lost and an exit status take nothing from the GPUs that are well, which are offered with a
// warning. Programs know them by their UUIDs then, as CUDA may not count the lost one.
func TestOddLinesOfNvidiaSmi(t *testing.T) {
	const row = `printf '%s\n' '0, GPU-0000, NVIDIA L4, 23034, Disabled' '2, GPU-2000, NVIDIA L4, 23034, Disabled' '3, GPU-3000, NVIDIA L4, 23034, Disabled'`
	for name, script := range map[string]string{
		"a warning":       `echo 'WARNING: infoROM is corrupted at gpu 0000:B3:00.0'; ` + row,
		"with status 14":  row + `; echo 'WARNING: infoROM is corrupted at gpu 0000:B3:00.0'; exit 14`,
		"lost":            row + `; echo 'Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error'; exit 15`,
		"needs a reset":   row + `; echo '1, GPU-1000, NVIDIA L4, [GPU requires reset], [GPU requires reset]'`,
		"lost in its row": `echo '1, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]'; ` + row,
	} {
		t.Run(name, func(t *testing.T) {
			withNVIDIAScript(t, script)
			p := newPool(t, Config{})
			if o := p.offers(accelerators.L4(accelerators.Count(3)))[0]; o.Accelerator.Count != 3 || o.Available != 1 || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "nvidia-smi says") {
				t.Errorf("%+v", o)
			}
			nodes, err := p.launchGPUs(1, accelerators.L4(accelerators.Count(2)))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.output(nodes[0], `echo "$CUDA_VISIBLE_DEVICES"`); got != "GPU-0000,GPU-2000\n" {
				t.Errorf("the node may use %q", got)
			}
			if left := p.offers(accelerators.L4())[0]; left.Available != 1 {
				t.Errorf("one of three is left: %+v", left)
			}
		})
	}
}

// GPUs of one kind whose memories differ by what a display or the correction of errors takes are one kind, with the least memory.
func TestEqualGPUsWithUnequalMemory(t *testing.T) {
	for _, tt := range []struct {
		gpus  []string
		want  string
		least float64 // MiB, of the offer that suits
	}{
		{[]string{"NVIDIA GeForce GTX 1080 Ti, 11170", "NVIDIA GeForce GTX 1080 Ti, 11172"}, "GTX1080Ti:2", 11170},
		{[]string{"NVIDIA RTX A6000, 49140", "NVIDIA RTX A6000, 45634"}, "A6000-48GB:2", 45634},
		{[]string{"NVIDIA RTX A6000, 45634", "NVIDIA L4, 23034", "NVIDIA RTX A6000, 49140"}, "A6000:2", 45634},
		{[]string{"Strange Device 9, 16384", "Strange Device 9, 16380"}, "any-16GB:2", 16380},
		{[]string{"NVIDIA A100-SXM4-40GB, 40960", "NVIDIA A100-SXM4-80GB, 81920"}, "A100:2", 0},
		{[]string{"NVIDIA GeForce RTX 3060, 12288", "NVIDIA GeForce RTX 3060, 8192"}, "RTX3060:2", 0},
	} {
		withNVIDIA(t, tt.gpus...)
		want, err := accelerators.Parse(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		spec := gputrain.Spec{Nodes: 1, Accelerator: want}
		plan, err := gputrain.Plan(t.Context(), Config{Dir: t.TempDir()}, spec)
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for _, c := range plan {
			if c.Rejected == "" {
				got = c.Offer.Accelerator.MemoryGiB * 1024
			}
		}
		if got != tt.least {
			t.Errorf("%s of %q: %v MiB, want %v; %+v", tt.want, tt.gpus, got, tt.least, plan)
		}
	}
	withNVIDIA(t, "NVIDIA GeForce GTX 1080 Ti, 11170", "NVIDIA GeForce GTX 1080 Ti, 11172")
	nodes, err := newPool(t, Config{}).launchGPUs(1, accelerators.Accelerator{Name: "GTX1080Ti", Count: 2})
	if err != nil || len(nodes) != 1 || nodes[0].Offer.Accelerator.Count != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// The parts of a divided GPU are offered if this program's own CUDA_VISIBLE_DEVICES names them.
func TestPartsOfGPUs(t *testing.T) {
	withNVIDIAScript(t, `case "$*" in
-L) printf '%s\n' 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)' '  MIG 3g.20gb     Device  0: (UUID: MIG-11aa)' '  MIG 3g.20gb     Device  1: (UUID: MIG-22bb)' '  MIG 1g.5gb      Device  2: (UUID: MIG-33cc)' ;;
*) echo '0, GPU-aa, NVIDIA A100-SXM4-40GB, 40960, Enabled' ;;
esac`)
	if all := newPool(t, Config{}).offers(accelerators.A100()); len(all) != 1 || !all[0].Accelerator.IsZero() {
		t.Errorf("without a choice: %+v", all)
	}
	t.Setenv(visibleEnv, "MIG-22bb,MIG-11aa,MIG-33cc")
	half, err := accelerators.Parse("A100:0.5")
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, Config{})
	all := p.offers(half)
	if len(all) != 2 || !half.Matches(all[0].Accelerator) || all[0].Accelerator.MemoryGiB != 20 || all[0].Available != 2 || half.Matches(all[1].Accelerator) {
		t.Fatalf("%+v", all)
	}
	if accelerators.A100().Matches(all[0].Accelerator) {
		t.Error("a half is a whole")
	}
	nodes, err := p.launchGPUs(1, half)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.output(nodes[0], `echo "$CUDA_VISIBLE_DEVICES"`); got != "MIG-22bb\n" {
		t.Errorf("the node may use %q", got)
	}
}

// An nvidia-smi that fails is an error with its words; nodes without GPUs need none.
func TestNvidiaSmiThatFails(t *testing.T) {
	withNVIDIAScript(t, `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`)
	p := newPool(t, Config{})
	if _, err := p.Launch(t.Context(), func() driver.Launch {
		req := p.request(1)
		req.Offer.Accelerator = accelerators.L4()
		return req
	}()); err == nil || len(names(t, p.dir)) > 0 {
		t.Errorf("launched: %v; left behind: %v", err, names(t, p.dir))
	}
	for _, err := range p.Offers(t.Context(), driver.Query{Accelerator: accelerators.L4()}) {
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "couldn't communicate") {
			t.Errorf("offers: %v", err)
		}
	}
	if all := p.offers(accelerators.Accelerator{}); len(all) != 1 {
		t.Errorf("offers %+v", all)
	}
	withNVIDIAScript(t, `echo "No devices were found"; exit 6`)
	if all := newPool(t, Config{}).offers(accelerators.L4()); len(all) != 1 || !all[0].Accelerator.IsZero() {
		t.Errorf("without GPUs: %+v", all)
	}
}

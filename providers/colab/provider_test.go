package colab_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/driver"
)

func open(t *testing.T, c colab.Config) driver.Driver {
	t.Helper()
	withAgent(t)
	d, err := c.Open(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

func offers(t *testing.T, d driver.Driver) (all []driver.Offer) {
	t.Helper()
	for o, err := range d.Offers(t.Context(), driver.Query{}) {
		must(t, err)
		all = append(all, o)
	}
	return all
}

func TestLifeOfARuntime(t *testing.T) {
	d := open(t, colab.Config{Endpoint: example})
	caps := d.Capabilities()
	if !caps.Adopts || !caps.Free || caps.KeepCache || caps.Spot || caps.HostKeys != driver.HostKeyConfigured || caps.ProvisionTimeout == 0 {
		t.Errorf("capabilities %+v", caps)
	}
	want := driver.Offer{Provider: "colab", ID: exampleFingerprint, InstanceType: "runtime", Region: "colab", Host: exampleFingerprint, HourlyUSD: driver.USD(0), Available: 1}
	if got := offers(t, d); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Fatalf("offers %+v, want %+v alone", got, want)
	}
	request := func(ranks ...int) driver.Launch {
		req := driver.Launch{Offer: want}
		for _, rank := range ranks {
			req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: fmt.Sprint("p-", rank)})
		}
		return req
	}
	if got, err := d.Launch(t.Context(), request(0, 1)); len(got) != 0 || !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("two nodes: %+v, %v", got, err)
	}
	got, err := d.Launch(t.Context(), request(0))
	must(t, err)
	if in := got[0]; len(got) != 1 || in.ID != exampleFingerprint || in.Name != "p-0" || in.State != driver.InstanceRunning || !reflect.DeepEqual(in.Offer, want) ||
		in.SSH.Addr != "0.tcp.ngrok.io:14022" || in.SSH.User != "root" || in.PrivateAddr != "127.0.0.1" || len(in.SSH.HostKeys) != 1 || in.SSH.HostKeys[0] != exampleKey {
		t.Errorf("launched %+v", got)
	}
	if got := offers(t, d); len(got) != 0 {
		t.Errorf("a runtime that is taken is offered: %+v", got)
	}
	if got, err := d.Launch(t.Context(), request(1)); len(got) != 0 || !errors.Is(err, driver.ErrNoCapacity) || strings.Contains(err.Error(), "Hosts") {
		t.Errorf("a second node: %+v, %v", got, err)
	}
	if left, err := d.List(t.Context(), ""); len(left) != 0 || err != nil {
		t.Errorf("listed %+v, %v", left, err)
	}
	for range 2 { // the second is a repetition
		must(t, d.Terminate(t.Context(), exampleFingerprint, "unheard of"))
	}
	found, err := d.Describe(t.Context(), exampleFingerprint, "unheard of")
	must(t, err)
	if len(found) != 2 || found[0].State != driver.InstanceTerminated || !strings.Contains(found[0].StateReason, "disconnect it in the notebook") ||
		found[1].ID != "unheard of" || found[1].State != driver.InstanceTerminated || !strings.Contains(found[1].StateReason, "another host key") {
		t.Errorf("described %+v", found)
	}
	if got := offers(t, d); len(got) != 1 {
		t.Errorf("a runtime that was given back is not offered: %+v", got)
	}
}

// Another program with the runtime's next address takes it over.
func TestTakeUp(t *testing.T) {
	next := colab.Endpoint{Host: "4.tcp.eu.ngrok.io", Port: 10001, HostKey: exampleFingerprint}
	d := open(t, colab.Config{Endpoint: next, KeepCache: true})
	found, err := d.Describe(t.Context(), exampleFingerprint)
	must(t, err)
	if in := found[0]; in.State != driver.InstanceRunning || in.SSH.Addr != "4.tcp.eu.ngrok.io:10001" {
		t.Errorf("described %+v", in)
	}
	if !d.Capabilities().KeepCache {
		t.Error("KeepCache is not passed on")
	}
}

// The probe reports the runtime's accelerators by its nvidia-smi.
func TestProbe(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	scripts := open(t, colab.Config{Endpoint: example}).(driver.Scripter).Scripts(driver.Instance{})
	for _, tt := range []struct {
		name string
		smi  string // the script of nvidia-smi; "" if there is none
		env  string
		want accelerators.Accelerator
	}{
		{"no GPU", "", "", accelerators.Accelerator{}},
		{"T4", "echo Tesla T4, 15360", "", accelerators.T4(accelerators.Count(1), accelerators.Memory(15))},
		{"A100", "echo NVIDIA A100-SXM4-40GB, 40960", "", accelerators.A100(accelerators.Count(1), accelerators.Memory(40), accelerators.Form(accelerators.SXM))},
		{"a name that the driver cuts short", "echo NVIDIA H200, 143771", "", accelerators.H200(accelerators.Count(1), accelerators.Memory(143771./1024), accelerators.Form(accelerators.SXM))},
		{"two", "echo NVIDIA L4, 23034; echo NVIDIA L4, 23034", "", accelerators.L4(accelerators.Count(2), accelerators.Memory(23034./1024))},
		{"an unknown name", "echo NVIDIA Z9, 1024", "", accelerators.Exact("NVIDIA Z9", accelerators.Count(1), accelerators.Memory(1))},
		{"memory that is not told", "echo 'Tesla T4, [N/A]'", "", accelerators.T4(accelerators.Count(1))},
		{"no devices", "echo No devices were found", "", accelerators.Accelerator{}},
		{"a driver that fails", "echo NVIDIA-SMI has failed, 0; exit 9", "", accelerators.Accelerator{}},
		{"a warning, and status 14", "echo WARNING: infoROM is corrupted; echo Tesla T4, 15360; exit 14", "", accelerators.T4(accelerators.Count(1), accelerators.Memory(15))},
		{"one that needs a reset", "echo 'Tesla T4, [GPU requires reset]'", "", accelerators.Accelerator{}},
		{"TPU", "", "TPU_ACCELERATOR_TYPE=v5e-1", accelerators.Exact("TPU")},
		{"a GPU with a variable for TPUs", "echo Tesla T4, 15360", "TPU_X=", accelerators.T4(accelerators.Count(1), accelerators.Memory(15))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			smi := "exit 127"
			if tt.smi != "" {
				smi = `[ "$1" = --query-gpu=name,memory.total ] || exit 2; ` + tt.smi
			}
			script(t, filepath.Join(bin, "nvidia-smi"), smi)
			cmd := exec.Command(sh, "-c", scripts.Probe)
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), tt.env}
			out, err := cmd.Output()
			must(t, err)
			if got, err := scripts.Probed(driver.Query{}, string(out)); got != tt.want || err != nil {
				t.Errorf("of %q it makes %+v, %v; want %+v", out, got, err, tt.want)
			}
		})
	}
}

// Advise has a hint for every kind of error of an unreachable runtime, and for no other.
func TestAdvise(t *testing.T) {
	adviser := open(t, colab.Config{Endpoint: example}).(driver.Adviser)
	for kind, says := range map[error]string{
		driver.ErrHostKey: "whole endpoint", driver.ErrAuth: "KeyFile", driver.ErrUnavailable: "the last endpoint that it printed",
	} {
		if got := adviser.Advise(driver.Instance{}, kind); !strings.Contains(got, says) {
			t.Errorf("for %v: %q", kind, got)
		}
	}
	if got := adviser.Advise(driver.Instance{}, driver.ErrFenced); got != "" {
		t.Errorf("for a pool that was taken over: %q", got)
	}
}

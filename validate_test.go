package gputrain_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

func TestSpecFaultsComeAllAtOnce(t *testing.T) {
	spec := gputrain.Spec{
		Nodes: -1, MinReady: 5, Concurrency: -2, VCPUs: math.NaN(), MemoryGiB: math.Inf(1), DiskGiB: -1,
		Lease: time.Millisecond, TTL: -time.Second, BudgetUSD: -3, Arch: "x86_64", Regions: []string{"north", " "},
		AnyOf: []accelerators.Accelerator{{}, accelerators.H100(accelerators.Count(-1))}, Accelerator: accelerators.T4(),
		Speed: map[string]float64{"H100": 0, "no such thing!": 1, "": 2}, Countries: []string{"USA", "de"}, Tags: map[string]string{"": "x", "Gputrain-pool": "y"},
		WaitForCapacity: -time.Hour, ProvisionTimeout: -1, GPUSharing: 49,
		InstanceTypes: []string{"", "a\x00"}, MaxVCPUs: math.Inf(1), MaxMemoryGiB: -2, MinHourlyUSD: math.NaN(),
		Mounts: []gputrain.Mount{{Source: "", Target: "data"}, {Source: "/x", Target: "/"}},
		Image: gputrain.Image{
			Env: map[string]string{"A=B": "x", "1A": "y", "GPUTRAIN_X": "z"}, Setup: []string{" "}, Apt: []string{"-o"},
			PipIndexes: []string{"https://user:hunter2@index.example/simple"},
		},
	}
	err := spec.Validate()
	if !errors.Is(err, gputrain.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"Nodes is -1", "MinReady is 5", "Concurrency", "VCPUs is NaN", "MemoryGiB", "DiskGiB", "Lease", "TTL", "BudgetUSD", `"amd64"`, "Regions[1] is empty",
		"Accelerator and AnyOf are set", "AnyOf[0] asks for no accelerator", "AnyOf[1]: ", `Speed["H100"] is 0`, `Speed["no such thing!"]: `, `Speed[""]: `, `Countries[0] is "USA"`,
		`Tags has the name ""`, `Tags has the name "Gputrain-pool"`, "WaitForCapacity is -1h0m0s", "ProvisionTimeout is -1ns", "GPUSharing is 49; MPS serves 48",
		"InstanceTypes[0] is empty", "InstanceTypes[1] has a NUL byte", "MaxVCPUs is +Inf", "MaxMemoryGiB is -2", "MinHourlyUSD is NaN",
		`"data" is not an absolute path`, "Source is empty", "the node's root", `"A=B"`, `"1A"`, "gputrain's own", "Setup[0] is empty", `"-o"`, "user or password"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("the error contains the password")
	}
}

func TestSpecsThatAreRight(t *testing.T) {
	for _, s := range []gputrain.Spec{
		{}, {Nodes: 4, MinReady: 2}, {Lease: time.Minute, TTL: time.Hour},
		{Mounts: []gputrain.Mount{{Source: "vol", Target: "/data"}}},
		{VCPUs: 2, MaxVCPUs: 2, MemoryGiB: 1, MaxDiskGiB: 5, MinHourlyUSD: 1, MaxHourlyUSD: 1}, {MinHourlyUSD: 1}, {InstanceTypes: []string{"t4.1"}},
		{Accelerator: accelerators.Any(), GPUSharing: 48}, {GPUSharing: 1},
		{AnyOf: []accelerators.Accelerator{accelerators.H100()}, Speed: map[string]float64{"A100-80GB": 0.5}, Countries: []string{"us", "DE"}, Tags: map[string]string{"team": ""}, WaitForCapacity: time.Hour},
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for want, s := range map[string]gputrain.Spec{
		"GPUSharing is -1": {GPUSharing: -1}, "there is no accelerator to share; set Accelerator": {GPUSharing: 2},
		"MI300X is not NVIDIA's":  {GPUSharing: 2, AnyOf: []accelerators.Accelerator{accelerators.H100(), accelerators.MI300X()}},
		"any-AMD is not NVIDIA's": {GPUSharing: 2, Accelerator: accelerators.Any(accelerators.Vendor("AMD"))},
	} {
		if err := s.Validate(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", s, err, want)
		}
	}
	if err := (gputrain.Spec{MinReady: 2}).Validate(); err == nil {
		t.Error("Validate accepts a MinReady of more than the one node that zero Nodes means")
	}
}

func TestBoundsThatCross(t *testing.T) {
	for want, s := range map[string]gputrain.Spec{
		"VCPUs is 4, more than the 2 of MaxVCPUs":              {VCPUs: 4, MaxVCPUs: 2},
		"MemoryGiB is 4, more than the 2 of MaxMemoryGiB":      {MemoryGiB: 4, MaxMemoryGiB: 2},
		"DiskGiB is 4, more than the 2 of MaxDiskGiB":          {DiskGiB: 4, MaxDiskGiB: 2},
		"MinHourlyUSD is 4, more than the 2.5 of MaxHourlyUSD": {MinHourlyUSD: 4, MaxHourlyUSD: 2.5},
	} {
		if err := s.Validate(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestTaskFaults(t *testing.T) {
	for name, task := range map[string]gputrain.Task{
		"empty":       {},
		"no command":  gputrain.Cmd(""),
		"no script":   gputrain.Script(" \n"),
		"both":        {Args: []string{"a"}, Script: "b"},
		"NUL":         gputrain.Cmd("a", "b\x00"),
		"env name":    {Args: []string{"a"}, Env: map[string]string{"A=B": ""}},
		"env NUL":     {Args: []string{"a"}, Env: map[string]string{"A": "\x00"}},
		"secret name": {Args: []string{"a"}, Secrets: map[string]gputrain.Secret{"": ""}},
		"twice":       {Args: []string{"a"}, Env: map[string]string{"A": ""}, Secrets: map[string]gputrain.Secret{"A": ""}},
		"retries":     {Args: []string{"a"}, Retries: -1},
		"timeout":     {Args: []string{"a"}, Timeout: -1},
		"output":      {Args: []string{"a"}, Outputs: []string{"../x"}},
		"abs output":  {Args: []string{"a"}, Outputs: []string{"/x"}},
		"name":        {Args: []string{"a"}, Name: "a\nb"},
		"sync":        {Args: []string{"a"}, Outputs: []string{"x"}, SyncEvery: -time.Second},
		"sync often":  {Args: []string{"a"}, Outputs: []string{"x"}, SyncEvery: time.Millisecond},
		"sync what":   {Args: []string{"a"}, SyncEvery: time.Second},
	} {
		if err := task.Validate(); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSpecValidate(f *testing.F) {
	f.Add(1, 1, 1.0, "/data", "NAME", "true", "pkg", int64(time.Minute))
	f.Add(-1, 9, math.NaN(), "data", "A=B", "", "-o", int64(-1))
	f.Fuzz(func(t *testing.T, nodes, ready int, amount float64, target, name, command, pkg string, lease int64) {
		s := gputrain.Spec{
			Nodes: nodes, MinReady: ready, VCPUs: amount, Lease: time.Duration(lease),
			Accelerator: accelerators.Accelerator{Name: pkg, Count: amount},
			Mounts:      []gputrain.Mount{{Source: "s", Target: target}},
			Image:       gputrain.Image{Env: map[string]string{name: command}, Setup: []string{command}, Apt: []string{pkg}, PipIndexes: []string{target}},
		}
		err := s.Validate()
		if err == nil && (nodes < 0 || ready < 0 || ready > max(nodes, 1) || math.IsNaN(amount) || amount < 0 || lease < 0 ||
			!strings.HasPrefix(target, "/") || strings.ContainsAny(name, "= \x00") || name == "" || strings.TrimSpace(command) == "" || strings.Contains(command, "\x00")) {
			t.Errorf("accepted %+v", s)
		}
		if err != nil && !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v is not ErrInvalid", err)
		}
	})
}

// Credentials in Env are refused with a hint, and so are secrets that no process can have, or that an Env has too. No
// message has a value.
func TestSecretsAndCredentials(t *testing.T) {
	spec := gputrain.Spec{
		Secrets: map[string]gputrain.Secret{"A-B": "hunter2", "UID": "hunter2", "GPUTRAIN_X": "hunter2", "TWICE": "hunter2", "NUL": "hunter2\x00", "REF": "env://"},
		Image:   gputrain.Image{Env: map[string]string{"TWICE": "hunter2", "HF_TOKEN": "hunter2", "TOKENIZERS_PARALLELISM": "false", "SSL_KEY": "/etc/key"}},
	}
	task := gputrain.Cmd("true")
	task.Env = map[string]string{"DB_PASSWORD": "hunter2", "MAX_TOKENS": "512", "PASSWORD": ""}
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{spec.Validate(), []string{
			`Secrets has the name "A-B"`, `Secrets has the name "UID", which shells use themselves`, "names with GPUTRAIN_ are gputrain's own", "TWICE is in both Image.Env and Secrets",
			`Secrets["NUL"] has a NUL byte`, `Secrets["REF"]: "env://" names no variable`, `Image.Env["HF_TOKEN"] is a credential by its name, and Env is kept in clear; use Spec.Secrets, or another name if it is none`,
		}},
		{task.Validate(), []string{`Env["DB_PASSWORD"] is a credential by its name, and Env is kept in clear; use Task.Secrets or Spec.Secrets, or another name if it is none`}},
	} {
		if !errors.Is(tt.err, gputrain.ErrInvalid) {
			t.Fatalf("%v", tt.err)
		}
		for _, want := range tt.want {
			if !strings.Contains(tt.err.Error(), want) {
				t.Errorf("the error lacks %q: %v", want, tt.err)
			}
		}
		for _, not := range []string{"hunter2", "TOKENIZERS", "SSL_KEY", "MAX_TOKENS", `"PASSWORD"`} {
			if strings.Contains(tt.err.Error(), not) {
				t.Errorf("the error has %q: %v", not, tt.err)
			}
		}
	}
}

// A function has no terminal, and With takes none.
func TestFunctionsHaveNoTerminal(t *testing.T) {
	call := double.Call(1)
	call.TTY = true
	if err := call.Validate(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "a call of a function has no terminal") {
		t.Errorf("%v", err)
	}
}

// A duration of a few nanoseconds is a number whose unit was forgotten: every field that is one refuses it, with the way to write it.
func TestDurationsWithoutAUnit(t *testing.T) {
	command := gputrain.Cmd("true")
	command.Name, command.Outputs = "train", []string{"x"}
	for _, all := range []interface{ Validate() error }{&gputrain.Spec{Nodes: 1}, &command} {
		fields := 0
		var walk func(v reflect.Value)
		walk = func(v reflect.Value) {
			for i := range v.NumField() {
				f, name := v.Field(i), v.Type().Field(i).Name
				switch {
				case f.Type() == reflect.TypeFor[time.Duration]():
					fields++
					f.SetInt(3600)
					if err := all.Validate(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), name+" is 3.6µs; a number without a unit is nanoseconds") {
						t.Errorf("%T: %s: %v", all, name, err)
					}
					f.SetInt(0)
				case f.Kind() == reflect.Struct && f.Type().PkgPath() == v.Type().PkgPath() && v.Type().Field(i).IsExported():
					walk(f)
				}
			}
		}
		walk(reflect.ValueOf(all).Elem())
		if fields < 4 {
			t.Errorf("%T has %d durations", all, fields)
		}
		if err := all.Validate(); err != nil {
			t.Error(err)
		}
	}
}

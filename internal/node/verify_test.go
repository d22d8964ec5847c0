package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/nvidia"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// TestCountDevices counts the wanted devices in what nodes report. An unknown name is none of them.
func TestCountDevices(t *testing.T) {
	for _, tt := range []struct {
		want  accelerators.Accelerator
		lines string
		n     int
	}{
		{accelerators.A100(accelerators.Count(2), accelerators.Memory(80)), "NVIDIA A100-SXM4-80GB, 81920; NVIDIA A100-SXM4-80GB, 81920", 2},
		{accelerators.A100(accelerators.Memory(80)), "NVIDIA A100-SXM4-40GB, 40960", 0},
		{accelerators.H100(), "NVIDIA H100 PCIe, 81559; NVIDIA A100-SXM4-80GB, 81920", 1},
		{accelerators.H100(), "NVIDIA Something Nobody Knows, 81559", 0},
		{accelerators.A100(accelerators.Count(2)), "NVIDIA A100-PCIE-40GB, 40960; Quadro P400, 2000", 1},
		{accelerators.A100(accelerators.Count(2)), "NVIDIA GeForce GT 710, 2048; NVIDIA GeForce GT 710, 2048", 0},
		{accelerators.A100(), "NVIDIA A100-PCIE-40GB, [GPU requires reset]", 0},
		{accelerators.A100(), "[GPU is lost], [GPU is lost]", 0},
		{accelerators.A100(), "[Unknown Error], 40960", 0},
		{accelerators.Any(accelerators.Memory(48)), "NVIDIA Something Nobody Knows, 49140; NVIDIA Something Nobody Knows, 8192; NVIDIA Another, [N/A]", 1},
		{accelerators.Any(), "Quadro P400, 2000", 1},
		{accelerators.Any(accelerators.Capability(8)), "NVIDIA Something Nobody Knows, 49140; NVIDIA A40, 46068", 1},
		{accelerators.T4(), "Tesla T4, 15109", 1},
		{accelerators.T4(), "Tesla T4, [N/A]", 1},
		{accelerators.T4(), "Tesla T4, [Insufficient Permissions]", 1},
		{accelerators.T4(), "", 0},
	} {
		well, _, _ := nvidia.Devices(strings.ReplaceAll(tt.lines, "; ", "\n"))
		if n, _ := countDevices(well, tt.want); n != tt.n {
			t.Errorf("%q has %d of %v; want %d", tt.lines, n, tt.want, tt.n)
		}
	}
}

// A machine without a driver has what lspci names. What that has no name for may be what the provider has promised, and is
// nothing on a host that promises nothing.
func TestPluggedDevices(t *testing.T) {
	for _, tt := range []struct {
		want     accelerators.Accelerator
		lines    string
		promised bool
		lacks    string
	}{
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", false, ""},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation GA102GL [A10G] (rev a1)", true, "it has 0: 00:1e.0 3D controller: NVIDIA Corporation GA102GL [A10G]"},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation GT218 [Strange 9] (rev a1)", true, "it has 0"},
		{accelerators.H100(), "01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)", true, ""},
		{accelerators.H100(), "01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)", false, "it has 0: 01:00.0 3D controller: NVIDIA Corporation Device 2330"},
		{accelerators.T4(accelerators.Count(2)), "00:1e.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)\n00:1f.0 3D controller: NVIDIA Corporation Device 1eb8 (rev a1)", false, "it has 1: "},
		{accelerators.T4(), "", false, ""}, // it reports nothing
	} {
		v := verifying(tt.want, "")
		v.facts.Tools, v.promised = nil, tt.promised
		v.ask = func(context.Context, string) (string, string, error) { return tt.lines, "", nil }
		err := v.accelerators(t.Context())
		if got := strings.Join(v.lacking, "; "); err != nil || (got == "") != (tt.lacks == "") || !strings.Contains(got, tt.lacks) {
			t.Errorf("%v on %q: %q, %v; want %q", tt.want, tt.lines, got, err, tt.lacks)
		}
	}
}

// What nvidia-smi says besides its rows, and its status, take nothing from the devices that are well, and are told. Devices that are
// not well do not count.
func TestOddAnswersOfNvidiaSmi(t *testing.T) {
	const a100 = "NVIDIA A100-PCIE-40GB, 40960\n"
	const infoROM, handle = "WARNING: infoROM is corrupted at gpu 0000:B3:00.0", "Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error"
	for _, tt := range []struct {
		name        string
		count       float64
		out, stderr string
		code        int
		lacks       string
		unwell      []string
		sick        []int
	}{
		{"a warning", 2, a100 + a100 + infoROM + "\n", "", 0, "", []string{infoROM}, nil},
		{"a warning first, with status 14", 2, infoROM + "\n" + a100 + a100, "", 14, "", []string{infoROM}, nil},
		{"a warning on stderr", 2, a100 + a100, infoROM + "\n", 14, "", []string{infoROM}, nil},
		{"one lost of four", 3, a100 + handle + "\n" + a100 + a100, "", 15, "", []string{handle}, nil},
		{"one lost of two", 2, a100, handle + "\n", 15, "it has 1: NVIDIA A100-PCIE-40GB, 40960, " + handle, nil, nil},
		{"needs a reset", 1, "NVIDIA A100-PCIE-40GB, [GPU requires reset]\n" + a100, "", 0, "", []string{"NVIDIA A100-PCIE-40GB, [GPU requires reset]"}, []int{0}},
		{"both are wanted", 2, a100 + "NVIDIA A100-PCIE-40GB, [GPU requires reset]\n", "", 0, "it has 1: NVIDIA A100-PCIE-40GB, 40960, NVIDIA A100-PCIE-40GB, [GPU requires reset]", nil, nil},
		{"another card", 2, a100 + "Quadro P400, 2000\n", "", 0, "it has 1: NVIDIA A100-PCIE-40GB, 40960, Quadro P400, 2000", nil, nil},
		{"others", 2, "NVIDIA GeForce GT 710, 2048\nNVIDIA GeForce GT 710, 2048\n", "", 0, "it has 0: NVIDIA GeForce GT 710, 2048, NVIDIA GeForce GT 710, 2048", nil, nil},
		{"nothing", 1, "No devices were found\n", "", 6, "its driver is not well", nil, nil},
		{"nothing, with status 0", 1, "No devices were found\n", "", 0, "it has 0: No devices were found", nil, nil},
		{"nothing at all", 1, "", "", 0, "it has 0: it has no accelerator", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verifying(accelerators.A100(accelerators.Count(tt.count)), "")
			v.ask = func(_ context.Context, text string) (string, string, error) {
				if text != listNvidia {
					return "0", "", nil
				}
				if tt.code != 0 {
					return tt.out, tt.stderr, &ssh.ExitError{Code: tt.code}
				}
				return tt.out, tt.stderr, nil
			}
			err := v.accelerators(t.Context())
			if got := strings.Join(v.lacking, "; "); err != nil || (got == "") != (tt.lacks == "") || !strings.Contains(got, tt.lacks) {
				t.Errorf("%q, %v; want %q", got, err, tt.lacks)
			}
			if !slices.Equal(v.unwell, tt.unwell) || !slices.Equal(v.sick, tt.sick) {
				t.Errorf("unwell %q in rows %v", v.unwell, v.sick)
			}
		})
	}
	v := verifying(accelerators.Any(accelerators.TotalMemory(80)), a100+a100, "0")
	if err := v.accelerators(t.Context()); err != nil || v.lacking != nil {
		t.Errorf("80 GiB of two: %q, %v", v.lacking, err)
	}
	v = verifying(accelerators.Any(accelerators.TotalMemory(160)), a100+a100, "0")
	if err := v.accelerators(t.Context()); err != nil || len(v.lacking) != 1 {
		t.Errorf("160 GiB of two: %q, %v", v.lacking, err)
	}
	v = verifying(accelerators.Any(accelerators.Vendor("nvidia")), "NVIDIA Something Nobody Knows, 1024", "0")
	if err := v.accelerators(t.Context()); err != nil || v.lacking != nil {
		t.Errorf("any of NVIDIA's: %q, %v", v.lacking, err)
	}
}

// verifying returns a verifier for a machine with nvidia-smi that lists the devices. CUDA returns the codes in turn,
// and the last one again and again.
func verifying(want accelerators.Accelerator, devices string, codes ...string) *verifier {
	return &verifier{
		query: driver.Query{Accelerator: want}, facts: supervisor.Facts{Tools: map[string]bool{"nvidia-smi": true}},
		ask: func(_ context.Context, text string) (string, string, error) {
			if text == listNvidia {
				return devices, "", nil
			}
			code := codes[0]
			if len(codes) > 1 {
				codes = codes[1:]
			}
			if code == "fails" {
				return "", "oops", &ssh.ExitError{Code: 1}
			}
			return code + "\n", "", nil
		},
	}
}

// A node whose driver lists its devices, but cannot use them, is waited for as long as it reports that it is not ready
// yet. Then it is refused.
func TestCUDAPatience(t *testing.T) {
	for name, tt := range map[string]struct {
		codes []string
		want  string
		after time.Duration
	}{
		"works":       {[]string{"0"}, "", 0},
		"no CUDA":     {[]string{""}, "", 0},
		"fails":       {[]string{"fails"}, "", 0},
		"ready later": {[]string{"802", "802", "802", "0"}, "", 3 * cudaPause},
		"never ready": {[]string{"802"}, "its accelerators are not ready 3m0s after it came up: cuInit says 802", cudaPatience + cudaPause},
		"unusable":    {[]string{"999"}, "its driver lists the accelerators, and CUDA cannot use them: cuInit says 999", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				began := time.Now()
				v := verifying(accelerators.H100(), "NVIDIA H100 80GB HBM3, 81559", tt.codes...)
				if err := v.accelerators(t.Context()); err != nil {
					t.Error(err)
				}
				if got := strings.Join(v.lacking, "; "); got != tt.want || time.Since(began) != tt.after {
					t.Errorf("after %v: %q; want %q after %v", time.Since(began), got, tt.want, tt.after)
				}
			})
		})
	}
}

// A machine that does not answer about its accelerators has a broken driver. A machine that cannot be reached is not
// refused for that.
func TestAcceleratorsThatCannotBeListed(t *testing.T) {
	h100 := accelerators.H100(accelerators.Count(2))
	bubble.Test(t, func(t *testing.T) {
		v := verifying(h100, "NVIDIA H100 80GB HBM3, 81559", "0")
		if err := v.accelerators(t.Context()); err != nil || len(v.lacking) != 1 || !strings.Contains(v.lacking[0], "it has 1: NVIDIA H100") {
			t.Errorf("with one of two: %q, %v", v.lacking, err)
		}
		v = verifying(h100, "")
		v.ask = func(ctx context.Context, _ string) (string, string, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		}
		began := time.Now()
		if err := v.accelerators(t.Context()); err != nil || len(v.lacking) != 1 || time.Since(began) != verifyTimeout {
			t.Errorf("with a driver that hangs: %q, %v after %v", v.lacking, err, time.Since(began))
		}
		v = verifying(h100, "")
		v.ask = func(context.Context, string) (string, string, error) {
			return "", "NVIDIA-SMI has failed\nsince", fmt.Errorf("remote: %w", &ssh.ExitError{Code: 9})
		}
		if err := v.accelerators(t.Context()); err != nil || len(v.lacking) != 1 || !strings.HasSuffix(v.lacking[0], " NVIDIA-SMI has failed") {
			t.Errorf("with a driver that fails: %q, %v", v.lacking, err)
		}
		v.lacking, v.ask = nil, func(context.Context, string) (string, string, error) { return "", "", ssh.ErrDisconnected }
		if err := v.accelerators(t.Context()); !errors.Is(err, ssh.ErrDisconnected) || v.lacking != nil {
			t.Errorf("without a connection: %q, %v", v.lacking, err)
		}
		v.facts.Tools, v.ask = nil, func(context.Context, string) (string, string, error) { return "", "", nil }
		if err := v.accelerators(t.Context()); err != nil || v.lacking != nil {
			t.Errorf("without driver and lspci: %q, %v", v.lacking, err)
		}
	})
}

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// TestCountDevices counts the wanted devices in what nodes report.
func TestCountDevices(t *testing.T) {
	for _, tt := range []struct {
		want  accelerators.Accelerator
		lines string
		n     int
	}{
		{accelerators.A100(accelerators.Count(2), accelerators.Memory(80)), "NVIDIA A100-SXM4-80GB, 81920; NVIDIA A100-SXM4-80GB, 81920", 2},
		{accelerators.A100(accelerators.Memory(80)), "NVIDIA A100-SXM4-40GB, 40960", 0},
		{accelerators.H100(), "NVIDIA H100 PCIe, 81559; NVIDIA A100-SXM4-80GB, 81920", 1},
		{accelerators.H100(), "NVIDIA Something Nobody Knows, 1024", 1}, // it may be
		{accelerators.T4(), "Tesla T4, 15109", 1},
		{accelerators.T4(), "Tesla T4, [N/A]", 1},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", 1},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation GA102GL [A10G] (rev a1)", 0},
		{accelerators.T4(), "", 0},
	} {
		lines := strings.FieldsFunc(tt.lines, func(r rune) bool { return r == ';' })
		if n := countDevices(lines, tt.want); n != tt.n {
			t.Errorf("%q has %d of %v; want %d", tt.lines, n, tt.want, tt.n)
		}
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

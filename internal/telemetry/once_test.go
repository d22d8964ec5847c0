package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// MemoryFree waits until memory is free, and names what holds it if it does not become so.
func TestMemoryFree(t *testing.T) {
	const inUse = "0000:02:00.0 has 70000 MiB in use by process 4711 (python3)"
	for name, tt := range map[string]struct {
		used func(since time.Duration) string // of the second device; none means that the tool hangs
		only []string
		says string        // nothing if the memory becomes free
		took time.Duration // less than a pause more
	}{
		"free":               {used: func(time.Duration) string { return "11" }},
		"held":               {used: func(time.Duration) string { return "70000" }, says: inUse, took: time.Minute},
		"a device of others": {used: func(time.Duration) string { return "70000" }, only: []string{"0"}},
		"freed": {used: func(since time.Duration) string {
			if since < 21*time.Second {
				return "70000"
			}
			return "511"
		}, took: 21 * time.Second},
		"no longer told": {used: func(since time.Duration) string {
			if since < 21*time.Second {
				return "70000"
			}
			return "[N/A]"
		}, took: 21 * time.Second},
		"hangs": {used: func(time.Duration) string { return "" }, says: "no answer within 1m0s", took: time.Minute},
		"hangs later": {used: func(since time.Duration) string {
			if since < 21*time.Second {
				return "70000"
			}
			return ""
		}, says: inUse, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				begun := time.Now()
				server, c := connected(t, sshd.Config{Run: func(_ context.Context, p sshd.Program) int {
					used := tt.used(time.Since(begun))
					switch {
					case p.Command == listHolders:
						io.WriteString(p.Stdout, "00000000:01:00.0, 1, idler, 5\n00000000:02:00.0, 4711, python3, 69000\n")
					case used == "":
						io.Copy(io.Discard, p.Stdin)
					default:
						fmt.Fprintf(p.Stdout, "tool nvidia-smi index,pci.bus_id,memory.used\n0, 00000000:01:00.0, 11\n1, 00000000:02:00.0, %s\nended 0\n", used)
					}
					return 0
				}})
				defer server.Close()
				defer c.Close()
				err := MemoryFree(t.Context(), c, tt.only, 512, time.Minute)
				if took := time.Since(begun); took < tt.took || took >= tt.took+memoryPause {
					t.Errorf("it took %v", took)
				}
				if tt.says == "" && err != nil || tt.says != "" && (!errors.Is(err, driver.ErrAccelerator) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "idler")) {
					t.Errorf("%v", err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := MemoryFree(ctx, c, nil, 512, time.Minute); !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

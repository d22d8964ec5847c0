package telemetry

import (
	"context"
	"errors"
	"io"
	"math"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostText is what a machine with 64 GiB prints, of which programs cannot have 16.
const hostText = `cpu  100 0 100 700 100 0 0 0 0 0
MemTotal: 67108864
MemAvailable: 50331648
memory.max max
memory.current 4294967296
disk
Filesystem 1024-blocks Used Available Capacity Mounted on
/dev/a 104857600 26214400 78643200 25% /home
`

// A sample is of the time between two looks; a container's memory is that of its limit.
func TestHostSample(t *testing.T) {
	c, ok := parseHost(hostText)
	if want := (Host{MemoryGiB: 16, MemoryTotalGiB: 64, DiskGiB: 25, DiskTotalGiB: 100}); !ok || c.Host != want || c.busy != 200 || c.all != 1000 {
		t.Errorf("got %+v, %v", c, ok)
	}
	next, _ := parseHost(strings.Replace(hostText, "cpu  100 0 100 700 100", "cpu  150 0 150 900 100", 1))
	if h, ok := next.since(c); !ok || math.Abs(h.CPU-100.0/3) > 1e-9 {
		t.Errorf("%+v, %v", h, ok)
	}
	if h, ok := c.since(next); ok {
		t.Errorf("a machine that has begun anew: %+v", h)
	}
	limited, _ := parseHost(strings.Replace(hostText, "memory.max max", "memory.max 8589934592", 1))
	if limited.MemoryGiB != 4 || limited.MemoryTotalGiB != 8 {
		t.Errorf("with a limit: %+v", limited.Host)
	}
	for name, text := range map[string]string{
		"nothing": "", "words": "cpu x y\nMemTotal: z\ndisk\n", "no memory": "cpu 1 2 3 4\n", "no processors": "MemTotal: 5\nMemAvailable: 9\n",
		"infinite": "cpu 1e999 NaN -5\nMemTotal: 1e999\n",
	} {
		if c, ok := parseHost(text); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// The script works in each shell.
func TestHostScript(t *testing.T) {
	for name, shell := range shells(t) {
		out, err := exec.Command(shell[0], append(append([]string{}, shell[1:]...), "-c", hostScript)...).Output()
		if c, ok := parseHost(string(out)); err != nil || !ok || c.MemoryGiB <= 0 || c.MemoryGiB > c.MemoryTotalGiB || c.DiskGiB <= 0 || c.DiskGiB > c.DiskTotalGiB {
			t.Errorf("%s: %v, %+v, %q", name, err, c, out)
		}
	}
}

// A machine is a node that prints a text.
type machineText func() (string, error)

func (m machineText) Exec(_ context.Context, _ string, _ io.Reader, out, _ io.Writer) error {
	text, err := m()
	io.WriteString(out, text)
	return err
}

// A node that cannot be reached, fails or lies has no sample, and the next look goes on.
func TestWatchHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		look := 0
		var told []Host
		on := machineText(func() (string, error) {
			look++
			switch look {
			case 2:
				return "", errors.New("the connection is cut")
			case 3:
				return strings.Repeat("cpu 1 1 1 1\n", 100_000), nil
			case 5:
				return strings.Replace(hostText, "100 0 100 700", "600 0 600 700", 1), nil
			}
			return hostText, nil
		})
		var down atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			WatchHost(ctx, on, func() bool { return !down.Load() }, time.Second, func(h Host) { told = append(told, h) })
		}()
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		if look != 5 || len(told) != 1 || told[0].CPU != 100 {
			t.Errorf("%d looks, %+v", look, told)
		}
		down.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if look != 5 {
			t.Errorf("a node that is down was asked %d times", look-5)
		}
		cancel()
		<-done
	})
}

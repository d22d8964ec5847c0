package telemetry

import (
	"context"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
)

// A Host is a sample of a machine. Its fields are those of gputrain.HostSample, which documents them.
type Host struct {
	CPU                       float64
	MemoryGiB, MemoryTotalGiB float64
	DiskGiB, DiskTotalGiB     float64
}

// hostScript prints the counters of a Linux machine. A container's own limits are in its cgroup. It starts one process, df.
const hostScript = `export LC_ALL=C
read -r line </proc/stat && echo "$line"
while read -r name n unit; do case $name in MemTotal:|MemAvailable:) echo "$name $n" ;; esac; done </proc/meminfo
for f in memory.max memory.current; do if [ -r /sys/fs/cgroup/$f ] && read -r n </sys/fs/cgroup/$f; then echo "$f $n"; fi; done
echo disk
exec df -Pk "$HOME"`

// hostTimeout bounds one look at a machine.
const hostTimeout = 20 * time.Second

// HostCommands runs commands on a node.
type HostCommands interface {
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
}

// WatchHost calls told with a sample of a machine, each time after every, until ctx ends. While the node cannot be reached, and
// on machines that are not Linux, there are none.
func WatchHost(ctx context.Context, on HostCommands, up func() bool, every time.Duration, told func(Host)) {
	var last counters
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ; ; last = last.look(ctx, on, up, told) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look takes one look, and returns what it has seen.
func (last counters) look(ctx context.Context, on HostCommands, up func() bool, told func(Host)) counters {
	if !up() {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	out := bounded.Buffer{Most: 64 << 10, First: true} // more than an honest machine prints
	if on.Exec(ctx, hostScript, nil, &out, io.Discard) != nil {
		return last
	}
	now, ok := parseHost(out.String())
	if !ok {
		return last
	}
	if h, ok := now.since(last); ok {
		told(h)
	}
	return now
}

// counters are what a machine has counted.
type counters struct {
	busy, all float64 // of the processors' time
	Host
}

// since returns a sample of the time between two looks, if there is any.
func (c counters) since(last counters) (Host, bool) {
	if last.all == 0 || c.all <= last.all || c.busy < last.busy {
		return Host{}, false
	}
	h := c.Host
	h.CPU = min(100*(c.busy-last.busy)/(c.all-last.all), 100)
	return h, true
}

// parseHost reads what hostScript has printed. It reports false if that has no time of processors, or no memory.
func parseHost(text string) (c counters, ok bool) {
	var available, limit, used float64
	disk := false
	const kib, gib = 1 << 10, 1 << 30
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 0 && f[0] == "disk" {
			disk = true
			continue
		}
		if len(f) < 2 {
			continue
		}
		if disk { // device, blocks, used, available, ...; the first line has words
			if len(f) >= 5 && measured(f[1]) > 0 {
				c.DiskGiB, c.DiskTotalGiB = measured(f[2])*kib/gib, measured(f[1])*kib/gib
			}
			continue
		}
		switch f[0] {
		case "cpu":
			for i, word := range f[1:min(len(f), 9)] { // user nice system idle iowait irq softirq steal
				n := measured(word)
				c.all += n
				if i != 3 && i != 4 {
					c.busy += n
				}
			}
		case "MemTotal:":
			c.MemoryTotalGiB = measured(f[1]) * kib / gib
		case "MemAvailable:":
			available = measured(f[1]) * kib / gib
		case "memory.max":
			limit = measured(f[1]) / gib
		case "memory.current":
			used = measured(f[1]) / gib
		}
	}
	c.MemoryGiB = max(c.MemoryTotalGiB-available, 0)
	if limit > 0 && limit < c.MemoryTotalGiB {
		c.MemoryGiB, c.MemoryTotalGiB = used, limit
	}
	return c, c.all > 0 && c.MemoryTotalGiB > 0
}

// measured returns a number that is not negative, or 0.
func measured(word string) float64 {
	n, err := strconv.ParseFloat(word, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0
	}
	return n
}

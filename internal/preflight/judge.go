package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// smallShm is the size of /dev/shm in a container whose engine was not asked for another one.
	smallShm = 64 << 20
	// leastDisk and leastFiles are less than a training program mostly needs.
	leastDisk, leastFiles = 1 << 30, 1024
	// A node's clock may be off by mostOffset.
	mostOffset = time.Second
	// A device with more than freeMiB in use has the memory of another process.
	freeMiB = 512
)

// nodeError returns an error that begins with the node.
func nodeError(n Node, format string, args ...any) error {
	return fmt.Errorf("node %d "+format, append([]any{n.Rank}, args...)...)
}

// addresses compares what is known of the nodes' network before anything runs.
func (c *check) addresses() {
	if len(c.nodes) < 2 {
		return
	}
	const hint = "set Spec.Network to gputrain.NetworkPrivate, which rents nodes that reach each other"
	for i, n := range c.nodes {
		first := c.nodes[0]
		switch {
		case n.Addr == "":
			c.add(Problem{i, -1, Refuse, fault(driver.ErrUnsupported, nodeError(n, "has no private address, by which the other nodes could reach it"), hint)})
		case n.Network != "" && first.Network != "" && n.Network != first.Network:
			c.add(Problem{i, 0, Refuse, fault(driver.ErrUnsupported, nodeError(n, "at %s is in the network of %s; node %d at %s is in that of %s", n.Addr, n.Network, first.Rank, first.Addr, first.Network), hint)})
		}
	}
}

// accelerators compares the nodes' accelerators and drivers with those of the first node that has answered.
func (c *check) accelerators() {
	first := -1
	for i, n := range c.nodes {
		if !c.answered[i] {
			continue
		}
		f := c.facts[i]
		if want := c.options.Accelerators; want > 0 && f.Accelerators != nil && len(f.Accelerators) < want {
			c.add(Problem{i, -1, Replace, fault(driver.ErrAccelerator, nodeError(n, "has %d accelerators; it had, or was to have, %d", len(f.Accelerators), want), "another machine takes its place")})
			continue
		}
		if first < 0 {
			first = i
			continue
		}
		peer, other := c.nodes[first], c.facts[first]
		differs := func(s Severity, has, had string) {
			c.add(Problem{i, first, s, fault(driver.ErrUnsupported, nodeError(n, "has %s; node %d has %s", has, peer.Rank, had), "the nodes of a gang should be alike: ask for one accelerator with an exact count, and one instance type")})
		}
		switch {
		case f.Accelerators == nil && other.Accelerators == nil:
		case len(f.Accelerators) != len(other.Accelerators):
			differs(Refuse, fmt.Sprintf("%d accelerators", len(f.Accelerators)), fmt.Sprint(len(other.Accelerators)))
		case f.Accelerators[0] != other.Accelerators[0]:
			differs(Refuse, "the accelerator "+f.Accelerators[0], other.Accelerators[0])
		case f.Driver != other.Driver:
			differs(Note, "the driver "+f.Driver, other.Driver)
		}
	}
}

// sample checks that a node's accelerators are whole and free.
func (c *check) sample(ctx context.Context, i int, n Node) {
	devices, err := n.Sample(ctx)
	bad := func(format string, args ...any) {
		c.add(Problem{i, -1, Replace, fault(driver.ErrAccelerator, nodeError(n, format, args...), "another machine takes its place")})
	}
	if err != nil {
		c.add(Problem{i, -1, Note, fault(nil, nodeError(n, "does not tell the state of its accelerators, which is unknown: %w", err), "")})
		return
	}
	if want := c.options.Accelerators; len(devices) < want {
		bad("reports %d accelerators; it had, or was to have, %d", len(devices), want)
	}
	for _, d := range devices {
		switch {
		case d.RemapFailed:
			bad("has accelerator %s, whose memory is broken: a row could not be remapped", d.Name)
		case d.RemapPending:
			bad("has accelerator %s, which needs a reset: a row of its memory is to be remapped", d.Name)
		case d.Uncorrected > 0:
			bad("has accelerator %s, whose memory had %d uncorrected errors", d.Name, d.Uncorrected)
		case d.UsedMiB > freeMiB:
			bad("has accelerator %s, of whose memory %.0f MiB are in use before anything has started", d.Name, d.UsedMiB)
		}
	}
}

// room notes what programs may lack on a node, and clocks that are off.
func (c *check) room() {
	for i, n := range c.nodes {
		if !c.answered[i] {
			continue
		}
		f := c.facts[i]
		note := func(is bool, hint, format string, args ...any) {
			if is {
				c.add(Problem{i, -1, Note, fault(nil, nodeError(n, format, args...), hint)})
			}
		}
		note(f.ShmBytes > 0 && f.ShmBytes <= smallShm && c.options.Processes > 1, "run the container with a larger one (docker run --shm-size), or set NCCL_SHM_DISABLE=1 and use no worker processes for data",
			"has %d MiB of /dev/shm for %d processes", f.ShmBytes>>20, c.options.Processes)
		note(f.DiskBytes >= 0 && f.DiskBytes < leastDisk, "ask for more in Spec.DiskGiB, or remove files", "has %d MiB of free disk", f.DiskBytes>>20)
		note(f.Memlock >= 0 && len(f.InfiniBand) > 0 && !c.options.NoInfiniBand, "raise it in /etc/security/limits.conf, or run the container with --ulimit memlock=-1",
			"may lock %d KiB of memory, and InfiniBand needs it without a limit (ulimit -l)", f.Memlock>>10)
		note(f.Files >= 0 && f.Files < leastFiles, "raise it in /etc/security/limits.conf, or run the container with --ulimit nofile=65536", "may open %d files (ulimit -n)", f.Files)
		note(f.Offset.Abs()-f.OffsetError >= mostOffset, "set it by NTP (timedatectl set-ntp true): what programs log on several nodes cannot be put in order by its times", "has a clock that is off by %v", f.Offset.Round(10*time.Millisecond))
		note(len(c.nodes) > 1 && n.Addr != "" && f.Interface == "", "set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME in Task.Env", "has no interface with its address %s, as far as ip, ifconfig and /proc/net tell", n.Addr)
		note(f.clockErr != nil, "", "does not tell its time: %w", f.clockErr)
	}
}

// infiniBand notes ports that are down. If some nodes have InfiniBand and others do not, NCCL cannot join them: the
// latter are replaced.
func (c *check) infiniBand() {
	active := func(i int) bool {
		for _, state := range c.facts[i].InfiniBand {
			if state == ibActive {
				return true
			}
		}
		return false
	}
	some := false
	for i := range c.nodes {
		some = some || active(i)
	}
	const hint = "NCCL_IB_DISABLE=1 in Task.Env does without InfiniBand, on all nodes"
	for i, n := range c.nodes {
		if !c.answered[i] || c.options.NoInfiniBand {
			continue
		}
		if some && !active(i) {
			c.add(Problem{i, -1, Replace, fault(driver.ErrUnavailable, nodeError(n, "has no active port of InfiniBand, and other nodes have one"), hint)})
		}
		for port, state := range c.facts[i].InfiniBand {
			if state != ibActive {
				c.add(Problem{i, -1, Note, fault(driver.ErrUnavailable, nodeError(n, "has the InfiniBand port %s in the state %q, not %q", port, state, ibActive), hint)})
			}
		}
	}
}

var errNoClock = errors.New("date printed nothing that is a time")

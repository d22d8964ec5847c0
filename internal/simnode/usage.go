package simnode

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
)

// usage is the sampler of internal/telemetry, on a machine with nvidia-smi and a kernel log that can be read.
func (n *Node) usage(p sshd.Program, once bool) int {
	if len(n.cfg.GPUs) == 0 {
		fmt.Fprintln(p.Stdout, "tool none")
		return 0
	}
	fmt.Fprintln(p.Stdout, "tool nvidia-smi index,uuid,pci.bus_id,name,memory.used,memory.total,utilization.gpu,clocks.sm,ecc.errors.uncorrected.volatile.total")
	if once {
		n.sample(p.Stdout)
		fmt.Fprintln(p.Stdout, "ended 0")
		return 0
	}
	fmt.Fprintln(p.Stdout, "kernel dmesg [0.000000] booted")
	log := make(chan string, 16)
	n.mu.Lock()
	n.samplers[log] = true
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.samplers, log)
	}()
	over := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { n.sampleUntil(over, log, p) })
	io.Copy(io.Discard, p.Stdin) // here: the server waits for the end of stdin, too, once this returns
	close(over)
	sampling.Wait()
	return 0
}

// sampleUntil prints a sample every ten seconds, and the lines of a log, until it is over.
func (n *Node) sampleUntil(over <-chan struct{}, log <-chan string, p sshd.Program) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	err := n.sample(p.Stdout)
	for err == nil {
		select {
		case <-over:
			return
		case line := <-log:
			_, err = fmt.Fprintln(p.Stderr, line)
		case <-tick.C:
			err = n.sample(p.Stdout)
		}
	}
}

// sample prints a sample of each device.
func (n *Node) sample(w io.Writer) error {
	busy := 0.0
	if n.hasTasks() {
		busy = 100
	}
	var text []byte
	for i, g := range n.cfg.GPUs {
		load := busy
		if n.cfg.Load != nil {
			load = n.cfg.Load(i)
		}
		clock := 1410.0
		if n.cfg.Clock != nil {
			clock = n.cfg.Clock(i)
		}
		if load >= 0 {
			text = fmt.Appendf(text, "%d, %s, %s, %s, %.0f, %d, %.0f, %.0f, 0\n", i, g.UUID, GPUAddress(i), g.Name, float64(g.MemoryMiB)*load/100, g.MemoryMiB, load, clock)
		}
	}
	_, err := w.Write(text)
	return err
}

// GPUAddress returns the PCI address of a device.
func GPUAddress(device int) string { return fmt.Sprintf("00000000:%02X:00.0", device+1) }

// Log writes a line to the kernel's log, with the time.
func (n *Node) Log(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for log := range n.samplers {
		select {
		case log <- fmt.Sprintf("[%d.000000] %s", time.Now().Unix(), line):
		default: // it is not read
		}
	}
}

// hasTasks reports whether a task runs on the node.
func (n *Node) hasTasks() (has bool) {
	n.eachTask(func(*task) { has = true })
	return has
}

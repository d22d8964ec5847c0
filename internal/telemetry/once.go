package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// Once returns one sample of each device of a node. On a node whose devices cannot be sampled the error is
// driver.ErrUnsupported.
func Once(ctx context.Context, c Commands) ([]Sample, error) {
	text, err := output(ctx, c, command("once"))
	if err != nil {
		return nil, err
	}
	var s stream
	var samples []Sample
	lost := ""
	read := lines{line: func(line string) {
		said := s.line(line)
		switch {
		case len(said.samples) > 0:
			samples = said.samples
		case said.lost != "":
			lost = said.lost
		case said.remap != nil:
			for i := range samples {
				if samples[i].PCI == said.remap.pci {
					samples[i].RemapPending, samples[i].RemapFailed = said.remap.pending, said.remap.failed
				}
			}
		}
	}}
	io.WriteString(&read, text)
	switch {
	case lost != "":
		return samples, &driver.Error{Op: "sample the accelerators", Kind: driver.ErrAccelerator, Err: errors.New(shorten(lost)), Hint: "the machine must be restarted, or another one rented"}
	case len(samples) == 0:
		why := errors.New("the node has no nvidia-smi, amd-smi or rocm-smi that works")
		if s.said != "" {
			why = fmt.Errorf("%w: %s", why, s.said)
		}
		return nil, &driver.Error{Op: "sample the accelerators", Kind: driver.ErrUnsupported, Err: why}
	}
	return samples, nil
}

// output runs a command that ends with its session, and returns its stdout.
func output(ctx context.Context, c Commands, command string) (string, error) {
	s, err := c.Open(ctx, command)
	if err != nil {
		return "", err
	}
	defer s.Close() // which ends the command
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go io.Copy(io.Discard, s.Stderr)
	go func() {
		text, err := io.ReadAll(io.LimitReader(s, maxJSON))
		if err == nil {
			err = s.Wait()
		}
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		return string(a.text), a.err
	case <-ctx.Done(): // a tool that hangs can keep the session
		return "", context.Cause(ctx)
	}
}

// memoryPause is the time between two samples while memory is waited for.
const memoryPause = 2 * time.Second

// listHolders lists the programs that use NVIDIA's devices: address, process ID, name, MiB.
const listHolders = "exec nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits"

// MemoryFree waits, for bound at most, until each of a node's devices uses less memory than a limit. The error is
// driver.ErrAccelerator if one does not, and names it and what holds its memory. A node whose devices do not tell has nothing to
// wait for. Of the devices those count that only names: see [Only].
func MemoryFree(ctx context.Context, c Commands, only []string, limitMiB float64, bound time.Duration) error {
	late := fmt.Errorf("no answer within %v", bound)
	waiting, cancel := context.WithTimeoutCause(ctx, bound, late)
	defer cancel()
	var held []Sample // at the last sample
	for {
		samples, err := Once(waiting, c)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, driver.ErrUnsupported):
			return nil
		case err != nil && waiting.Err() == nil:
			return err
		case err != nil && held == nil:
			if !errors.Is(err, late) { // it says only that the time was over
				err = fmt.Errorf("%w: %w", late, err)
			}
			return &driver.Error{Op: "wait for free memory", Kind: driver.ErrAccelerator, Err: err, Hint: "what samples the node's accelerators hangs, as it does if one is lost"}
		case err == nil:
			held = slices.DeleteFunc(slices.Clone(Only(samples, only)), func(s Sample) bool { return !(s.MemoryMiB >= limitMiB) }) // NaN is not told
			if len(held) == 0 {
				return nil
			}
		}
		if !retry.Sleep(waiting, memoryPause) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return notFree(ctx, c, held, bound)
		}
	}
}

// notFree is the error of devices whose memory is in use.
func notFree(ctx context.Context, c Commands, held []Sample, bound time.Duration) error {
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, _ := output(asking, c, listHolders) // without it the error has less to say
	var parts []string
	for _, s := range held {
		text := fmt.Sprintf("%s has %.0f MiB in use", s.Device(), s.MemoryMiB)
		if by := holders(list, s.PCI); by != "" {
			text += " by " + by
		}
		parts = append(parts, text)
	}
	return &driver.Error{
		Op: "wait for free memory", Kind: driver.ErrAccelerator, Err: fmt.Errorf("after %v %s", bound, strings.Join(parts, ", ")),
		Hint: "end what holds it, or use another node",
	}
}

// holders returns the programs of a list that use a device: "process 4711 (python3)".
func holders(list, pci string) string {
	var all []string
	for line := range strings.Lines(list) {
		values := strings.Split(line, ",")
		if len(values) == 4 && pci != "" && pciAddress(strings.TrimSpace(values[0])) == pci && len(all) < 8 {
			all = append(all, fmt.Sprintf("process %s (%s)", strings.TrimSpace(values[1]), shorten(values[2])))
		}
	}
	return strings.Join(all, ", ")
}

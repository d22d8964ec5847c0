package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// Lines about one fault of a device that follow each other within burst are one fault.
	burst = 30 * time.Second
	// A device that lacks in missedSamples samples in a row is gone. One sample may have been cut.
	missedSamples = 2
	// A node has maxFaults kinds of fault at most, whatever it reports.
	maxFaults = 1000
)

// A judge decides what the samples and the kernel's log of one node mean. All times are given to it.
type judge struct {
	only    []string // the devices that count: see Only
	devices map[string]*device
	faults  map[faultKey]*repeated
	// early is what was told before the devices were sampled.
	early map[string]remap
}

// A device is one that was sampled.
type device struct {
	last     Sample
	missed   int  // samples in a row
	gone     bool // it was reported
	memory   int  // how often its errors have grown
	remapped remap
}

type faultKey struct {
	device string
	xid    int
}

// A repeated fault is the state of a rule about a second fault.
type repeated struct {
	last  time.Time // the last line of it
	begun time.Time // the first line of the last burst
	worst Severity  // that was reported in this burst
}

func newJudge(only []string) *judge {
	return &judge{only: only, devices: map[string]*device{}, faults: map[faultKey]*repeated{}, early: map[string]remap{}}
}

// samples returns the samples that count, and the faults that show in them. A node has maxDevices devices at most, whatever it
// names them from sample to sample.
func (j *judge) samples(all []Sample) (counted []Sample, faults []Fault) {
	seen := map[string]bool{}
	for _, s := range Only(all, j.only) {
		name := s.Device()
		if j.devices[name] == nil && len(j.devices) >= maxDevices {
			continue
		}
		counted = append(counted, s)
		seen[name] = true
		d := j.devices[name]
		if d == nil {
			j.devices[name] = &device{last: s}
			if f := j.remap(j.early[name]); f != nil {
				faults = append(faults, *f)
			}
			continue
		}
		if s.Uncorrected > d.last.Uncorrected && d.last.Uncorrected >= 0 {
			d.memory++
			f := Fault{Device: name, Severity: Restart, Text: fmt.Sprintf("%d memory errors that could not be corrected, after %d", s.Uncorrected, d.last.Uncorrected)}
			if d.memory > 1 {
				f.Severity = Replace
			}
			faults = append(faults, f)
		}
		d.last, d.missed, d.gone = s, 0, false
	}
	for _, name := range slices.Sorted(maps.Keys(j.devices)) {
		d := j.devices[name]
		if seen[name] {
			continue
		}
		if d.missed++; d.missed >= missedSamples && !d.gone {
			d.gone = true
			faults = append(faults, Fault{Device: name, Text: fmt.Sprintf("the device has vanished: %d of %d are left", len(seen), len(j.devices)), Severity: Replace, Gone: true})
		}
	}
	return counted, faults
}

// kernel returns what a line of the kernel's log means, or nil. Devices that others use are not the node's.
func (j *judge) kernel(now time.Time, line string) *Fault {
	k, ok := parseKernel(line)
	if !ok || !j.counts(k.pci) {
		return nil
	}
	key := faultKey{k.pci, k.xid}
	if key.xid == 0 {
		key.xid = -1
	}
	before := j.faults[key]
	f := &Fault{Device: k.pci, Xid: k.xid, Text: k.rule.text, Severity: k.rule.severity, Gone: k.xid == xidOffBus}
	if k.detail != "" {
		f.Text += " (" + shorten(k.detail) + ")"
	}
	if before == nil && len(j.faults) >= maxFaults {
		return nil
	}
	if before == nil {
		j.faults[key] = &repeated{last: now, begun: now, worst: f.Severity}
		return f
	}
	again := now.Sub(before.last) >= burst
	if again && k.rule.within > 0 && (k.rule.within == ever || now.Sub(before.begun) <= k.rule.within) {
		f.Severity = k.rule.twice
	}
	before.last = now
	if again {
		before.begun, before.worst = now, f.Severity
		return f
	}
	if f.Severity <= before.worst {
		return nil
	}
	before.worst = f.Severity
	return f
}

// counts reports whether a device is one of the node's, as far as that is known.
func (j *judge) counts(pci string) bool {
	if pci == "" || len(j.devices) == 0 {
		return true
	}
	for _, d := range j.devices {
		if d.last.PCI == pci || d.last.PCI == "" {
			return true
		}
	}
	return false
}

// remap returns the fault of a device whose memory has rows that were to be replaced, once.
func (j *judge) remap(r remap) *Fault {
	d := j.devices[r.pci]
	if d == nil && len(j.early) < maxDevices {
		j.early[r.pci] = r
	}
	if d == nil || d.remapped == r {
		return nil
	}
	before := d.remapped
	d.remapped = r
	switch {
	case r.failed && !before.failed:
		return &Fault{Device: r.pci, Text: "rows of its memory could not be replaced", Severity: Replace}
	case r.pending && !before.pending:
		return &Fault{Device: r.pci, Text: "rows of its memory are to be replaced; a reset is due", Severity: Due}
	}
	return nil
}

// lost returns the fault of a device that the vendor's tool cannot reach, once. The device has an index, or -1, and an address,
// or "".
func (j *judge) lost(index int, pci, line string) *Fault {
	for name, d := range j.devices {
		if pci == "" && d.last.Index == index {
			pci = name
		}
	}
	key := faultKey{pci, xidOffBus}
	switch d := j.devices[pci]; {
	case d != nil && d.gone, d == nil && j.faults[key] != nil, d == nil && !j.counts(pci):
		return nil
	case d != nil:
		d.gone = true
	default:
		j.faults[key] = &repeated{worst: Replace}
	}
	return &Fault{Device: pci, Text: "the driver has lost it: " + shorten(line), Severity: Replace, Gone: true}
}

// shorten cuts the text of a node to what fits into an error.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 160 {
		text = strings.ToValidUTF8(text[:160], "") + " ..."
	}
	return text
}

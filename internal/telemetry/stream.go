package telemetry

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxLine and maxJSON bound what a node can make this program hold.
const maxLine, maxJSON = 16 << 10, 4 << 20

// A stream reads what the sampler prints on stdout, line by line.
type stream struct {
	fields []string // of a row of nvidia-smi
	rows   []Sample // of the sample that is coming
	json   *bytes.Buffer
	listed []Sample // the devices of AMD by amd-smi's list
	ended  bool     // the vendor's tool has ended since the last sample
	said   string   // the last line that was nothing else
}

// A saying is the meaning of one or several lines. At most one field is set.
type saying struct {
	samples []Sample
	kernel  *kernelSource
	remap   *remap
	// lost is what nvidia-smi says of a device that it cannot reach, with the device's index, or -1, and address, or "".
	lost       string
	lostIndex  int
	lostDevice string
	none       bool // there is no tool
}

// A kernelSource is how the kernel's log is read. Lines up to that time are old.
type kernelSource struct {
	how   string // "unknown" if it is not
	since float64
	known bool // since is
}

// line reads one line.
func (s *stream) line(line string) (said saying) {
	if s.json != nil {
		return s.inJSON(line)
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "tool":
		name, fields, _ := strings.Cut(rest, " ")
		s.fields, s.rows = strings.Split(fields, ","), nil
		return saying{none: name == "none"}
	case "kernel":
		how, last, _ := strings.Cut(rest, " ")
		k := &kernelSource{how: how}
		k.since, k.known = kernelTime(last)
		return saying{kernel: k}
	case "ended":
		s.ended = true
		return s.flush() // all rows have come
	case "end":
		return s.flush()
	case "json":
		s.json = &bytes.Buffer{}
		return saying{}
	}
	if row, ok := parseDRM(line); ok {
		s.add(row)
		return saying{}
	}
	row, isRow := parseRow(s.fields, line)
	if pci, lost := parseLost(line); lost {
		said = saying{lost: line, lostIndex: -1, lostDevice: pci}
		if isRow {
			said.lostIndex = row.Index
		}
		return said
	}
	if isRow {
		if len(s.rows) > 0 && row.Index <= s.rows[len(s.rows)-1].Index { // the next sample begins
			said = s.flush()
		}
		s.add(row)
		return said
	}
	if r, ok := parseRemap(line); ok {
		return saying{remap: &r}
	}
	if text := strings.TrimSpace(line); text != "" {
		s.said = shorten(text)
	}
	return saying{}
}

func (s *stream) add(row Sample) {
	if len(s.rows) < maxDevices {
		s.rows = append(s.rows, row)
		s.ended, s.said = false, ""
	}
}

// flush returns the rows that have come, as a sample that is whole.
func (s *stream) flush() saying {
	rows := s.rows
	s.rows = nil
	return saying{samples: rows}
}

// inJSON reads a line of an output of amd-smi or rocm-smi.
func (s *stream) inJSON(line string) saying {
	code, over := strings.CutPrefix(line, "end ")
	if _, err := strconv.Atoi(code); !over || err != nil {
		if s.json.Len()+len(line) < maxJSON {
			s.json.WriteString(line + "\n")
		}
		return saying{}
	}
	samples := parseAMD(s.json.Bytes())
	s.json = nil
	if len(samples) == 0 {
		return saying{}
	}
	if !slices.ContainsFunc(samples, func(r Sample) bool { return r.Utilization >= 0 || r.MemoryMiB >= 0 }) {
		s.listed = samples // numbers that are NaN are not at least 0
		return saying{}
	}
	for i := range samples {
		for _, l := range s.listed {
			if l.Index == samples[i].Index && samples[i].PCI == "" {
				samples[i].PCI, samples[i].UUID = l.PCI, l.UUID
			}
		}
	}
	s.ended = false
	return saying{samples: samples}
}

// lines calls line for each line of what is written to it, without the line's end. A line that is too long is cut.
type lines struct {
	rest []byte
	line func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if room := maxLine - len(l.rest); room > 0 {
				l.rest = append(l.rest, p[:min(room, len(p))]...)
			}
			return n, nil
		}
		if room := maxLine - len(l.rest); room > 0 {
			l.rest = append(l.rest, p[:min(room, i)]...)
		}
		l.line(strings.TrimSuffix(string(l.rest), "\r"))
		l.rest, p = l.rest[:0], p[i+1:]
	}
}

// A sample that is late by patience ends the session. The first one may be late by firstPatience, because the fields of each
// device are asked for before it.
const patience, firstPatience = time.Minute, 3 * time.Minute

package preflight

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
)

//go:embed facts.sh
var factsScript string

// ibActive is the state of a port of InfiniBand that works.
const ibActive = "4: ACTIVE"

// What is read of a node's answer is bounded: lines of mostLine bytes, and the states of mostInfiniBand ports.
const mostLine, mostInfiniBand = 1000, 64

// Facts are the answers of a node to the commands of preflight.
type Facts struct {
	// Interface is the network interface that holds the node's address: the one for NCCL_SOCKET_IFNAME and
	// GLOO_SOCKET_IFNAME. Empty means that none was found.
	Interface string
	// Interfaces is how many interfaces have addresses, without the loopback interface.
	Interfaces int
	// Accelerators are the names of its devices, and Driver is their driver's version. Nil means that there are none, or
	// that nothing tells.
	Accelerators []string
	Driver       string
	// ShmBytes is the size of /dev/shm, and DiskBytes the free space where tasks run. ShmBytes is 0 and DiskBytes -1 if
	// they are unknown.
	ShmBytes, DiskBytes int64
	// Memlock is how many bytes a process may lock, and Files how many files it may open. -1 is no limit, or unknown.
	Memlock, Files int64
	// Offset is how far the node's clock is ahead of this computer's, and OffsetError how far that may be wrong.
	Offset, OffsetError time.Duration
	// InfiniBand are the states of its ports, by their names: "mlx5_0/1".
	InfiniBand map[string]string

	clockErr error // why Offset is unknown
}

// describe runs the script of facts on a node.
func describe(ctx context.Context, n Node) (Facts, error) {
	out := &stamped{}
	var stderr bounded.Buffer
	sent := time.Now()
	err := n.Commands.ExecMoving(ctx, "exec sh -s", strings.NewReader(factsScript), out, &stderr)
	out.mu.Lock()
	defer out.mu.Unlock()
	text := out.String()
	if ctx.Err() != nil {
		return Facts{}, fmt.Errorf("it was %.100s after %v: %w", lastSection(text), time.Since(sent).Round(time.Second), ctx.Err())
	}
	if !strings.Contains(text, "\n@end\n") {
		return Facts{}, errors.Join(err, fmt.Errorf("its answer is not complete: it was %.100s: %.2000s", lastSection(text), strings.TrimSpace(stderr.String())))
	}
	return parse(text, n.Addr, sent, out.first), nil
}

// lastSection says what a node was doing when it stopped to answer.
func lastSection(text string) string {
	i := strings.LastIndex("\n"+text, "\n@")
	if i < 0 {
		return "starting a shell"
	}
	name, _, _ := strings.Cut(("\n" + text)[i+2:], "\n")
	return "looking at its " + name
}

// stamped is a buffer that records when it was first written to.
type stamped struct {
	bounded.Buffer
	mu    sync.Mutex
	first time.Time
}

func (s *stamped) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = time.Now()
	}
	return s.Buffer.Write(p)
}

// parse reads the facts that a script has printed. It was sent at a time, and the first of its answer came at another.
func parse(text, addr string, sent, came time.Time) Facts {
	s := map[string][]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line[:min(len(line), mostLine)], "\r\n")
		if name, ok := strings.CutPrefix(line, "@"); ok {
			section = name
		} else if line != "" {
			s[section] = append(s[section], line)
		}
	}
	f := Facts{DiskBytes: -1, Memlock: -1, Files: -1}
	f.clock(s["clock"], sent, came)
	f.limits(s["limits"])
	if size, _, ok := df(s["shm"]); ok {
		f.ShmBytes = size
	}
	if _, free, ok := df(s["disk"]); ok {
		f.DiskBytes = free
	}
	for _, line := range s["nvidia"] {
		if driver, name, ok := strings.Cut(line, ","); ok {
			f.Driver, f.Accelerators = strings.TrimSpace(driver), append(f.Accelerators, strings.TrimSpace(name))
		}
	}
	if f.Accelerators == nil && s["amd"] != nil {
		f.Accelerators = s["amd"]
		f.Driver = strings.Join(s["amdgpu"][:min(len(s["amdgpu"]), 1)], "")
	}
	for _, line := range s["ib"] {
		path, state, _ := strings.Cut(line, " ")
		path = strings.TrimSuffix(strings.TrimPrefix(path, "/sys/class/infiniband/"), "/state")
		if f.InfiniBand == nil {
			f.InfiniBand = map[string]string{}
		}
		if len(f.InfiniBand) == mostInfiniBand {
			break
		}
		f.InfiniBand[strings.Replace(path, "/ports", "", 1)] = strings.TrimSpace(state)
	}
	all := interfaces(s)
	f.Interface, f.Interfaces = all.holding(addr), all.count()
	return f
}

// clock compares the node's time with the middle of the round trip. It may be wrong by half of that, and by the fraction of a
// second that some versions of date do not print.
func (f *Facts) clock(lines []string, sent, came time.Time) {
	seconds, fraction, _ := strings.Cut(strings.Join(lines, ""), ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		f.clockErr = errNoClock
		return
	}
	at, round := time.Unix(s, 0), came.Sub(sent)
	f.OffsetError = round / 2
	if ns, err := strconv.ParseInt(fraction, 10, 64); err == nil && len(fraction) == 9 {
		at = at.Add(time.Duration(ns))
	} else {
		at = at.Add(time.Second / 2)
		f.OffsetError += time.Second / 2
	}
	f.Offset = at.Sub(sent.Add(round / 2))
}

// limits reads those of ulimit. The one for memory is in KiB.
func (f *Facts) limits(lines []string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "memlock":
			f.Memlock = n << 10
		case name == "files":
			f.Files = n
		}
	}
}

// df reads the answer of df -Pk for one directory.
func df(lines []string) (size, free int64, ok bool) {
	if len(lines) < 2 {
		return 0, 0, false
	}
	words := strings.Fields(lines[len(lines)-1])
	if len(words) < 6 {
		return 0, 0, false
	}
	size, err := strconv.ParseInt(words[len(words)-5], 10, 64)
	free, err2 := strconv.ParseInt(words[len(words)-3], 10, 64)
	return size << 10, free << 10, err == nil && err2 == nil
}

package rootcause

import (
	"regexp"
	"strings"
)

// An MPI is the report of a failure by Open MPI's mpirun, or by the prterun of its release 5.
type MPI struct {
	// Rank is the first process that failed, or -1. Host is its node's name, if that is said.
	Rank int
	Host string
	// ExitCode is -1 if a signal ended it, and Signal is 0 if none did.
	ExitCode, Signal int
	// LostDaemon is the node whose daemon was lost, by the order in the hostfile, or -1.
	LostDaemon int
}

// Forms of mpirun's messages, in which a line may break at any space.
var (
	noticed = regexp.MustCompile(`noticed that process rank\s+(\d{1,9})\s+(?:with PID\s+\d+\s+)?(?:on\s+node\s+(\S+)\s+)?exited\s+on\s+signal\s+(\d{1,3})`)
	// [[28496,1],3], or in release 5 [prterun-host-28496@1,3].
	exited = regexp.MustCompile(`first\s+process\s+to\s+do\s+so\s+was:\s+Process name:\s+\[(?:\[\d+,\d+\]|\S*?@\d+),(\d{1,9})\]\s+Exit code:\s+(\d{1,9})`)
	lost   = regexp.MustCompile(`lost communication with a remote daemon\.\s+HNP daemon\s*:.*\s+Remote daemon\s*:\s+\[(?:\[\d+,\d+\]|\S*?@\d+),(\d{1,9})\] on node (\S+)`)
)

// ParseMPI returns what mpirun says, if that is in the output.
func ParseMPI(output string) MPI {
	m := MPI{Rank: -1, ExitCode: -1, LostDaemon: -1}
	if w := noticed.FindStringSubmatch(output); w != nil {
		m.Rank, m.Host, m.Signal = number(w[1]), w[2], number(w[3])
		return m
	}
	if w := exited.FindStringSubmatch(output); w != nil {
		m.Rank, m.ExitCode = number(w[1]), number(w[2])
		return m
	}
	if strings.Contains(output, "lost communication") {
		if w := lost.FindStringSubmatch(output); w != nil {
			m.LostDaemon, m.Host = number(w[1]), w[2]
		}
	}
	return m
}

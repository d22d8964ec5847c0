package rootcause

import (
	"regexp"
	"strconv"
	"strings"
)

// maxText bounds how much of a share's output is read, and lastLines in how many of its lines an error is looked for: a
// launcher's own words and the stack of a library may follow it.
const (
	maxText   = 64 << 10
	lastLines = 150
)

// A text is the last of a share's output, with what was recognized in it.
type text struct {
	all      string
	torchrun []Child // that have failed, the first one first; nil without torchrun's summary
	mpirun   MPI
	peer     bool         // a process was cut off from a peer, or waited for one
	timeout  bool         // a collective has timed out
	timeouts map[int]bool // of which ranks, as far as they are named
	ownError bool         // a program's own error is there too
	full     bool         // a disk is full
	last     string       // the line with the error
}

// peers are what programs and libraries print if a peer of theirs was lost, or did not answer.
var peers = regexp.MustCompile(`(?i)Connection reset by peer|Connection closed by (remote )?peer|Broken pipe|connect .*refused|connection refused|` +
	`ncclRemoteError|NCCL communicator was aborted|Watchdog caught collective operation timeout|Timed out waiting \d+ms|` +
	`client socket has timed out|Timed out after \d+ seconds waiting for clients|wait timeout after \d+ms|` +
	`RendezvousConnectionError|heartbeat timeout|` +
	`(ORTE|PRTE) has lost communication|peer process has unexpectedly disconnected`)

// closing is a line of torchrun. It prints the line when it ends its processes. If none of them has failed, the failure is
// that of a peer.
var closing = regexp.MustCompile(`Sending process \d+ closing signal`)

// timeouts are those of peers that waited. A process that hangs prints none of them.
var timeouts = regexp.MustCompile(`(?i)Watchdog caught collective operation timeout|Timed out waiting \d+ms|` +
	`client socket has timed out|Timed out after \d+ seconds waiting for clients|wait timeout after \d+ms`)

// rankPrefix is what torch puts before each line, or in it.
var rankPrefix = regexp.MustCompile(`\[(?i:rank) ?(\d{1,9})\]`)

// errorLine is the last line of a traceback of Python, or the first of a panic of Go.
var errorLine = regexp.MustCompile(`^\s*(?:stderr:\s*)?(?:\[(?i:rank) ?\d+\]:\s*|\[(?:default)?\d+\]:\s*|\[\d+,\d+\]<std(?:out|err)>:\s*)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*|:)?|panic: .*|terminate called after throwing .*)$`)

// launchers are errors in whose text a launcher reports its process's.
var launchers = regexp.MustCompile(`ChildFailedError|RendezvousConnectionError|CalledProcessError`)

var noSpace = regexp.MustCompile(`No space left on device`)

// readText reads the last of an output.
func readText(output string) (t text) {
	t.all = output[max(0, len(output)-maxText):]
	t.torchrun = ParseTorchrun(t.all)
	t.mpirun = ParseMPI(t.all)
	lines := strings.Split(t.all, "\n")
	lines = lines[max(0, len(lines)-lastLines):]
	for i, line := range lines {
		line = strings.TrimRight(line, "\r ")
		isPeer := peers.MatchString(line) || t.torchrun == nil && closing.MatchString(line)
		t.peer = t.peer || isPeer
		if timeouts.MatchString(line) {
			t.timeout = true
			if m := rankPrefix.FindStringSubmatch(line); m != nil {
				if t.timeouts == nil {
					t.timeouts = map[int]bool{}
				}
				rank, _ := strconv.Atoi(m[1])
				t.timeouts[rank] = true
			}
		}
		m := errorLine.FindStringSubmatch(line)
		if m == nil || launchers.MatchString(line) {
			continue
		}
		// NCCL's result, or what a collective waited for, is in the lines after its error.
		for _, next := range lines[i+1 : min(i+4, len(lines))] {
			isPeer = isPeer || peers.MatchString(next) && !errorLine.MatchString(next)
		}
		if isPeer {
			continue
		}
		if !t.ownError {
			t.last = shortened(m[1])
		}
		t.ownError = true
		t.full = t.full || noSpace.MatchString(line) && !strings.Contains(t.all, "posix_fallocate")
	}
	return t
}

// shortened returns a line of at most 200 bytes.
func shortened(line string) string {
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "..."
	}
	return line
}

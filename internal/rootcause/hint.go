package rootcause

import (
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/internal/attempt"
)

// signalName returns the name of a signal, without SIG, or "" for none.
func signalName(n int) string {
	names := map[int]string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2",
		13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS",
	}
	switch name, known := names[n]; {
	case known:
		return name
	case n > 0:
		return "unknown"
	}
	return ""
}

// An ncclResult is a result of NCCL's calls, by the name and by the words that it is printed with.
type ncclResult struct {
	code int
	text *regexp.Regexp
	hint string
}

var ncclResults = []ncclResult{
	{1, regexp.MustCompile(`(?i)ncclUnhandledCudaError|NCCL \w+ .*unhandled cuda error`), "the driver refused a call: look for an Xid of the node; without one it is the program's"},
	{2, regexp.MustCompile(`(?i)ncclSystemError|NCCL \w+ .*unhandled system error`), "the line before it names the call: a socket, locked memory (ulimit -l), or a device of InfiniBand"},
	{3, regexp.MustCompile(`(?i)ncclInternalError|NCCL \w+ .*internal error`), "the nodes may have different releases of NCCL: compare them, and set NCCL_DEBUG=WARN"},
	{4, regexp.MustCompile(`(?i)ncclInvalidArgument|NCCL \w+ .*invalid argument`), "two ranks may use one GPU: each must use the device LOCAL_RANK"},
	{5, regexp.MustCompile(`(?i)ncclInvalidUsage|NCCL \w+ .*invalid usage`), "two ranks may use one GPU: each must use the device LOCAL_RANK"},
	{6, regexp.MustCompile(`(?i)ncclRemoteError|NCCL \w+ .*remote process exited`), ""},
	{8, regexp.MustCompile(`(?i)ncclTimeout|Watchdog caught collective operation timeout`), "a rank was late, or called another collective than the others: see the stacks and the files nccl_trace_rank_*"},
}

// sharedMemory is a line of NCCL. It prints the line if /dev/shm is full, before its result.
var sharedMemory = regexp.MustCompile(`posix_fallocate.*No space left|/dev/shm/nccl.*No space left|No space left.*/dev/shm`)

// NCCL returns the result of NCCL that an output names, or 0. The words of a peer's end, 6, count only if there are no others.
func NCCL(output string) (code int) {
	for _, r := range ncclResults {
		if r.text.MatchString(output) && (code == 0 || code == 6) {
			code = r.code
		}
	}
	return code
}

// Hint returns what to do about an error of which a program's output has known words, or "".
func Hint(output string) string {
	if sharedMemory.MatchString(output) {
		return "/dev/shm is full: give the container more of it, as by docker run --shm-size=8g, or set NCCL_SHM_DISABLE=1"
	}
	if strings.Contains(output, "CUDA out of memory") || strings.Contains(output, "torch.cuda.OutOfMemoryError") || strings.Contains(output, "torch.OutOfMemoryError") {
		return "the GPU's memory is full: make the batch smaller"
	}
	code := NCCL(output)
	for _, r := range ncclResults {
		if r.code == code {
			return r.hint
		}
	}
	if attempt.IsWindows(output) {
		return attempt.WindowsHint
	}
	return ""
}

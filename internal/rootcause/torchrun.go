package rootcause

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Child is a process of torchrun's that has failed.
type Child struct {
	// Rank is -1 if torchrun's summary is not there.
	Rank, LocalRank int
	// ExitCode is negative for a signal.
	ExitCode int
	PID      int
}

// Forms of the lines of torchrun's summary. Releases differ in the spaces, and other launchers put words before them.
var (
	rankLine = regexp.MustCompile(`\brank\s*: (\d{1,9}) \(local_rank: (\d{1,9})\)`)
	exitLine = regexp.MustCompile(`\bexitcode\s*: (-?\d{1,9}) \(pid: (\d{1,9})\)`)
	failLine = regexp.MustCompile(`failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9}) \(pid: (\d{1,9})\)`)
)

// ParseTorchrun returns the processes that torchrun's summary calls failed, first the one that failed first. If only
// torchrun's log line is left, it returns the process that that names.
func ParseTorchrun(output string) []Child {
	var children []Child
	root := -1 // the first that follows the heading of the root cause
	heading := false
	open := false // a rank was read, and not its exit code
	for line := range strings.Lines(output) {
		if strings.Contains(line, "Root Cause") {
			heading = true
		} else if strings.Contains(line, "Failures:") { // "Failures", or "Other Failures" in old releases
			heading = false
		}
		if m := rankLine.FindStringSubmatch(line); m != nil {
			if heading && root < 0 {
				root = len(children)
			}
			children = append(children, Child{Rank: number(m[1]), LocalRank: number(m[2])})
			open = true
		} else if m := exitLine.FindStringSubmatch(line); m != nil && open {
			c := &children[len(children)-1]
			c.ExitCode, c.PID = number(m[1]), number(m[2])
			open = false
		}
	}
	if root > 0 {
		c := children[root]
		children = slices.Insert(slices.Delete(children, root, root+1), 0, c)
	}
	if m := failLine.FindStringSubmatch(output); children == nil && m != nil {
		return []Child{{Rank: -1, ExitCode: number(m[1]), LocalRank: number(m[2]), PID: number(m[3])}}
	}
	return children
}

// number reads what a pattern has matched.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// An ErrorFile is the error.json that a process of torchrun leaves if it fails.
type ErrorFile struct {
	Message   string
	Traceback string
	At        time.Time // zero if it is not known
}

// ParseErrorFile reads an error.json. Programs whose main function does not record its errors leave none.
func ParseErrorFile(data []byte) (e ErrorFile, ok bool) {
	var outer struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(data, &outer) != nil || len(outer.Message) == 0 {
		return e, false
	}
	if json.Unmarshal(outer.Message, &e.Message) == nil { // a program wrote it itself
		return e, e.Message != ""
	}
	var inner struct {
		Message string `json:"message"`
		Extra   struct {
			Stack     string          `json:"py_callstack"`
			Timestamp json.RawMessage `json:"timestamp"`
		} `json:"extraInfo"`
	}
	if json.Unmarshal(outer.Message, &inner) != nil || inner.Message == "" {
		return e, false
	}
	e.Message, e.Traceback = inner.Message, inner.Extra.Stack
	seconds, err := strconv.ParseInt(strings.Trim(string(inner.Extra.Timestamp), `"`), 10, 64)
	if err == nil && seconds > 0 {
		e.At = time.Unix(seconds, 0)
	}
	return e, true
}

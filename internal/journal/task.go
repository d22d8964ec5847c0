package journal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/transfer"
)

// Arguments and stdins of more than MaxBytes are not kept.
const MaxBytes = 16 << 20

// header is the first line of a journal, as it is written.
type header struct {
	Spec       any
	ResultsDir string
}

// nodeForm is an [Environment], or a [Worker] if it has one.
type nodeForm struct {
	Node   string
	Env    map[string]string
	Path   []string
	Worker string
	Binary string
	Ships  int
	Image  string `cbor:",omitempty"`
}

// An Environment has the variables and the path with which tasks on a node start.
type Environment struct {
	Node string // the name of the machine
	Env  map[string]string
	Path []string
	// Image is the image of the node's container, or "" if tasks run on the machine itself.
	Image string
}

// A Worker is a process on a node that serves functions.
type Worker struct {
	Node   string // the name of the machine
	Name   string // of the process on the node
	Binary string // the path of its program there
	Starts int    // counts the workers of the node
}

// An Upload is a file or folder that every node gets.
type Upload struct {
	Local, Remote string
	Links         transfer.Links `cbor:",omitempty"`
	File          bool           `cbor:",omitempty"` // Local was a file when it was uploaded
}

// taskID returns the ID of the task of a number, which is at least 1.
func taskID(number int64) string { return "t" + strconv.FormatInt(number, 10) }

// taskNumber reverses taskID. It returns 0 for any other text.
func taskNumber(id string) int64 {
	digits, _ := strings.CutPrefix(id, "t")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// A Batch is tasks that differ in their arguments at most.
type Batch struct {
	Units   []Unit // at least one
	Task    Task
	At      int64    // when they were asked for, in Unix nanoseconds
	Members []string `cbor:",omitempty"` // of a broadcast, the names of the machines in order
	Call    string   `cbor:",omitempty"` // the ID of the first task of its call, if a task of that is critical
}

// A Unit is one of the tasks of a [Batch].
type Unit struct {
	_         struct{} `cbor:",toarray"`
	ID, Label string
	Index     int
	Pin       string // the name of the machine that must run it, or empty
	Arg       *Arg   // nil if it is the Task's
}

// An Arg is the argument of a function.
type Arg struct {
	_        struct{} `cbor:",toarray"`
	Head     []byte
	Parts    [][]byte
	TooLarge bool // the argument is not kept
}

// NewArg returns an argument in its kept form. If it could not be encoded, or has more than [MaxBytes], it is not kept.
func NewArg(b codec.Body, err error) *Arg {
	if err != nil || b.Size() > MaxBytes {
		return &Arg{TooLarge: true}
	}
	return &Arg{Head: b.Head, Parts: b.Parts}
}

// Body reverses [NewArg]. It is empty for a nil Arg.
func (a *Arg) Body() codec.Body {
	if a == nil {
		return codec.Body{}
	}
	return codec.Body{Head: a.Head, Parts: a.Parts}
}

// A Task is a task to run.
type Task struct {
	Name            string            `cbor:",omitempty"`
	Script          string            `cbor:",omitempty"`
	Dir             string            `cbor:",omitempty"`
	Args            []string          `cbor:",omitempty"`
	Env             map[string]string `cbor:",omitempty"`
	Secrets         []string          `cbor:",omitempty"` // their names
	Stdin           []byte            `cbor:",omitempty"`
	Timeout         int64             `cbor:",omitempty"`
	Retries         int               `cbor:",omitempty"`
	HoldsLease      bool              `cbor:",omitempty"`
	Outputs         []string          `cbor:",omitempty"`
	SyncEvery       int64             `cbor:",omitempty"` // in nanoseconds
	DropIfCancelled bool              `cbor:",omitempty"`
	Critical        bool              `cbor:",omitempty"`
	Rank            int               `cbor:",omitempty"` // of the target, and one
	Labels          [][2]string       `cbor:",omitempty"` // of the target
	Function        string            `cbor:",omitempty"`
	Arg             *Arg              `cbor:",omitempty"`
	TooLarge        bool              `cbor:",omitempty"` // its stdin is not kept
	TTY             bool              `cbor:",omitempty"`

	Accelerators int   `cbor:",omitempty"`
	StallTimeout int64 `cbor:",omitempty"` // in nanoseconds

	Checkpoints *Checkpoints `cbor:",omitempty"`
}

// Checkpoints say which checkpoints of a task are kept.
type Checkpoints struct {
	Dir    string `cbor:",omitempty"`
	To     string `cbor:",omitempty"` // absolute
	Keep   int    `cbor:",omitempty"`
	Every  int64  `cbor:",omitempty"` // in nanoseconds
	Shared bool   `cbor:",omitempty"`
}

// limit drops a stdin that is too large.
func (t *Task) limit() {
	if len(t.Stdin) > MaxBytes {
		t.Stdin, t.TooLarge = nil, true
	}
}

// Missing returns why the task cannot be started from what the journal has of it, or nil.
func (t *Task) Missing() error {
	if t.TooLarge || t.Arg != nil && t.Arg.TooLarge {
		return fmt.Errorf("its input has more than %d MiB, which is not kept for Attach", MaxBytes>>20)
	}
	return nil
}

// Tries are the attempts at a task so far.
type Tries struct {
	ID                         string // of the task
	Attempts, Failures, Losses int
	USD                        float64
	Unpriced                   bool
	At                         int64    // when the last attempt was over, in Unix nanoseconds
	Brought                    *Brought `cbor:",omitempty"` // by the last attempt that brought any files
}

// Brought are the files that an attempt has left on the program's computer.
type Brought struct {
	Dir   string
	Files []OutputFile
}

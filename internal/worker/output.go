package worker

// OutputMark precedes the first byte of stdout, and of stderr, that [Printed] counts. Earlier output was printed before
// the process began to serve.
const OutputMark = "\x00\x01gputrain-output\x01\x00"

// Printed is the number of bytes that a process and its children have written to stdout and to stderr.
type Printed [2]int64

// sane returns p with zero in place of negative numbers.
func (p Printed) sane() Printed { return Printed{max(p[0], 0), max(p[1], 0)} }

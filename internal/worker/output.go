package worker

// OutputMark stands before the first byte of stdout, and of stderr, that [Printed]
// counts. What comes before it was printed before the process began to serve.
const OutputMark = "\x00\x01gputrain-output\x01\x00"

// Printed is how many bytes a process, and what it started, have written to stdout
// and to stderr.
type Printed [2]int64

// sane returns it without negative numbers.
func (p Printed) sane() Printed { return Printed{max(p[0], 0), max(p[1], 0)} }

package output

import "strings"

// tailBytes and tailLines bound the result of a Tail, which errors repeat.
const tailBytes, tailLines = 4 << 10, 20

// A Tail keeps the last bytes that were written to it. Its zero value is empty. It may not be used from several
// goroutines at the same time.
type Tail struct{ b []byte }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-tailBytes):]...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(p), nil
}

// String returns the last lines, without the last one's end.
func (t *Tail) String() string {
	lines := strings.Split(strings.TrimRight(string(t.b), "\n"), "\n")
	if len(t.b) == tailBytes && len(lines) > 1 {
		lines = lines[1:] // its start is gone
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

package loginshell

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
)

// ErrNoise means that a login prints without an end.
var ErrNoise = fmt.Errorf("the login prints more than %d KiB before it runs a command", most>>10)

const (
	most = 1 << 20
	kept = 2 << 10 // bytes of what the login prints, to say it
)

// An Output is an output of a [Command] without what the login prints before the text runs. One goroutine reads it.
type Output struct {
	r     io.Reader
	mark  []byte
	tells bool

	began  bool
	window []byte // before it began, the end of what was read; then the beginning of the output, as far as that was read
	read   int    // bytes before the window
	err    error  // why it never begins
	missed atomic.Pointer[string]
}

// Stdout returns the stdout that r carries. It is empty if the text never runs.
func Stdout(r io.Reader, mark string) *Output { return &Output{r: r, mark: []byte(sign + mark)} }

// Stderr returns the stderr that r carries. It is the end of what the login says if the text never runs.
func Stderr(r io.Reader, mark string) *Output {
	return &Output{r: r, mark: []byte(sign + mark), tells: true}
}

// Read reads what the text prints. The error is ErrNoise if more than 1 MiB comes before.
func (o *Output) Read(p []byte) (int, error) {
	for !o.began && o.err == nil {
		if len(p) == 0 {
			return 0, nil
		}
		o.skip()
	}
	if len(o.window) > 0 {
		n := copy(p, o.window)
		o.window = o.window[n:]
		return n, nil
	}
	o.window = nil
	if o.err != nil {
		return 0, o.err
	}
	return o.r.Read(p)
}

// skip reads once, and looks for the mark and the end of its line, which is CR LF on a terminal.
func (o *Output) skip() {
	var chunk [4 << 10]byte
	n, err := o.r.Read(chunk[:])
	o.window = append(o.window, chunk[:n]...)
	if _, rest, found := bytes.Cut(o.window, o.mark); found {
		if rest, ended := bytes.CutPrefix(bytes.TrimPrefix(rest, []byte("\r")), []byte("\n")); ended {
			o.began, o.window = true, bytes.Clone(rest)
			return
		}
	}
	if o.err = err; err == nil && o.read+len(o.window) > most {
		o.err = ErrNoise
	}
	drop := max(0, len(o.window)-kept)
	if o.err != nil {
		said := string(bytes.TrimSpace(o.window[drop:]))
		o.missed.Store(&said)
		if o.window = nil; o.tells {
			o.window = []byte(said)
		}
	} else if drop > kept {
		o.window = append(o.window[:0], o.window[drop:]...)
		o.read += drop
	}
}

// Missed reports whether a reader has come to the end without a beginning: the text did not run. said is the end of what the
// login has printed. It may be called beside Read.
func (o *Output) Missed() (said string, missed bool) {
	if text := o.missed.Load(); text != nil {
		return *text, true
	}
	return "", false
}

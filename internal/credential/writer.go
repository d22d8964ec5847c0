package credential

import "io"

const (
	// A secret may be so long, with its name, to be found across two calls of Write. Of a longer one all is removed too.
	longestSecret = 8 << 10
	// A private key ends so many bytes after its first line, even without a last line.
	longestKey = 64 << 10
)

// A Writer replaces credentials by Redacted in what is to be sent to others, and writes the rest to another writer: secrets that are
// known, private keys, and whatever has the form of a credential or a place where one is, also if it comes in several calls. Close
// writes the rest.
//
// The texts may be plain, or JSON or HTML, which stay such.
type Writer struct {
	to    io.Writer
	known *Set
	// buf has what is not written yet, after what is before it, done bytes.
	buf  []byte
	done int
	// key is true within a private key, and keyLeft is how many bytes it can still have.
	key     bool
	keyLeft int
	// long is true after a secret that was longer than longestSecret, until its end.
	long bool
}

// NewWriter returns a Writer that removes known secrets and others.
func NewWriter(to io.Writer, known *Set) *Writer { return &Writer{to: to, known: known} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), 64<<10)
		w.buf, p = append(w.buf, p[:take]...), p[take:]
		if len(w.buf) >= 4*longestSecret {
			if err := w.emit(len(w.buf) - longestSecret); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// Close writes what is left. It does not close the writer below.
func (w *Writer) Close() error { return w.emit(len(w.buf)) }

// emit writes the first limit bytes of the buffer, and all of a secret that begins in them.
func (w *Writer) emit(limit int) error {
	if w.long {
		end := w.done
		for end < len(w.buf) && isValue(w.buf[end]) {
			end++
		}
		limit = max(limit-(end-w.done), w.done)
		w.buf = append(w.buf[:w.done], w.buf[end:]...)
		if len(w.buf) == w.done {
			return nil
		}
		w.long = false
	}
	text := string(w.buf)
	found := sorted(append(find(text, w.known), w.keys(text)...))
	for changed := true; changed; {
		changed = false
		for _, f := range found {
			if f.from < limit && f.end > limit {
				limit, changed = f.end, true
			}
		}
	}
	var out []byte
	at, redacted := w.done, -1
	for _, f := range found {
		if f.begin == f.end || f.begin >= limit || f.end <= at {
			continue
		}
		if f.begin > at || redacted != at {
			out = append(out, text[at:max(f.begin, at)]...)
			out = append(out, Redacted...)
		}
		at = f.end
		if f.end-f.begin >= longestSecret {
			for at < len(text) && isValue(text[at]) {
				at++
			}
			w.long = at == len(text)
		}
		redacted = at
	}
	limit = max(limit, at)
	out = append(out, text[at:limit]...)
	w.pass(text[w.done:limit])
	before := max(limit-mostBefore-longestWord, 0)
	w.buf, w.done = append(w.buf[:0], text[before:]...), limit-before
	_, err := w.to.Write(out)
	return err
}

// longestWord bounds the words of which something is looked for before them.
const longestWord = 256

// pass notes the beginnings and ends of private keys in what is written.
func (w *Writer) pass(s string) {
	for _, m := range keyMarks(s) {
		w.key, w.keyLeft = m.begins, longestKey+m.end
	}
	w.keyLeft -= len(s)
	if w.keyLeft <= 0 {
		w.key = false
	}
}

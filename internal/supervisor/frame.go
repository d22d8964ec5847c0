package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

const (
	maxLine  = 40 << 10  // bytes of a frame's head, and of a line of hex
	maxChunk = 128 << 10 // bytes of data given to a handler at once
	maxNoise = 256 << 10
	// A node that sends more than maxPiece of a stream in one frame breaks the protocol: maxBudget at most was asked
	// for.
	maxPiece = maxBudget + maxChunk
	// hello is the first line of node.sh. Output of the login before it is skipped.
	hello = "gputrain-supervisor " + protocol
)

// errFrame means that the node broke the protocol.
var errFrame = errors.New("the node's supervisor does not answer as it should")

// A stream is one of a task's two outputs.
type stream int

const (
	stdout stream = iota
	stderr
)

// A frame is one message of node.sh, or one piece of a long one.
type frame struct {
	// kind is the letter that begins the frame, see the handler of each.
	kind byte
	// words are the rest of the line, and line is that unsplit.
	words []string
	line  string
	// data is a piece of a stream, for kinds 'O' (raw) and 'X' (was hex), valid until the next call of next.
	data   []byte
	offset int64
	stream stream
	// last is true for the last piece of an 'O' or 'X'.
	last bool
}

// id is the task that the frame is about.
func (f *frame) id() string {
	if len(f.words) == 0 {
		return ""
	}
	return f.words[0]
}

// A decoder reads frames. Whatever the node sends, its memory is bounded and it never returns more of a stream than was
// announced.
type decoder struct {
	r        *bufio.Reader
	buf      *[maxChunk]byte // for data; nil if there are none
	cur      frame           // the 'O' or 'X' that is being read
	left     int64           // bytes left of an 'O'
	received int64           // bytes received of an 'X'
}

func newDecoder(r io.Reader) *decoder {
	return &decoder{r: bufio.NewReader(r)}
}

// greet reads up to node.sh's first line.
func (d *decoder) greet() error {
	for skipped := 0; skipped < maxNoise; {
		s, err := d.line()
		if err != nil && !errors.Is(err, errFrame) {
			return err
		}
		// The login's last line may lack its newline.
		if strings.HasSuffix(s, hello) {
			return nil
		}
		skipped += max(len(s)+1, len(hello))
	}
	return fmt.Errorf("%w: the login prints too much and does not start a shell", errFrame)
}

// line reads one line without its newline.
func (d *decoder) line() (string, error) {
	var long []byte
	for {
		part, err := d.r.ReadSlice('\n')
		if len(long)+len(part) > maxLine {
			return "", fmt.Errorf("%w: a line is too long", errFrame)
		}
		if err == nil && long == nil {
			return string(part[:len(part)-1]), nil
		}
		long = append(long, part...)
		switch {
		case err == nil:
			return string(long[:len(long)-1]), nil
		case err == io.EOF && len(long) > 0:
			return "", io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return "", err
		}
	}
}

// next reads one frame, or the next piece of one.
func (d *decoder) next() (frame, error) {
	if d.cur.kind == 0 && d.buf != nil { // its content was used
		chunks.Put(d.buf)
		d.buf = nil
	}
	switch d.cur.kind {
	case 'O':
		return d.raw()
	case 'X':
		return d.hex()
	}
	s, err := d.line()
	if err != nil {
		return frame{}, err
	}
	if len(s) == 0 || len(s) > 1 && s[1] != ' ' {
		return frame{}, fmt.Errorf("%w: %.40q", errFrame, s)
	}
	f := frame{kind: s[0]}
	if len(s) > 1 {
		f.line = s[2:]
	}
	if f.kind == 'F' { // F key value: the value is the rest, with its spaces
		f.words = strings.SplitN(s[1:], " ", 3)[1:]
		return f, nil
	}
	f.words = strings.Fields(s[1:])
	switch f.kind {
	case 'O', 'X':
		if err := d.begin(f); err != nil {
			return frame{}, fmt.Errorf("%w: %.80q: %w", errFrame, s, err)
		}
		return d.next()
	}
	return f, nil
}

// begin parses the head of an 'O' (id, stream, offset, length) or an 'X' (id, stream, offset).
func (d *decoder) begin(f frame) error {
	want := 3
	if f.kind == 'O' {
		want = 4
	}
	if len(f.words) != want {
		return errors.New("wrong number of words")
	}
	switch f.words[1] {
	case "o":
		f.stream = stdout
	case "e":
		f.stream = stderr
	default:
		return errors.New("no such stream")
	}
	var err error
	if f.offset, err = size(f.words[2]); err != nil {
		return err
	}
	if f.kind == 'O' {
		if d.left, err = size(f.words[3]); err != nil {
			return err
		}
		if d.left > maxPiece {
			return errors.New("longer than anything that was asked for")
		}
	}
	d.cur = f
	d.buf = chunks.Get().(*[maxChunk]byte)
	return nil
}

// chunks is a pool, so that an idle node holds no chunk.
var chunks = sync.Pool{New: func() any { return new([maxChunk]byte) }}

// maxSize bounds offsets and lengths, so that their sums never overflow.
const maxSize = 1 << 60

func size(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxSize {
		return 0, errors.New("not a size")
	}
	return n, nil
}

func (d *decoder) raw() (frame, error) {
	n := min(d.left, maxChunk)
	if n > 0 {
		// Data that are here already are passed on at once: a slow link must not hold them back.
		if b := d.r.Buffered(); b > 0 && int64(b) < n {
			n = int64(b)
		}
		m, err := io.ReadAtLeast(d.r, d.buf[:n], 1)
		if err != nil {
			return frame{}, err
		}
		n = int64(m)
	}
	return d.piece(n, n == d.left), nil
}

func (d *decoder) hex() (frame, error) {
	n := 0
	if d.received > maxPiece {
		return frame{}, fmt.Errorf("%w: output longer than anything that was asked for", errFrame)
	}
	for n+maxLine/2 <= maxChunk {
		s, err := d.line()
		if err != nil {
			return frame{}, err
		}
		if s == "." {
			return d.piece(int64(n), true), nil
		}
		for f := range strings.FieldsSeq(s) {
			b, err := strconv.ParseUint(f, 16, 8)
			if err != nil || len(f) != 2 {
				return frame{}, fmt.Errorf("%w: %.40q is not hex", errFrame, s)
			}
			d.buf[n] = byte(b)
			n++
		}
	}
	return d.piece(int64(n), false), nil
}

// piece returns n bytes of the current frame and moves on.
func (d *decoder) piece(n int64, last bool) frame {
	f := d.cur
	f.data, f.last = d.buf[:n], last
	d.cur.offset = min(d.cur.offset+n, maxSize)
	d.left -= n
	d.received += n
	if last {
		d.cur, d.left, d.received = frame{}, 0, 0
	}
	return f
}

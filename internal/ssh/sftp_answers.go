package ssh

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// An sftpDialogue refuses answers that would make pkg/sftp panic: those with a status of success and without the file,
// or the attributes, that the request asked for.
type sftpDialogue struct {
	requests, answers packets

	mu    sync.Mutex
	asked map[uint32]byte // types of requests that expect a value, by id
}

func newSFTPDialogue() *sftpDialogue {
	d := &sftpDialogue{asked: map[uint32]byte{}}
	d.requests.whole, d.answers.whole = d.request, d.answer
	return d
}

// valued are the types of requests that expect a value: open, lstat, fstat, read, opendir, readdir, realpath, stat and
// readlink.
var valued = map[byte]bool{3: true, 5: true, 7: true, 8: true, 11: true, 12: true, 16: true, 17: true, 19: true}

const sftpStatus, sftpOK = 101, 0

func (d *sftpDialogue) request(kind byte, id, _ uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if valued[kind] {
		d.asked[id] = kind
	}
	return nil
}

func (d *sftpDialogue) answer(kind byte, id, code uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked, ok := d.asked[id]
	delete(d.asked, id)
	if ok && kind == sftpStatus && code == sftpOK {
		return fmt.Errorf("the SFTP server answers a request of type %d with success and nothing else", asked)
	}
	return nil
}

// writer and reader watch the two directions.
func (d *sftpDialogue) writer(w io.WriteCloser) io.WriteCloser { return &watchedWriter{w, &d.requests} }
func (d *sftpDialogue) reader(r io.Reader) io.Reader           { return &watchedReader{r, &d.answers} }

type watchedWriter struct {
	io.WriteCloser
	p *packets
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	if err := w.p.scan(b); err != nil {
		return 0, err
	}
	return w.WriteCloser.Write(b)
}

type watchedReader struct {
	io.Reader
	p *packets
}

// Read fails before it returns any byte of a refused answer.
func (r *watchedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if refused := r.p.scan(b[:n]); refused != nil {
		return 0, refused
	}
	return n, err
}

// packets finds the packets in a stream that arrives in pieces.
type packets struct {
	whole func(kind byte, id, code uint32) error // called for each packet, as soon as its start is known
	start []byte                                 // length, type, id, and a status's code
	rest  int64                                  // bytes of the packet after its start
}

const startSize = 4 + 1 + 4 + 4

func (p *packets) scan(b []byte) error {
	for len(b) > 0 {
		if p.rest > 0 {
			n := min(p.rest, int64(len(b)))
			p.rest, b = p.rest-n, b[n:]
			continue
		}
		want := 4
		if len(p.start) >= 4 {
			want = int(min(startSize, 4+int64(binary.BigEndian.Uint32(p.start))))
		}
		n := min(want-len(p.start), len(b))
		p.start, b = append(p.start, b[:n]...), b[n:]
		if len(p.start) < want || want == 4 && binary.BigEndian.Uint32(p.start) > 0 {
			continue
		}
		if err := p.begun(); err != nil {
			return err
		}
	}
	return nil
}

// begun reports a packet whose start is complete.
func (p *packets) begun() error {
	s := p.start
	p.rest = 4 + int64(binary.BigEndian.Uint32(s)) - int64(len(s))
	p.start = nil
	if len(s) < startSize-4 { // a greeting, or nothing
		return nil
	}
	var code uint32 = 1
	if len(s) == startSize {
		code = binary.BigEndian.Uint32(s[9:])
	}
	return p.whole(s[4], binary.BigEndian.Uint32(s[5:]), code)
}

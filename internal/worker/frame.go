package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// A frameType says what a frame is. The comments say who sends it.
type frameType uint8

const (
	frameHello   frameType = iota + 1 // client: the first frame
	frameWelcome                      // node: the answer
	frameReject                       // node: the answer, and the last frame
	frameFenced                       // node: a newer client is there; the last frame
	frameCall                         // client: a call with the start of its argument
	frameResult                       // node: how a call ended, with the start of its result
	frameData                         // both: more of the argument or the result
	frameCancel                       // client: end the function's context
	frameAck                          // client: the result is taken, or not wanted any more
	framePing                         // client
	framePong                         // node
	frameEnd
)

const (
	// chunkSize is how much of one body goes into a frame: what a small frame
	// may have to wait for.
	chunkSize = 256 << 10
	// maxPayload bounds what a frame can make the other side allocate. The
	// largest are hellos that name many open calls.
	maxPayload = 4 << 20
	// headSize is a frame's length, type and call id.
	headSize = 4 + 1 + 8
)

// A frameHead is what comes before a frame's payload.
type frameHead struct {
	size int
	typ  frameType
	id   uint64
}

func (h frameHead) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.size))
	b = append(b, byte(h.typ))
	return binary.BigEndian.AppendUint64(b, h.id)
}

// A frameReader takes frames off a stream.
type frameReader struct{ r *bufio.Reader }

func newFrameReader(r io.Reader) frameReader {
	return frameReader{bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next frame's head. Its payload must be read before the next
// call.
func (r frameReader) next() (frameHead, error) {
	b, err := r.r.Peek(headSize)
	if err != nil {
		if err == io.EOF && len(b) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frameHead{}, err
	}
	h := frameHead{int(binary.BigEndian.Uint32(b)), frameType(b[4]), binary.BigEndian.Uint64(b[5:])}
	if h.typ == 0 || h.typ >= frameEnd || h.size > maxPayload {
		return h, fmt.Errorf("%w: found a frame of type %d with %d bytes", ErrProtocol, h.typ, uint32(h.size))
	}
	_, err = r.r.Discard(headSize)
	return h, err
}

// payload returns a frame's payload in memory of its own.
func (r frameReader) payload(h frameHead) ([]byte, error) {
	b := make([]byte, h.size)
	_, err := io.ReadFull(r.r, b)
	return b, err
}

func (r frameReader) skip(h frameHead) error {
	_, err := r.r.Discard(h.size)
	return err
}

// A message is a frame on its way out, or one that opens a body and is
// followed by the chunks of it: a call with its argument, a result.
type message struct {
	typ     frameType
	id      uint64
	opening []byte // the payload, or what comes before the body in it
	body    []byte // not changed, not copied
	started bool   // guarded by the outbox
	sent    int    // bytes of the body; the writer's
}

// bulk reports whether the message takes turns with others.
func (m *message) bulk() bool { return len(m.body) > chunkSize/4 }

// writeNext writes the message's next frame and reports whether that was the last.
func (m *message) writeNext(w *bufio.Writer) (done bool, err error) {
	n := min(len(m.body)-m.sent, chunkSize)
	h := frameHead{n, frameData, m.id}
	var opening []byte
	if m.sent == 0 {
		opening = m.opening
		h.size, h.typ = len(opening)+n, m.typ
	}
	_, _ = w.Write(h.append(w.AvailableBuffer())) // a bufio.Writer keeps its error
	_, _ = w.Write(opening)
	_, err = w.Write(m.body[m.sent : m.sent+n])
	m.sent += n
	return m.sent == len(m.body), err
}

// An incoming body is put together from its frames.
type incoming struct {
	body []byte
	size int
}

// open starts a body of size bytes, of which the first are there.
func (in *incoming) open(size uint64, first []byte) error {
	if size > math.MaxInt/2 || uint64(len(first)) > size {
		return fmt.Errorf("%w: a body of %d bytes starts with %d", ErrProtocol, size, len(first))
	}
	in.size, in.body = int(size), first
	return nil
}

// more reads a frame's payload to the end of the body. The size that the other side
// announced is not reserved on its word: what is reserved follows what arrives,
// in steps that are few for an honest sender.
func (in *incoming) more(r frameReader, h frameHead) error {
	have := len(in.body)
	if h.size > in.size-have {
		return fmt.Errorf("%w: a body of %d bytes has more than these", ErrProtocol, in.size)
	}
	if cap(in.body) < have+h.size {
		grown := make([]byte, have, min(in.size, 4*(have+h.size)))
		copy(grown, in.body)
		in.body = grown
	}
	in.body = in.body[:have+h.size]
	_, err := io.ReadFull(r.r, in.body[have:])
	return err
}

func (in *incoming) complete() bool { return len(in.body) == in.size }

package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A frameType is the type of a frame. The comments name the sender.
type frameType uint8

const (
	frameHello    frameType = iota + 1 // client: the first frame
	frameWelcome                       // node: the answer
	frameReject                        // node: the answer, and the last frame
	frameFenced                        // node: a newer client is there; the last frame
	frameMembers                       // client: the nodes that calls of this connection refer to by the id
	frameCall                          // client: a call, with the start of its argument
	frameResult                        // node: how a call ended, with the start of its result
	frameData                          // both: more of the argument or the result
	frameItem                          // both: an item of the call's stream, with its start
	frameItemData                      // both: more of the item
	frameCredit                        // both: how many items were taken
	frameCancel                        // client: end the function's context, for the reason in the payload
	frameAck                           // client: the client has the result, or does not want it
	frameCollect                       // client: collect the result of an adopted call
	framePing                          // client; with a payload it asks for the stacks of all goroutines
	framePong                          // node: the answer
	frameStep                          // node: the newest step of a call
	frameEnd
)

const (
	// A frame carries chunkSize of one body at most, so that a small frame waits for no more than that.
	chunkSize = 256 << 10
	// A body of up to maxSmall is sent in one piece, together with others.
	maxSmall = 64 << 10
	// maxPayload bounds what a frame can make the other side allocate. The largest payloads are hellos and welcomes
	// with many open calls.
	maxPayload = 4 << 20
	// headSize is a frame's length, type and call id.
	headSize = 4 + 1 + 8
)

// A frameHead precedes a frame's payload.
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

// A payload appends itself to a buffer.
type payload interface{ appendTo(b []byte) []byte }

// raw is an encoded payload.
type raw []byte

func (p raw) appendTo(b []byte) []byte { return append(b, p...) }

// appendFrame adds a frame whose payload is p and then tail bytes, which the caller writes after it.
func appendFrame(b []byte, typ frameType, id uint64, p payload, tail int) []byte {
	at := len(b)
	b = frameHead{0, typ, id}.append(b)
	if p != nil {
		b = p.appendTo(b)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-headSize+tail))
	return b
}

// A frameReader reads frames from a stream.
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

// payload returns a frame's payload in newly allocated memory.
func (r frameReader) payload(h frameHead) ([]byte, error) {
	b := make([]byte, h.size)
	_, err := io.ReadFull(r.r, b)
	return b, err
}

func (r frameReader) skip(h frameHead) error {
	_, err := r.r.Discard(h.size)
	return err
}

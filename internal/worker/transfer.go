package worker

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/gputrain/gputrain/internal/codec"
)

// isSmall reports whether a body is sent in one piece.
func isSmall(b codec.Body) bool { return len(b.Parts) == 0 && len(b.Head) <= maxSmall }

// checkLayout refuses a body whose list of parts does not fit into a frame.
func checkLayout(b codec.Body) error {
	if most := (maxPayload - chunkSize) / binary.MaxVarintLen64; len(b.Parts) > most {
		return fmt.Errorf("a value with %d large slices is more than can be sent at once; send fewer, longer ones", len(b.Parts))
	}
	return nil
}

// appendLayout adds the sizes of the head and of the parts.
func appendLayout(b []byte, body codec.Body) []byte {
	b = binary.AppendUvarint(b, uint64(len(body.Head)))
	b = binary.AppendUvarint(b, uint64(len(body.Parts)))
	for _, p := range body.Parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
	}
	return b
}

// An opening is the payload that begins a body: a header, the layout, and the body itself if that is small.
type opening struct {
	header payload
	body   codec.Body
}

func (o opening) appendTo(b []byte) []byte {
	return append(appendLayout(o.header.appendTo(b), o.body), o.body.Head...)
}

// bare is the opening without the body.
func (o opening) bare() payload { return bareOpening(o) }

type bareOpening opening

func (o bareOpening) appendTo(b []byte) []byte { return appendLayout(o.header.appendTo(b), o.body) }

// A transfer sends a large body: a frame that opens it, followed by chunks, which are slices of the body's own memory.
type transfer struct {
	typ, more frameType
	id        uint64
	opening
	moved func() // called before each chunk is written; may be nil
	done  func() // called when the last chunk has been written; may be nil

	started bool // guarded by the outbox
	opened  bool
	piece   int // 0 for the head, then the parts
	sent    int // bytes sent of the piece
}

// fill makes the transfer a source.
func (t *transfer) fill(b []byte) (frames, chunk []byte, more bool) {
	chunk = t.next()
	if t.moved != nil {
		t.moved()
	}
	if !t.opened {
		t.opened = true
		if t.piece > 0 { // the head is empty: it opens with nothing
			chunk = nil
		}
		b = appendFrame(b, t.typ, t.id, t.opening.bare(), len(chunk))
	} else {
		b = frameHead{len(chunk), t.more, t.id}.append(b)
	}
	t.sent += len(chunk)
	return b, chunk, t.next() != nil
}

// next returns the next chunk, or nil at the end. A chunk is part of one piece.
func (t *transfer) next() []byte {
	for ; t.piece <= len(t.body.Parts); t.piece, t.sent = t.piece+1, 0 {
		p := t.body.Head
		if t.piece > 0 {
			p = t.body.Parts[t.piece-1]
		}
		if t.sent < len(p) {
			return p[t.sent:min(t.sent+chunkSize, len(p))]
		}
	}
	return nil
}

// An incoming body is assembled from its frames.
type incoming struct {
	body  codec.Body
	sizes []int  // of the head and the parts
	only  [1]int // sizes, if there are no parts
	piece int    // the piece that is being filled
}

// open reads the layout from the end of a payload, and the start of the head, which follows it there. A body that is
// larger than most is ErrTooLarge, and none of it is kept.
func (in *incoming) open(p *parser, most int64) error {
	head, parts := p.size(), p.size()
	if p.bad || parts > len(p.b) || parts > 0 && head == 0 {
		return fmt.Errorf("%w: a body without a layout", ErrProtocol)
	}
	sum := int64(head)
	in.sizes = append(in.only[:0], head)
	if parts > 0 {
		in.sizes = append(make([]int, 0, 1+parts), head)
	}
	for range parts {
		n := p.size()
		if n < codec.MinPart {
			return fmt.Errorf("%w: a body with a part of %d bytes", ErrProtocol, n)
		}
		in.sizes = append(in.sizes, n)
		if sum += int64(n); sum > 2*maxSize {
			return fmt.Errorf("%w: a body of more bytes than there can be", ErrProtocol)
		}
	}
	if p.bad || len(p.b) > head {
		return fmt.Errorf("%w: a body of %d bytes starts with %d", ErrProtocol, head, len(p.b))
	}
	if sum > most {
		in.sizes = nil
		return fmt.Errorf("%w: %d bytes, of %d at most", ErrTooLarge, sum, most)
	}
	in.body.Head = p.b[:len(p.b):len(p.b)]
	if len(p.b) == head {
		in.piece++
	}
	return nil
}

// reach bounds how much memory is reserved: this many times what has arrived. Reserved memory is not touched before its
// content arrives.
const reach = 64

// more reads a frame's payload into the memory of the body. It does not reserve announced sizes at once: the reserved
// memory grows with what arrives. A piece is moved twice at most, while less than a sixtieth of it has arrived.
func (in *incoming) more(r frameReader, h frameHead) error {
	if in.complete() {
		return fmt.Errorf("%w: a body goes on after its end", ErrProtocol)
	}
	if in.piece > 0 && len(in.body.Parts) < in.piece {
		in.body.Parts = append(in.body.Parts, nil)
	}
	dst := &in.body.Head
	if in.piece > 0 {
		dst = &in.body.Parts[in.piece-1]
	}
	size, have := in.sizes[in.piece], len(*dst)
	if h.size == 0 || h.size > size-have {
		return fmt.Errorf("%w: a piece of %d bytes has others than these", ErrProtocol, size)
	}
	if need := have + h.size; cap(*dst) < need {
		room := size
		if size/reach > need {
			room = min(size/reach, reach*need)
		}
		grown := make([]byte, have, room)
		copy(grown, *dst)
		*dst = grown
	}
	*dst = (*dst)[:have+h.size]
	if _, err := io.ReadFull(r.r, (*dst)[have:]); err != nil {
		return err
	}
	if len(*dst) == size {
		in.piece++
	}
	return nil
}

func (in *incoming) complete() bool { return in.piece == len(in.sizes) }

// size returns the size of the whole body.
func (in *incoming) size() (sum int) {
	for _, n := range in.sizes {
		sum += n
	}
	return sum
}

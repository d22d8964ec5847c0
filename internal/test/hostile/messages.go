package hostile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
)

// A Message is a message of the worker's protocol.
type Message struct {
	Type    byte
	ID      uint64
	Payload []byte
	// Size is the announced size of the payload. Zero announces the real size.
	Size uint32
}

// The types of messages that a node sends.
const (
	MessageWelcome  = 2
	MessageReject   = 3
	MessageFenced   = 4
	MessageResult   = 7
	MessageData     = 8
	MessageItem     = 9
	MessageItemData = 10
	MessageCredit   = 11
	MessagePong     = 16
)

// Bytes returns the encoded message.
func (m Message) Bytes() []byte {
	size := uint32(len(m.Payload))
	if m.Size != 0 {
		size = m.Size
	}
	b := binary.BigEndian.AppendUint32(nil, size)
	b = append(b, m.Type)
	b = binary.BigEndian.AppendUint64(b, m.ID)
	return append(b, m.Payload...)
}

// preamble is sent before the first message.
var preamble = []byte("\x00\x01gputrain-worker\x01\x00")

// Messages replaces each message of a worker with the result of rewrite. The preamble and everything before it pass
// unchanged.
func Messages(rewrite func(Message) [][]byte) Tamper {
	return func(_ *Session, dst io.Writer, src io.Reader) {
		r := bufio.NewReader(src)
		var head []byte
		for !bytes.HasSuffix(head, preamble) {
			c, err := r.ReadByte()
			if err != nil || len(head) > 1<<20 {
				dst.Write(head)
				return
			}
			head = append(head, c)
		}
		dst.Write(head)
		for {
			var h [13]byte
			if _, err := io.ReadFull(r, h[:]); err != nil {
				return
			}
			size := binary.BigEndian.Uint32(h[:])
			if size > maxData {
				return
			}
			m := Message{Type: h[4], ID: binary.BigEndian.Uint64(h[5:]), Payload: make([]byte, size)}
			if _, err := io.ReadFull(r, m.Payload); err != nil {
				return
			}
			for _, b := range rewrite(m) {
				if _, err := dst.Write(b); err != nil {
					return
				}
			}
		}
	}
}

// OfType rewrites messages of one type, and passes all others.
func OfType(typ byte, rewrite func(Message) [][]byte) func(Message) [][]byte {
	return func(m Message) [][]byte {
		if m.Type == typ {
			return rewrite(m)
		}
		return [][]byte{m.Bytes()}
	}
}

// Uvarints encodes numbers as payloads contain them.
func Uvarints(numbers ...uint64) (b []byte) {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// ResultHeader returns the start of the payload of a result, for a call that had no stream and printed nothing.
// wireError is an encoded error or empty.
func ResultHeader(wireError []byte) []byte {
	return append(Uvarints(0, 0, 0, 0, uint64(len(wireError))), wireError...)
}

// Result returns the result of a call with an announced size, which may be wrong, and with the first bytes of its head.
func Result(id uint64, announced uint64, start []byte) Message {
	return Message{Type: MessageResult, ID: id, Payload: append(append(ResultHeader(nil), Uvarints(announced, 0)...), start...)}
}

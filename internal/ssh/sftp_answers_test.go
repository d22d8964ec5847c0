package ssh

import (
	"encoding/binary"
	"testing"
)

// sftpPacket returns a packet with numbers, of which the first is the id.
func sftpPacket(kind byte, numbers ...uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(1+4*len(numbers)))
	b = append(b, kind)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// A success without the requested value is refused, however the stream is split.
func TestSFTPAnswers(t *testing.T) {
	const open, remove, status, handle = 3, 13, 101, 102
	tests := []struct {
		name   string
		asked  []byte // types of requests, with the ids 0, 1...
		answer []byte
		ok     bool
	}{
		{"a file", []byte{open}, sftpPacket(handle, 0, 4, 7), true},
		{"a failure", []byte{open}, sftpPacket(status, 0, 4, 0, 0), true},
		{"a success that is one", []byte{open, remove}, sftpPacket(status, 1, 0, 0, 0), true},
		{"a success in place of a file", []byte{open, remove}, sftpPacket(status, 0, 0, 0, 0), false},
		{"a short one", []byte{open}, sftpPacket(status, 0), true},
		{"nothing", []byte{open}, []byte{0, 0, 0, 0}, true},
	}
	for _, tt := range tests {
		for size := 1; size < 30; size++ {
			d := newSFTPDialogue()
			stream := sftpPacket(1, 3)
			for id, kind := range tt.asked {
				stream = append(stream, sftpPacket(kind, uint32(id), 0, 0)...)
			}
			scan := func(p *packets, b []byte) (err error) {
				for len(b) > 0 && err == nil {
					n := min(size, len(b))
					err = p.scan(b[:n])
					b = b[n:]
				}
				return err
			}
			if err := scan(&d.requests, stream); err != nil {
				t.Error(err)
			}
			err := scan(&d.answers, append(sftpPacket(2, 3), tt.answer...))
			if (err == nil) != tt.ok {
				t.Errorf("%s in pieces of %d: %v", tt.name, size, err)
			}
		}
	}
}

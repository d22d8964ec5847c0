package hostile

import (
	"bufio"
	"encoding/binary"
	"io"
)

// A Packet is a packet of SFTP, version 3.
type Packet struct {
	Type byte
	Body []byte // begins with the request's ID, except in the first packet
	// Size is the announced size. Zero announces the real size.
	Size uint32
}

// The types of packets that a server sends.
const (
	PacketVersion = 2
	PacketStatus  = 101
	PacketHandle  = 102
	PacketData    = 103
	PacketName    = 104
	PacketAttrs   = 105
)

// Bytes returns the encoded packet.
func (p Packet) Bytes() []byte {
	size := uint32(len(p.Body) + 1)
	if p.Size != 0 {
		size = p.Size
	}
	b := binary.BigEndian.AppendUint32(nil, size)
	return append(append(b, p.Type), p.Body...)
}

// ID returns the ID of the request that the packet answers.
func (p Packet) ID() []byte { return p.Body[:min(4, len(p.Body))] }

// Packets replaces each packet of a server with the result of rewrite.
func Packets(rewrite func(Packet) [][]byte) Tamper {
	return func(_ *Session, dst io.Writer, src io.Reader) {
		r := bufio.NewReader(src)
		for {
			var h [5]byte
			if _, err := io.ReadFull(r, h[:]); err != nil {
				return
			}
			size := binary.BigEndian.Uint32(h[:])
			if size < 1 || size > maxData {
				return
			}
			p := Packet{Type: h[4], Body: make([]byte, size-1)}
			if _, err := io.ReadFull(r, p.Body); err != nil {
				return
			}
			for _, b := range rewrite(p) {
				if _, err := dst.Write(b); err != nil {
					return
				}
			}
		}
	}
}

// OfPacket rewrites packets of one type, and passes all others.
func OfPacket(typ byte, rewrite func(Packet) [][]byte) func(Packet) [][]byte {
	return func(p Packet) [][]byte {
		if p.Type == typ {
			return rewrite(p)
		}
		return [][]byte{p.Bytes()}
	}
}

// Attributed is an entry of a folder in SFTP.
type Attributed struct {
	Name string
	Mode uint32 // including the file type bits
	Size uint64
}

// File modes by file type.
const (
	ModeFile   = 0o100644
	ModeFolder = 0o040755
	ModeLink   = 0o120777
	ModeDevice = 0o060644
	ModePipe   = 0o010644
)

func (a Attributed) attrs() []byte {
	b := binary.BigEndian.AppendUint32(nil, 1|4)
	b = binary.BigEndian.AppendUint64(b, a.Size)
	return binary.BigEndian.AppendUint32(b, a.Mode)
}

func text(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

// Names returns an answer with the files of a folder, or the target of a link.
func (p Packet) Names(files ...Attributed) []byte {
	b := binary.BigEndian.AppendUint32(append([]byte{}, p.ID()...), uint32(len(files)))
	for _, f := range files {
		b = append(b, text(f.Name)...)
		b = append(b, text("-rw-r--r-- 1 0 0 0 Jan 1 00:00 "+f.Name)...)
		b = append(b, f.attrs()...)
	}
	return Packet{Type: PacketName, Body: b}.Bytes()
}

// Attributes returns an answer with a file's attributes.
func (p Packet) Attributes(a Attributed) []byte {
	return Packet{Type: PacketAttrs, Body: append(append([]byte{}, p.ID()...), a.attrs()...)}.Bytes()
}

// Content returns an answer to a read. It may have more or fewer bytes than requested.
func (p Packet) Content(b []byte) []byte {
	return Packet{Type: PacketData, Body: append(append([]byte{}, p.ID()...), text(string(b))...)}.Bytes()
}

// Status returns an answer with a status code.
func (p Packet) Status(code uint32, message string) []byte {
	b := binary.BigEndian.AppendUint32(append([]byte{}, p.ID()...), code)
	return Packet{Type: PacketStatus, Body: append(append(b, text(message)...), text("")...)}.Bytes()
}

package hostile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// An Entry is an entry of an archive. It may be invalid.
type Entry struct {
	Name, Link string
	Kind       byte // as in archive/tar; zero is a regular file
	Mode       int64
	Size       int64 // announced size; zero announces the real one
	Body       string
	Pax        map[string]string // PAX records before the entry, unchecked
}

// Symlink returns an entry that links to target.
func Symlink(name, target string) Entry {
	return Entry{Name: name, Link: target, Kind: tar.TypeSymlink}
}

// Hardlink returns an entry that is a hard link to old.
func Hardlink(name, old string) Entry { return Entry{Name: name, Link: old, Kind: tar.TypeLink} }

// File returns an entry that is a regular file.
func File(name, body string) Entry { return Entry{Name: name, Body: body} }

// Folder returns an entry that is a folder.
func Folder(name string) Entry { return Entry{Name: name, Kind: tar.TypeDir, Mode: 0o755} }

// Tar returns a complete archive of entries.
func Tar(entries ...Entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.Write(e.pack())
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

// pack returns the encoded blocks of an entry.
func (e Entry) pack() []byte {
	var b bytes.Buffer
	if e.Pax != nil {
		var records strings.Builder
		for key, value := range e.Pax {
			records.WriteString(paxRecord(key, value))
		}
		b.Write(header(Entry{Name: "pax", Kind: tar.TypeXHeader}, int64(records.Len())))
		b.Write(padded(records.String()))
	}
	for _, long := range []struct {
		text string
		kind byte
	}{{e.Name, tar.TypeGNULongName}, {e.Link, tar.TypeGNULongLink}} {
		if len(long.text) > 99 {
			b.Write(header(Entry{Name: "././@LongLink", Kind: long.kind}, int64(len(long.text)+1)))
			b.Write(padded(long.text + "\x00"))
		}
	}
	size := int64(len(e.Body))
	if e.Size != 0 {
		size = e.Size
	}
	b.Write(header(e, size))
	b.Write(padded(e.Body))
	return b.Bytes()
}

// header returns a header block, unchecked.
func header(e Entry, size int64) []byte {
	h := make([]byte, 512)
	mode, kind := e.Mode, e.Kind
	if mode == 0 {
		mode = 0o644
	}
	if kind == 0 {
		kind = tar.TypeReg
	}
	copy(h[:99], e.Name)
	fmt.Fprintf(block(h[100:108]), "%07o", mode&0o7777777)
	fmt.Fprintf(block(h[108:116]), "%07o", 0)
	fmt.Fprintf(block(h[116:124]), "%07o", 0)
	if size >= 0 && size < 1<<33 {
		fmt.Fprintf(block(h[124:136]), "%011o", size)
	} else { // base 256, which also encodes negative sizes
		for i := range 8 {
			h[128+i] = byte(size >> (56 - 8*i))
		}
		h[124] = 0x80
		if size < 0 {
			h[124], h[125], h[126], h[127] = 0xff, 0xff, 0xff, 0xff
		}
	}
	fmt.Fprintf(block(h[136:148]), "%011o", 1_700_000_000)
	h[156] = kind
	copy(h[157:256], e.Link)
	copy(h[257:265], "ustar  \x00")
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	fmt.Fprintf(block(h[148:156]), "%06o\x00 ", sum)
	return h
}

// A block is written to from its start, and drops what does not fit.
type block []byte

func (b block) Write(p []byte) (int, error) { copy(b, p); return len(p), nil }

func padded(text string) []byte {
	b := make([]byte, (len(text)+511)/512*512)
	copy(b, text)
	return b
}

// paxRecord returns a PAX record, which begins with its own length.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	for n := len(rest); ; n++ {
		if r := fmt.Sprint(n) + rest; len(r) == n {
			return r
		}
	}
}

// Archived answers a download with a file if kind is "file", and with a folder if it is "folder".
func Archived(kind string, entries ...Entry) Tamper {
	return Say(append([]byte(kind+"\n"), Tar(entries...)...))
}

// Fetched answers a fetch with an archive and the checksums of names, in order. Each checksum is that of the first
// entry of that name, as in an honest answer.
func Fetched(names []string, entries ...Entry) Tamper {
	b := bytes.NewBuffer(Tar(entries...))
	for _, name := range names {
		sum := sha256.Sum256(nil)
		for _, e := range entries {
			if strings.TrimPrefix(e.Name, "./") == name {
				sum = sha256.Sum256([]byte(e.Body))
				break
			}
		}
		fmt.Fprintf(b, "%s  ./%s\n", hex.EncodeToString(sum[:]), name)
	}
	return Say(b.Bytes())
}

// Entries sends an archive of up to count entries until the client stops reading. It makes each entry only when it
// sends it. kind is "" for a fetch.
func Entries(kind string, count int, entry func(i int) Entry) Tamper {
	return func(_ *Session, dst io.Writer, _ io.Reader) {
		if kind != "" {
			io.WriteString(dst, kind+"\n")
		}
		for i := range count {
			if _, err := dst.Write(entry(i).pack()); err != nil {
				return
			}
		}
		dst.Write(make([]byte, 1024))
	}
}

// Endless sends zeros for a file that never reaches its size, until a limit or until the client stops reading.
func Endless(kind, name string, size, limit int64) Tamper {
	return func(s *Session, dst io.Writer, src io.Reader) {
		if kind != "" {
			io.WriteString(dst, kind+"\n")
		}
		dst.Write(header(File(name, ""), size))
		Flood(make([]byte, 32<<10), limit)(s, dst, src)
	}
}

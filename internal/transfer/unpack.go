package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// headerBytes bounds how much of an archive may precede an entry: its header, with long names and extension records,
// and the padding of the previous entry.
const headerBytes = 4 << 20

// unpack reads an archive of the node entry by entry. It skips content that take does not read.
func unpack(archive io.Reader, take func(h *tar.Header, content io.Reader) error) error {
	rationed := &ration{from: archive}
	tr := tar.NewReader(rationed)
	for {
		rationed.left = headerBytes
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the node's archive: %w", err)
		}
		if isSparse(h) {
			return fmt.Errorf("the node sent %q as a file with holes, which could grow to any size: its tar must send files whole", h.Name)
		}
		rationed.left = h.Size
		if err := take(h, tr); err != nil {
			return err
		}
	}
}

// A ration fails a stream if more is read of it than was allowed.
type ration struct {
	from io.Reader
	left int64
}

func (r *ration) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errors.New("a header is too long")
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// isSparse reports whether an entry is a sparse file, in GNU's form or by PAX records.
func isSparse(h *tar.Header) bool {
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// isFile reports whether an entry is a regular file and has a file's name.
func isFile(h *tar.Header) bool {
	return h.Typeflag == tar.TypeReg && !strings.HasSuffix(h.Name, "/")
}

// unpackTree writes a folder into the landing. It skips pipes and devices.
func (l *landing) unpackTree(archive io.Reader, links Links) error {
	return unpack(archive, func(h *tar.Header, content io.Reader) error {
		name, mode := strings.TrimPrefix(h.Name, "./"), fs.FileMode(h.Mode&0o777)
		switch {
		case h.Typeflag == tar.TypeDir && name == "":
			return l.dir(".", mode)
		case h.Typeflag == tar.TypeDir:
			return l.dir(strings.TrimSuffix(name, "/"), mode)
		case isFile(h):
			local, err := l.claim(name, fileKind, h.Size)
			if err == nil {
				_, err = l.file(name, local, mode, h.Size, content, false)
			}
			return err
		case h.Typeflag == tar.TypeSymlink:
			return l.symlink(name, h.Linkname, links)
		case h.Typeflag == tar.TypeLink:
			_, err := l.hardlink(name, strings.TrimPrefix(h.Linkname, "./"))
			return err
		case h.Typeflag == tar.TypeFifo, h.Typeflag == tar.TypeChar, h.Typeflag == tar.TypeBlock:
			_, err := l.claim(name, otherKind, 0)
			return err
		}
		return errKind(h)
	})
}

// unpackFile writes the requested file under the name base.
func (l *landing) unpackFile(archive io.Reader, base, local string) error {
	arrived := false
	err := unpack(archive, func(h *tar.Header, content io.Reader) error {
		switch {
		case strings.TrimPrefix(h.Name, "./") != base:
			return fmt.Errorf("the node sent %q, which was not asked for", h.Name)
		case !isFile(h):
			return errKind(h)
		}
		l.meter.expect(h.Size)
		err := l.count(base, local, fileKind, h.Size)
		if err == nil {
			_, err = l.file(base, local, fs.FileMode(h.Mode&0o777), h.Size, content, false)
		}
		arrived = true
		return err
	})
	if err == nil && !arrived {
		err = fmt.Errorf("the node sent no file: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// unpackFiles writes the wanted files and returns them by name. If the node has one of them under two names, the second
// may come as a link to the first.
func (l *landing) unpackFiles(archive io.Reader, wanted map[string]bool, files map[string]arrival) error {
	return unpack(archive, func(h *tar.Header, content io.Reader) error {
		name := strings.TrimPrefix(h.Name, "./")
		if !wanted[name] {
			return fmt.Errorf("the node sent %q, which was not asked for", h.Name)
		}
		if h.Typeflag == tar.TypeLink {
			old := strings.TrimPrefix(h.Linkname, "./")
			local, err := l.hardlink(name, old)
			if err == nil {
				first := files[old]
				first.Name, first.local = name, local
				files[name] = first
			}
			return err
		}
		if !isFile(h) {
			return errKind(h)
		}
		local, err := l.claim(name, fileKind, h.Size)
		if err != nil {
			return err
		}
		a, err := l.file(name, local, fs.FileMode(h.Mode&0o777), h.Size, content, true)
		if err == nil {
			files[name] = a
		}
		return err
	})
}

func errKind(h *tar.Header) error {
	kinds := map[byte]string{
		tar.TypeDir: "a folder", tar.TypeSymlink: "a link", tar.TypeLink: "a second name of another file",
		tar.TypeFifo: "a pipe", tar.TypeChar: "a device", tar.TypeBlock: "a device",
	}
	kind, ok := kinds[h.Typeflag]
	if !ok {
		kind = fmt.Sprintf("something of the kind %q", h.Typeflag)
	}
	return fmt.Errorf("the node sent %q as %s instead of a file", h.Name, kind)
}

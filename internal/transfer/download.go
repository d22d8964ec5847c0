package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// Download copies a file or a folder of the node into the folder localDir,
// under the last element of its name. What is there already is replaced file
// by file. Permission bits are kept, except that the owner may always read and
// write; links inside a folder stay links. Pipes, sockets and devices are
// passed over. What is not there is an error that wraps fs.ErrNotExist.
func (r *Remote) Download(ctx context.Context, remote, localDir string) error {
	at, err := r.at(remote)
	if err != nil {
		return err
	}
	base, err := localName(path.Base(at))
	if err != nil || base == "." {
		return fmt.Errorf("%q has no last element that can name a file here", remote)
	}
	get := r.getTar
	if !r.Tools.Tar {
		get = r.getSFTP
	}
	return retry(ctx, func() error { return get(ctx, at, localDir, base) })
}

// packOne says whether $p is a file or a folder, and archives it.
const packOne = `if [ -d "$p" ]; then
	cd "$p" && echo folder && exec tar -cf - .
elif [ -f "$p" ]; then
	cd "${p%/*}/" && echo file && exec tar -chf - "./${p##*/}"
elif [ -e "$p" ] || [ -L "$p" ]; then
	fail "it is neither a file nor a folder there"
fi
d=${p%/*}
[ -x "${d:-/}" ] || [ ! -e "${d:-/}" ] || fail "Permission denied: $d"
exit ` + missing + "\n"

func (r *Remote) getTar(ctx context.Context, at, localDir, base string) error {
	return r.stream(ctx, script(packOne, "p="+at), at, nil, func(out io.Reader) error {
		b := bufio.NewReaderSize(out, chunk)
		kind, err := b.ReadString('\n')
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		tr := tar.NewReader(b)
		if kind == "folder\n" {
			l, err := openLanding(filepath.Join(localDir, base))
			if err != nil {
				return err
			}
			defer l.close()
			return l.unpack(tr, func(name string) (string, bool) { return name, true }, nil)
		}
		l, err := openLanding(localDir)
		if err != nil {
			return err
		}
		defer l.close()
		// One file was asked for. Whatever else the node sends is not taken,
		// and what it calls the file does not matter.
		taken := false
		return l.unpack(tr, func(string) (string, bool) {
			first := !taken
			taken = true
			return base, first
		}, nil)
	})
}

// unpack lets an archive arrive. rename gives each entry its name here, or
// refuses it; arrived, which may be nil, is told of each file.
func (l *landing) unpack(tr *tar.Reader, rename func(string) (string, bool), arrived func(File)) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the node's archive: %w", err)
		}
		name, wanted := rename(strings.TrimPrefix(h.Name, "./"))
		if name == "" && h.Typeflag == tar.TypeDir {
			continue // the folder itself
		}
		if !wanted {
			return fmt.Errorf("the node sent %q, which was not asked for", h.Name)
		}
		if err := l.unpackEntry(tr, h, name, arrived); err != nil {
			return err
		}
	}
}

func (l *landing) unpackEntry(tr *tar.Reader, h *tar.Header, name string, arrived func(File)) error {
	mode := fs.FileMode(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeDir:
		return l.dir(name, mode)
	case tar.TypeReg, tar.TypeGNUSparse:
		sum, err := l.file(name, mode, h.Size, tr, arrived != nil)
		if err == nil && arrived != nil {
			arrived(File{name, h.Size, sum})
		}
		return err
	case tar.TypeSymlink:
		return l.symlink(name, h.Linkname)
	case tar.TypeLink:
		err := l.hardlink(name, strings.TrimPrefix(h.Linkname, "./"))
		if err == nil && arrived != nil {
			var f File
			if f, err = l.look(name); err == nil {
				arrived(f)
			}
		}
		return err
	}
	return nil
}

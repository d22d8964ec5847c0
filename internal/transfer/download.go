package transfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
)

// DownloadOptions are the options of Download.
type DownloadOptions struct {
	// Below is a folder in localDir that receives everything. It is made if it is missing, and must not be a link.
	// Empty means localDir itself.
	Below string
	// Links decides about links that lead out of a folder.
	Links    Links
	Progress Progress
	Limits
}

// Download copies a file or a folder of the node into the folder localDir, under the last element of its name. It
// replaces existing files one by one. Permission bits are kept as far as the umask lets them (see Mask). Pipes,
// sockets and devices are skipped. If remote does not exist the error wraps fs.ErrNotExist.
//
// Links inside a folder stay links if they lead to a place in it; DownloadOptions.Links decides about others. By
// default everything else is copied, and the error wraps ErrOutsideLink. LocalDir may be a link, but no link below it
// is followed: one in the place of a folder is an error.
func (r *Remote) Download(ctx context.Context, remote, localDir string, o DownloadOptions) error {
	at, err := r.at(remote)
	if err != nil {
		return err
	}
	base, err := localName(path.Base(at))
	if err != nil || base == "." {
		return fmt.Errorf("%q has no last element that can name a file here", remote)
	}
	l, err := openLanding(localDir, o.Limits, o.Progress)
	if err != nil {
		return err
	}
	defer l.close()
	if o.Below != "" {
		whole := l
		if l, err = whole.below(o.Below); err != nil {
			return err
		}
		defer l.close()
	}
	get := r.getTar
	if !r.Tools.Tar {
		get = r.getSFTP
	}
	err = retry(ctx, func() error {
		l.begin()
		return get(ctx, at, l, base, o.Links)
	})
	if err == nil && o.Links == RefuseOutside {
		err = l.leftOut.err("all else arrived, but these, which are absolute or lead out of the folder")
	}
	return err
}

// packOne reports whether $p is a file or a folder, and archives it.
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

func (r *Remote) getTar(ctx context.Context, at string, l *landing, base string, links Links) error {
	return r.stream(ctx, script(packOne, "p="+at), at, nil, func(out io.Reader) error {
		b := bufio.NewReaderSize(out, chunk)
		isFolder, err := readKind(b)
		switch {
		case err != nil:
			return err
		case !isFolder:
			return l.unpackFile(b, path.Base(at), base)
		}
		folder, err := l.below(base)
		if err != nil {
			return err
		}
		defer folder.close()
		return folder.unpackTree(b, links)
	})
}

// readKind reads packOne's first line.
func readKind(b *bufio.Reader) (isFolder bool, err error) {
	line := make([]byte, 0, len("folder\n"))
	for len(line) < cap(line) {
		c, err := b.ReadByte()
		if err != nil {
			return false, io.ErrUnexpectedEOF
		}
		if line = append(line, c); c == '\n' {
			break
		}
	}
	switch string(line) {
	case "folder\n":
		return true, nil
	case "file\n":
		return false, nil
	}
	return false, fmt.Errorf("the node answers %q instead of \"file\" or \"folder\": does a start-up file of its shell print something?", line)
}

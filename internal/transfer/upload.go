package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
)

// Options are the options of Upload.
type Options struct {
	// Exclude are patterns, as in .gitignore, of files to leave out of a folder.
	Exclude []string
	// Links decides about links that lead out of a folder.
	Links    Links
	Progress Progress
	// Vanished is told, in words, at the end of an Upload of a folder, what was listed in it and was not there any more when
	// its turn came. Without it that is an error.
	Vanished func(what string)
}

// Upload copies a file or a folder to the node. It puts it exactly at remote, and makes the parent folders: a file
// replaces a file, a folder's tree is merged into an existing folder, file by file. Permission bits are kept, and the
// times of files to the second. Sockets, pipes and devices are skipped.
//
// Inside a folder a symbolic link stays one if it is relative and leads to a place in the folder, existing or not, by
// all links on the way. Options.Links decides about others: by default they are an error that wraps ErrOutsideLink,
// before anything is sent. Only local itself may be any link. A link that replaces a file after the folder was listed
// is not followed either.
//
// A file that exists with the same size, time (to the second) and permission bits counts as unchanged and is not sent
// again, except that single files of up to 8 MiB are always sent. A file that was written less than two seconds before
// it is sent gets a time one second earlier: so a second change within the same second is never missed.
//
// When Upload returns nil, the programs on the node that wrote the files have reported that they wrote everything they
// received, which is what was sent: SSH authenticates every byte. Nothing forces it from the node's memory to its disk.
// If a file was written here while it was sent, as its size or time shows, Upload fails.
func (r *Remote) Upload(ctx context.Context, local, remote string, o Options) error {
	at, err := r.at(remote)
	if err != nil {
		return err
	}
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return r.uploadTree(ctx, local, at, o)
	case info.Mode().IsRegular():
		return retry(ctx, func() error { return r.uploadFile(ctx, local, at, newMeter(o.Progress)) })
	}
	return fmt.Errorf("%s is neither a file nor a folder", local)
}

func (r *Remote) uploadFile(ctx context.Context, local, at string, m *meter) error {
	o := open(&item{local: local})
	if o.err != nil {
		return o.err
	}
	defer o.close()
	f, info := o.file, o.info
	m.expect(info.Size())
	if info.Size() > bulkSize {
		return r.uploadBulk(ctx, f, info, at, m)
	}
	stage := path.Join(path.Dir(at), stageName())
	defer r.discard(ctx, stage)
	return r.stream(ctx, script(prepareFile+receiveFile+placeFile, fileVars(at, stage, info)...), at,
		func(w io.Writer) error { return sendWhole(m.count(w), f, info) }, nil)
}

// sendWhole sends a file to a script that expects its size: the last byte is sent only if the file has not changed.
func sendWhole(w io.Writer, f *os.File, info fs.FileInfo) error {
	before := max(info.Size()-1, 0)
	if err := sendRange(w, f, info, 0, before); err != nil {
		return err
	}
	return sendRange(w, f, info, before, info.Size()-before)
}

// fileVars returns the variables of the scripts that receive one file.
func fileVars(at, stage string, info fs.FileInfo) []string {
	return []string{
		"p=" + at, "d=" + path.Dir(at), "s=" + stage,
		"size=" + strconv.FormatInt(info.Size(), 10),
		"mode=" + strconv.FormatUint(uint64(info.Mode().Perm()), 8),
		"time=" + sentTime(info.ModTime()).UTC().Format("200601021504.05"),
	}
}

// The scripts that receive one file: $p is its place, $d the folder of that, $s its temporary path.
const (
	prepareFile = `[ ! -d "$p" ] || fail "it is a folder there; name the file in it"
mkdir -p "$d" || exit 1
` + removeStage + `umask 077
`
	receiveFile = `cat >"$s" || exit 1
`
	// The size comes from ls: some versions of wc read the whole file for it.
	placeFile = `ls -nd "$s" | {
	read -r perm links user group n rest
	[ "$n" = "$size" ]
} || fail "it did not arrive whole"
TZ=UTC0 touch -t "$time" "$s" 2>/dev/null
chmod "$mode" "$s" && mv -f "$s" "$p" || exit 1
trap - EXIT
`
)

// sendRange sends a part of a file that must not change from info.
func sendRange(w io.Writer, f *os.File, info fs.FileInfo, from, size int64) error {
	return copyPart(w, io.NewSectionReader(f, from, size), size, f, info, make([]byte, min(chunk, max(size, 1))))
}

// copyUnchanged copies a file that must not change from info.
func copyUnchanged(w io.Writer, f *os.File, info fs.FileInfo, buf []byte) error {
	return copyPart(w, io.LimitReader(f, info.Size()), info.Size(), f, info, buf)
}

func copyPart(w io.Writer, part io.Reader, size int64, f *os.File, info fs.FileInfo, buf []byte) error {
	n, err := io.CopyBuffer(onlyWriter{w}, onlyReader{part}, buf)
	if changed := checkUnchanged(f, info); changed != nil {
		return changed
	}
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// checkUnchanged returns an error if the size or time of an open file has changed.
func checkUnchanged(f *os.File, was fs.FileInfo) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	if is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime()) {
		return errChanged(f.Name(), was.Size(), is.Size())
	}
	return nil
}

func errChanged(name string, was, is int64) error {
	how := "was written to"
	if is < was {
		how = fmt.Sprintf("became shorter (%d bytes, from %d)", is, was)
	} else if is > was {
		how = fmt.Sprintf("became longer (%d bytes, from %d)", is, was)
	}
	return fmt.Errorf("%s %s while it was sent: %w", name, how, errWritten)
}

// errWritten ends the error about a file that changed while it was sent.
var errWritten = errors.New("send it when nothing writes to it, or leave it out")

// onlyWriter hides ReadFrom, and onlyReader WriteTo, which would choose a small buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

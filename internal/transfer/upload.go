package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
)

// Options are what Upload can be told beside its paths.
type Options struct {
	// Exclude are patterns, as in .gitignore, of what is left out of a folder.
	Exclude []string
	// Progress is told of how many bytes of content have been sent, by one
	// caller at a time. The count starts again where the sending does.
	Progress func(sent int64)
}

// Upload copies a file or a folder to the node. It lands exactly at remote,
// whose parent folders are made: a file replaces a file, a folder's tree is
// merged into what is there, file by file. Permission bits are kept, times
// are not. Inside a folder a symbolic link stays one when it is relative and
// leads to somewhere inside, or nowhere; of any other the content is sent.
// Sockets, pipes and devices are passed over.
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
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > bulkSize {
		return r.uploadBulk(ctx, f, info, at, m)
	}
	sum := ""
	if r.Tools.SHA256 != "" {
		if sum, err = hashOf(ctx, local); err != nil {
			return err
		}
	}
	stage := path.Join(path.Dir(at), stageName())
	defer r.discard(ctx, stage)
	return r.stream(ctx, script(prepareFile+receiveFile+placeFile, r.fileVars(at, stage, info, sum)...), at,
		func(w io.Writer) error { return copyExactly(m.count(w), f, info) }, nil)
}

// fileVars are the variables of the scripts that receive one file.
func (r *Remote) fileVars(at, stage string, info fs.FileInfo, sum string) []string {
	return []string{
		"p=" + at, "d=" + path.Dir(at), "s=" + stage, "sum=" + sum, "hasher=" + r.Tools.SHA256,
		"size=" + strconv.FormatInt(info.Size(), 10),
		"mode=" + strconv.FormatUint(uint64(info.Mode().Perm()), 8),
	}
}

// The scripts that receive one file: $p is its place, $d the folder of that,
// $s where it is kept until it is whole.
const (
	prepareFile = `[ ! -d "$p" ] || fail "it is a folder there; name the file in it"
mkdir -p "$d" || exit 1
` + removeStage + `umask 077
`
	receiveFile = `cat >"$s" || exit 1
[ -z "$sum" ] || [ "$(eval "$hasher" <"$s" | cut -c 1-64)" = "$sum" ] || fail "what arrived is not what was sent"
`
	placeFile = `[ "$(wc -c <"$s")" -eq "$size" ] || fail "it did not arrive whole"
chmod "$mode" "$s" && mv -f "$s" "$p" || exit 1
trap - EXIT
`
)

// copyExactly copies a file that must still be as long as info says.
func copyExactly(w io.Writer, f io.Reader, info fs.FileInfo) error {
	n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(f, info.Size()), make([]byte, min(chunk, max(info.Size(), 1))))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s became shorter while it was sent", info.Name())
	}
	return err
}

// onlyWriter hides ReadFrom, which would choose a small buffer.
type onlyWriter struct{ io.Writer }

// A meter counts what is sent and tells who wants to know.
type meter struct {
	mu   sync.Mutex
	sent int64
	tell func(int64)
}

func newMeter(tell func(int64)) *meter { return &meter{tell: tell} }

// count returns w, with all that is written to it counted.
func (m *meter) count(w io.Writer) io.Writer {
	if m.tell == nil {
		return w
	}
	return &counted{m, w}
}

type counted struct {
	m *meter
	w io.Writer
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.sent += int64(n)
	c.m.tell(c.m.sent)
	return n, err
}

// sumOf returns the SHA-256 of a stream in hex.
func sumOf(rd io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{h}, rd, make([]byte, chunk)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A File is one that Fetch brought.
type File struct {
	Name   string // relative, with slashes
	Size   int64
	SHA256 string // in hex
}

// FetchOptions are what Fetch can be told beside its paths. The zero value takes
// all that matches below the Remote's Dir.
type FetchOptions struct {
	// Dir is another folder for the globs to start in: absolute, or relative to
	// the Remote's Dir.
	Dir string
	// Since is a file on the node, absolute or relative to the Remote's Dir. Only
	// files come of which anything changed after it was last written to.
	//
	// A file's own time of change (ctime) counts, which programs cannot set: so a
	// file counts as changed that was written, moved or linked to its place, or had
	// its mode set, since then, even where it kept an old time of modification (cp
	// -p, tar). Of a link the file that it leads to counts. The times are those of
	// the node's file systems: what has the same time as the marker counts as
	// changed, and equal times mean the same tick of its clock (1 to 10 ms on
	// Linux, more on some network file systems). The marker should be on the file
	// system that the files are on, and the clock must not have been set back.
	//
	// A node whose stat does not know -c (macOS) compares by find -cnewer, and by
	// the time of modification to the second: a file that was last written to
	// within the marker's second counts as changed there.
	Since string
	Limits
}

// Fetch brings the files of Dir that match the globs into localDir, each under
// its name relative to Dir, and checks every one against the node's own sum.
// A link to a file brings the file; links to folders are not looked into. The
// files are sorted by name. That a glob matches none is no error: see
// Unmatched. Files that arrived before an error are returned beside it.
//
// Only regular files arrive, each once. When their sums have been compared they are
// looked at again: what is returned is what was checked.
func (r *Remote) Fetch(ctx context.Context, globs []string, localDir string, o FetchOptions) ([]File, error) {
	since := ""
	if o.Since != "" {
		var err error
		if since, err = r.at(o.Since); err != nil {
			return nil, fmt.Errorf("the marker: %w", err)
		}
	}
	if o.Dir != "" {
		dir, err := r.at(o.Dir)
		if err != nil {
			return nil, err
		}
		from := *r
		from.Dir = dir
		r = &from
	}
	parsed := make([]glob, len(globs))
	for i, text := range globs {
		var err error
		if parsed[i], err = parseGlob(text); err != nil {
			return nil, err
		}
	}
	if len(parsed) == 0 {
		return nil, nil
	}
	var names []string
	err := retry(ctx, func() (err error) {
		names, err = r.find(ctx, parsed, since, o.Limits)
		return err
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if err := checkNames(names); err != nil {
		return nil, err
	}
	l, err := openLanding(localDir, o.Limits)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var files []File
	for batch := range batches(names) {
		var got []File
		err := retry(ctx, func() (err error) {
			l.begin()
			got, err = r.fetch(ctx, l, batch)
			return err
		})
		files = append(files, got...)
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// checkNames refuses names that cannot be files here, or not beside each other.
func checkNames(names []string) error {
	taken := make(map[string]string, len(names))
	for _, n := range names {
		local, err := nodeName(n)
		if err != nil {
			return err
		}
		local = folded(local)
		if other, twice := taken[local]; twice {
			return fmt.Errorf("the node has %q and %q, which are one file here", other, n)
		}
		taken[local] = n
	}
	return nil
}

// fetch brings one batch of files, whose names start with "./", and checks it. It
// leaves nothing here that it does not return.
func (r *Remote) fetch(ctx context.Context, l *landing, names []string) (_ []File, err error) {
	arrived := make(map[string]arrival, len(names))
	defer func() {
		if err != nil {
			for _, a := range arrived {
				l.remove(a.local)
			}
		}
	}()
	var sums []string
	command := `cd "$d" || exit 1` + "\nset --" + words(names) + "\n"
	if r.Tools.Tar {
		command += `tar -chf - "$@" || exit 1` + "\n"
	} else if err := r.fetchSFTP(ctx, l, names, arrived); err != nil {
		return nil, err
	}
	command += r.sumAll(names)
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[strings.TrimPrefix(n, "./")] = true
	}
	err = r.stream(ctx, script(command, "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
		b := bufio.NewReaderSize(out, chunk)
		if r.Tools.Tar {
			err = l.unpackFiles(b, wanted, arrived)
		}
		if err == nil && r.Tools.SHA256 != "" {
			sums, err = readSums(b, len(names))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.check(arrived, names, sums)
}

// sumAll returns the command that prints the sum of each of "$@", in order.
func (r *Remote) sumAll(names []string) string {
	switch {
	case r.Tools.SHA256 == "":
		return ""
	case slices.ContainsFunc(names, func(n string) bool { return strings.ContainsAny(n, "\n\r\\") }):
		// Programs differ in how they print such a name.
		return "for f; do " + r.Tools.SHA256 + ` <"$f" || exit 1; done` + "\n"
	}
	return r.Tools.SHA256 + ` "$@" || exit 1` + "\n"
}

const (
	// sumBytes is the length of the longest line with a sum: a name may follow it.
	sumBytes = nameBytes + 1<<10
	// paddingBytes is how much of nothing may follow an archive's end.
	paddingBytes = 1 << 20
)

// readSums reads the n lines that sumAll's command prints, after what pads the archive.
func readSums(out io.Reader, n int) ([]string, error) {
	b := bufio.NewReaderSize(out, sumBytes)
	if err := skipPadding(b); err != nil {
		return nil, err
	}
	var sums []string
	for {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		const size = 2 * sha256.Size
		if len(sums) == n {
			return nil, fmt.Errorf("the node gave more than %d sums for as many files", n)
		}
		if _, badHex := hex.DecodeString(string(line[:min(size, len(line))])); badHex != nil || len(line) < size || errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("the node says %.100q for the sum of a file", line)
		}
		sums = append(sums, strings.ToLower(string(line[:size])))
	}
	if len(sums) != n {
		return nil, fmt.Errorf("the node gave %d sums for %d files: %w", len(sums), n, io.ErrUnexpectedEOF)
	}
	return sums, nil
}

func skipPadding(b *bufio.Reader) error {
	for range paddingBytes {
		c, err := b.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c != 0 {
			return b.UnreadByte()
		}
	}
	return fmt.Errorf("the node sent %d bytes of nothing after its archive", paddingBytes)
}

// check compares what arrived with what the node says of it, and looks at it again:
// what is returned is in the landing.
func (l *landing) check(arrived map[string]arrival, names, sums []string) ([]File, error) {
	files := make([]File, len(names))
	for i, n := range names {
		n = strings.TrimPrefix(n, "./")
		a, ok := arrived[n]
		if !ok {
			return nil, fmt.Errorf("the node did not send %q", n)
		}
		if sums != nil && a.SHA256 != sums[i] {
			return nil, fmt.Errorf("%q is not what the node has: did something write to it meanwhile?", n)
		}
		files[i] = a.File
	}
	for _, a := range arrived {
		if err := l.verify(&a); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// fetchSFTP brings files from a node without tar.
func (r *Remote) fetchSFTP(ctx context.Context, l *landing, names []string, arrived map[string]arrival) error {
	return r.withSFTP(ctx, r.Dir, func(c *server) error {
		var g errgroup.Group
		var mu sync.Mutex
		g.SetLimit(filesAtOnce)
		for _, n := range names {
			g.Go(func() error {
				at := path.Join(r.Dir, n)
				info, err := c.Stat(at)
				if err != nil {
					return fmt.Errorf("%s on the node: %w", at, err)
				}
				if !info.Mode().IsRegular() {
					return fmt.Errorf("%q on the node is no file any more", at)
				}
				n := strings.TrimPrefix(n, "./")
				local, err := l.claim(n, fileKind, info.Size())
				if err != nil {
					return err
				}
				a, err := l.getFile(c, at, n, local, info, true)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				arrived[n] = a
				return nil
			})
		}
		return g.Wait()
	})
}

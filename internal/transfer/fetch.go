package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A File is a file that Fetch brought.
type File struct {
	Name   string // relative, with slashes
	Size   int64
	SHA256 string // in hex
}

// FetchOptions are the options of Fetch. The zero value takes every match below the Remote's Dir.
type FetchOptions struct {
	// Dir is another folder in which the globs start: absolute, or relative to the Remote's Dir.
	Dir string
	// Since is a file on the node, absolute or relative to the Remote's Dir. Fetch brings only files that changed in
	// any way after it was last written.
	//
	// A file's time of change (ctime) counts, which programs cannot set: a file counts as changed if it was since
	// written, moved or linked to its place, or had its mode set, even if it kept an old modification time (cp -p,
	// tar). For a link the file that it leads to counts. The times are those of the node's file systems. A file with
	// the marker's time counts as changed; equal times mean the same tick of the clock (1 to 10 ms on Linux, more on
	// some network file systems). The marker should be on the files' file system, and the clock must not have been set
	// back.
	//
	// A node whose stat does not support -c (macOS) compares by find -cnewer, and by the modification time to the
	// second: a file last written within the marker's second counts as changed there.
	Since    string
	Progress Progress
	Limits
}

// Fetch brings the files of Dir that match the globs into localDir, each under its name relative to Dir, and checks
// every one against the node's checksum. A link to a file brings the file; links to folders are not searched. The files
// are sorted by name. A glob that matches nothing is no error: see Unmatched. Files that arrived before an error are
// returned with it.
//
// Only regular files arrive, each once. After their checksums were compared they are checked again: what is returned is
// what was verified.
func (r *Remote) Fetch(ctx context.Context, globs []string, localDir string, o FetchOptions) ([]File, error) {
	r, s, err := newSearch(r, globs, o)
	if err != nil {
		return nil, err
	}
	found, err := s.run(ctx, r)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].name
	}
	return fetchAll(ctx, r, names, 0, localDir, o)
}

// fetchAll brings and checks files of the Remote's Dir, which have so many bytes, or zero if that is not known.
func fetchAll(ctx context.Context, r *Remote, names []string, size int64, localDir string, o FetchOptions) (files []File, err error) {
	l, err := openLanding(localDir, o.Limits, o.Progress)
	if err != nil {
		return nil, err
	}
	defer l.close()
	l.meter.expect(size)
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
		l.meter.keep()
	}
	return files, nil
}

// A search says which files of a node are wanted.
type search struct {
	globs []glob
	since string // the marker, an absolute path, or empty
	most  Limits
	// lively is for files that may be written meanwhile: their stamps are listed, and a marker that is not there means
	// that nothing is.
	lively bool
}

// newSearch returns what a Fetch looks for, and the Remote of the folder in which it does.
func newSearch(r *Remote, globs []string, o FetchOptions) (*Remote, search, error) {
	s := search{most: o.Limits}
	var err error
	if o.Since != "" {
		if s.since, err = r.at(o.Since); err != nil {
			return nil, s, fmt.Errorf("the marker: %w", err)
		}
	}
	if o.Dir != "" {
		from := *r
		if from.Dir, err = r.at(o.Dir); err != nil {
			return nil, s, err
		}
		r = &from
	}
	for _, text := range globs {
		g, err := parseGlob(text)
		if err != nil {
			return nil, s, err
		}
		s.globs = append(s.globs, g)
	}
	return r, s, nil
}

// run is Remote.find for names that are valid here, and tries again if the connection is lost.
func (s search) run(ctx context.Context, r *Remote) (found []listed, err error) {
	if len(s.globs) == 0 {
		return nil, nil
	}
	err = retry(ctx, func() (err error) {
		found, err = r.find(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, checkNames(found)
}

// checkNames refuses names that are not valid here, or that name the same file here.
func checkNames(found []listed) error {
	taken := make(map[string]string, len(found))
	for i := range found {
		n := found[i].name
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

// fetch brings and checks one batch of files, whose names start with "./". It removes what it does not return.
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
	} else if err := r.fetchSFTP(ctx, l, names, arrived, false); err != nil {
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
			sums, err = readSums(b, len(names), false)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.check(arrived, names, sums)
}

// sumAll returns the command that prints the checksum of each of "$@", in order.
func (r *Remote) sumAll(names []string) string {
	switch {
	case r.Tools.SHA256 == "":
		return ""
	case areOdd(names):
		return "for f; do " + r.Tools.SHA256 + ` <"$f" || exit 1; done` + "\n"
	}
	return r.Tools.SHA256 + ` "$@" || exit 1` + "\n"
}

// areOdd reports whether programs for sums differ in how they print one of the names: such a file comes from stdin.
func areOdd(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.ContainsAny(n, "\n\r\\") })
}

const (
	// sumBytes bounds a line with a checksum: a name may follow it.
	sumBytes = nameBytes + 1<<10
	// paddingBytes bounds the zeros after an archive's end.
	paddingBytes = 1 << 20
)

// noSum stands for the sum of a file that is not there.
const noSum = "-"

// readSums reads the n lines that sumAll's command prints, after the archive's padding. A line of a file that is gone
// may be noSum if lively is set.
func readSums(out io.Reader, n int, lively bool) ([]string, error) {
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
		if lively && string(line) == noSum+"\n" {
			sums = append(sums, noSum)
			continue
		}
		if _, badHex := hex.DecodeString(string(line[:min(size, len(line))])); badHex != nil || len(line) < size || errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("the node reports %.100q as the sum of a file", line)
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
	return fmt.Errorf("the node sent %d zero bytes after its archive", paddingBytes)
}

// check compares the files that arrived with the node's checksums, and verifies that they are still in the landing.
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

// fetchSFTP brings files from a node without tar. If lively is set, files that are gone or become shorter are left out.
func (r *Remote) fetchSFTP(ctx context.Context, l *landing, names []string, arrived map[string]arrival, lively bool) error {
	return r.withSFTP(ctx, r.Dir, func(c *server) error {
		var g errgroup.Group
		var mu sync.Mutex
		g.SetLimit(filesAtOnce)
		for _, n := range names {
			g.Go(func() error {
				n := strings.TrimPrefix(n, "./")
				a, err := l.fetchOne(c, r.Dir, n)
				switch {
				case lively && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errShrunk)):
					return nil
				case err != nil:
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

// fetchOne brings one file of a folder over SFTP.
func (l *landing) fetchOne(c *server, dir, name string) (arrival, error) {
	at := path.Join(dir, name)
	info, err := c.Stat(at)
	if err != nil {
		return arrival{}, fmt.Errorf("%s on the node: %w", at, err)
	}
	if !info.Mode().IsRegular() {
		return arrival{}, fmt.Errorf("%q on the node is no longer a file", at)
	}
	local, err := l.claim(name, fileKind, info.Size())
	if err != nil {
		return arrival{}, err
	}
	return l.getFile(c, at, name, local, info, true)
}

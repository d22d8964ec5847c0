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
	Since string
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

// checkNames refuses names that are not valid here, or that name the same file here.
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

// sumAll returns the command that prints the checksum of each of "$@", in order.
func (r *Remote) sumAll(names []string) string {
	switch {
	case r.Tools.SHA256 == "":
		return ""
	case slices.ContainsFunc(names, func(n string) bool { return strings.ContainsAny(n, "\n\r\\") }):
		// Programs differ in how they print such a name, so it comes from stdin.
		return "for f; do " + r.Tools.SHA256 + ` <"$f" || exit 1; done` + "\n"
	}
	return r.Tools.SHA256 + ` "$@" || exit 1` + "\n"
}

const (
	// sumBytes bounds a line with a checksum: a name may follow it.
	sumBytes = nameBytes + 1<<10
	// paddingBytes bounds the zeros after an archive's end.
	paddingBytes = 1 << 20
)

// readSums reads the n lines that sumAll's command prints, after the archive's padding.
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
					return fmt.Errorf("%q on the node is no longer a file", at)
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

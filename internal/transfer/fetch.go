package transfer

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/pkg/sftp"
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
}

// Fetch brings the files of Dir that match the globs into localDir, each under
// its name relative to Dir, and checks every one against the node's own sum.
// A link to a file brings the file; links to folders are not looked into. The
// files are sorted by name. That a glob matches none is no error: see
// Unmatched. Files that arrived before an error are returned beside it.
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
		names, err = r.find(ctx, parsed, since)
		return err
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	for _, n := range names {
		if _, err := localName(n); err != nil {
			return nil, err
		}
	}
	l, err := openLanding(localDir)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var files []File
	for batch := range batches(names) {
		var got []File
		err := retry(ctx, func() (err error) {
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

// fetch brings one batch of files, whose names start with "./", and checks it.
func (r *Remote) fetch(ctx context.Context, l *landing, names []string) ([]File, error) {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[strings.TrimPrefix(n, "./")] = true
	}
	var files []File
	var sums []string
	command := `cd "$d" || exit 1` + "\nset --" + words(names) + "\n"
	if r.Tools.Tar {
		command += `tar -chf - "$@" || exit 1` + "\n"
	} else {
		var err error
		if files, err = r.fetchSFTP(ctx, l, names); err != nil {
			return nil, err
		}
	}
	command += r.sumAll(names)
	err := r.stream(ctx, script(command, "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
		if r.Tools.Tar {
			take := func(name string) (string, bool) { return name, wanted[name] }
			err = l.unpack(tar.NewReader(out), take, func(f File) { files = append(files, f) })
		}
		if err == nil {
			sums, err = readSums(out)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return files, l.check(files, names, sums, r.Tools.SHA256 != "")
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

// readSums reads what sumAll's command prints, after what pads the archive.
func readSums(out io.Reader) ([]string, error) {
	text, err := io.ReadAll(out)
	if err != nil {
		return nil, err
	}
	var sums []string
	for line := range strings.Lines(strings.TrimLeft(string(text), "\x00")) {
		const size = 2 * sha256.Size
		if _, err := hex.DecodeString(line[:min(size, len(line))]); err != nil || len(line) < size {
			return nil, fmt.Errorf("the node says %q for the sum of a file", line)
		}
		sums = append(sums, strings.ToLower(line[:size]))
	}
	return sums, nil
}

// check compares what arrived with what the node says of it. A file that is
// not the same is taken away again.
func (l *landing) check(files []File, names, sums []string, summed bool) error {
	got := make(map[string]File, len(files))
	for _, f := range files {
		got[f.Name] = f
	}
	if summed && len(sums) != len(names) {
		return fmt.Errorf("the node gave %d sums for %d files", len(sums), len(names))
	}
	for i, n := range names {
		n = strings.TrimPrefix(n, "./")
		f, ok := got[n]
		if !ok {
			return fmt.Errorf("the node did not send %q", n)
		}
		if summed && f.SHA256 != sums[i] {
			l.remove(n)
			return fmt.Errorf("%q is not what the node has: did something write to it meanwhile?", n)
		}
	}
	return nil
}

// fetchSFTP brings files from a node without tar.
func (r *Remote) fetchSFTP(ctx context.Context, l *landing, names []string) ([]File, error) {
	files := make([]File, len(names))
	err := r.withSFTP(ctx, r.Dir, func(c *sftp.Client) error {
		var g errgroup.Group
		g.SetLimit(filesAtOnce)
		for i, n := range names {
			g.Go(func() error {
				at := path.Join(r.Dir, n)
				info, err := c.Stat(at)
				if err != nil {
					return fmt.Errorf("%s on the node: %w", at, err)
				}
				n := strings.TrimPrefix(n, "./")
				sum, err := l.getFile(c, at, n, info)
				files[i] = File{n, info.Size(), sum}
				return err
			})
		}
		return g.Wait()
	})
	return files, err
}

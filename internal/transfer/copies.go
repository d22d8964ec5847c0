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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Copies are a folder here with the copies of files of a node that a program may still write. Bring adds to them, again
// and again. A reader of the folder sees each file as one of its copies, never a part of one. A file that the node has
// no longer keeps its last copy.
//
// The methods of Copies, and Bring, must not be called concurrently.
type Copies struct {
	dir   string
	files map[string]copied // by name
}

// A copied file is one of the Copies.
type copied struct {
	File
	from  string // the folder on the node
	stamp string // as in listed
}

// arriving, after the name of a folder of Copies, names the folder beside it in which files arrive.
const arriving = ".arriving"

// NewCopies returns copies without files, in a folder that need not exist.
func NewCopies(dir string) *Copies { return &Copies{dir: dir, files: map[string]copied{}} }

// Recall adds the files that are in the folder: those that an earlier program has brought.
func (c *Copies) Recall() error {
	root, err := os.OpenRoot(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := root.Open(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		size, err := io.Copy(sum, f)
		c.files[name] = copied{File: File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}}
		return err
	})
}

// Files returns the files, sorted by name.
func (c *Copies) Files() (files []File) {
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		files = append(files, c.files[name].File)
	}
	return files
}

// has reports whether a file has not changed since it was copied.
func (c *Copies) has(from string, l *listed) bool {
	have, ok := c.files[l.name]
	return ok && l.stamp != "" && have.stamp == l.stamp && have.from == from
}

// ErrUnsettled means that files were written over while they were copied, and were left out.
var ErrUnsettled = errors.New("written over while it was copied")

// Bring is Fetch for files that may be written, moved or removed at the same time. It copies those that have changed, by
// their time of change and size, since they were copied last; after two seconds without a change a file counts as
// settled. If the node's stat does not support -c (macOS), every file counts as changed.
//
// A file that grows is copied up to where it was. A file that is written over while it is read is left out, and so keeps
// its last copy; the error then wraps ErrUnsettled, when all else has arrived. A file that is removed meanwhile is left
// out without an error, and so is everything if the marker Since does not exist.
//
// Limits hold for all of the copies together. If the node has no program for sums, a file that becomes shorter while it is
// read may end with zeros.
func (r *Remote) Bring(ctx context.Context, globs []string, c *Copies, o FetchOptions) error {
	r, s, err := newSearch(r, globs, o)
	if err != nil {
		return err
	}
	s.lively = true
	found, err := s.run(ctx, r)
	if err != nil {
		return err
	}
	stamps := make(map[string]string, len(found))
	var names []string
	var size int64
	for i := range found {
		if l := &found[i]; !c.has(r.Dir, l) {
			names = append(names, l.name)
			stamps[l.name] = l.stamp
			size += l.size
		}
	}
	if len(names) == 0 {
		return nil
	}
	stage := c.dir + arriving
	defer os.RemoveAll(stage)
	l, err := openLanding(stage, o.Limits, o.Progress)
	if err != nil {
		return err
	}
	defer l.close()
	l.preload(c.Files())
	l.meter.expect(size)
	var unsettled []string
	for batch := range batches(names) {
		var taken snapshot
		err := retry(ctx, func() error {
			l.begin()
			taken = snapshot{from: r, to: l}
			return taken.take(ctx, batch)
		})
		if err != nil {
			return err
		}
		unsettled = append(unsettled, taken.unsettled...)
		if err := c.place(taken.whole, r.Dir, stamps); err != nil {
			return l.explain(err)
		}
		l.meter.keep()
	}
	if len(unsettled) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsettled, someOf(unsettled))
	}
	return nil
}

// someOf lists the first of some names.
func someOf(names []string) string {
	const most = 3
	text := ""
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.100q", name)
	}
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// A snapshot is what has arrived of a batch of files.
type snapshot struct {
	from      *Remote
	to        *landing
	whole     []arrival // as the node had them at one moment
	unsettled []string
}

// take brings a batch of files that may be written meanwhile, whose names start with "./".
func (s *snapshot) take(ctx context.Context, names []string) error {
	arrived, sums, err := s.bring(ctx, names)
	if err != nil {
		return err
	}
	var grown []arrival
	for i, n := range names {
		a, ok := arrived[strings.TrimPrefix(n, "./")]
		switch {
		case !ok, sums != nil && sums[i] == noSum:
		case sums == nil || a.SHA256 == sums[i]:
			s.whole = append(s.whole, a)
		default:
			grown = append(grown, a)
		}
	}
	if err := s.sortOut(ctx, grown); err != nil {
		return err
	}
	for i := range s.whole {
		if err := s.to.verify(&s.whole[i]); err != nil {
			return err
		}
	}
	return nil
}

// bring brings the files that are there, and then the sum of each, unless the node has no program for sums.
func (s *snapshot) bring(ctx context.Context, names []string) (arrived map[string]arrival, sums []string, err error) {
	r := s.from
	arrived = make(map[string]arrival, len(names))
	command := `cd "$d" || exit 0` + "\nset --" + words(names) + "\n"
	if r.Tools.Tar {
		command += `tar -chf - "$@" 2>/dev/null || :` + "\n" // some may be gone
	} else if err := r.fetchSFTP(ctx, s.to, names, arrived, true); err != nil {
		return nil, nil, err
	}
	if r.Tools.SHA256 != "" {
		command += sumThere(r.Tools.SHA256, names)
	}
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[strings.TrimPrefix(n, "./")] = true
	}
	err = r.stream(ctx, script(command, "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
		b := bufio.NewReaderSize(out, chunk)
		if r.Tools.Tar {
			err = s.to.unpackFiles(b, wanted, arrived)
		}
		if err == nil && r.Tools.SHA256 != "" {
			sums, err = readSums(b, len(names), true)
		}
		return err
	})
	return arrived, sums, err
}

// sumThere is Remote.sumAll for files of which some may be gone: it prints noSum for those.
func sumThere(sum string, names []string) string {
	each := "for f; do { " + sum + ` <"$f"; } 2>/dev/null || echo ` + noSum + "; done\n"
	if areOdd(names) {
		return each
	}
	return "if s=$(" + sum + ` "$@" 2>/dev/null); then printf '%s\n' "$s"; else` + "\n" + each + "fi\n"
}

// sortOut adds to the snapshot those files that the node has now as they arrived, with more behind.
func (s *snapshot) sortOut(ctx context.Context, grown []arrival) error {
	if len(grown) == 0 {
		return nil
	}
	r := s.from
	var args []string
	for _, a := range grown {
		args = append(args, strconv.FormatInt(a.Size, 10), "./"+a.Name)
	}
	command := `cd "$d" || exit 0` + "\nset --" + words(args) + "\n" +
		`while [ $# -gt 1 ]; do { head -c "$1" "$2" | ` + r.Tools.SHA256 + `; } 2>/dev/null || echo ` + noSum + `; shift 2; done` + "\n"
	var sums []string
	err := r.stream(ctx, script(command, "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
		sums, err = readSums(bufio.NewReaderSize(out, chunk), len(grown), true)
		return err
	})
	if err != nil {
		return err
	}
	for i, a := range grown {
		if sums[i] == a.SHA256 {
			s.whole = append(s.whole, a)
		} else {
			s.unsettled = append(s.unsettled, a.Name)
		}
	}
	return nil
}

// place moves files that have arrived to their places.
func (c *Copies) place(whole []arrival, from string, stamps map[string]string) error {
	root, err := os.OpenRoot(filepath.Dir(c.dir))
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(c.dir)
	for _, a := range whole {
		at := filepath.Join(base, a.local)
		move := func() error {
			if err := root.MkdirAll(filepath.Dir(at), newFolder); err != nil {
				return err
			}
			return root.Rename(filepath.Join(base+arriving, a.local), at)
		}
		err := move()
		if err != nil && c.clear(root, base, a.local) {
			err = move()
		}
		if err != nil {
			return err
		}
		c.files[a.Name] = copied{a.File, from, stamps[a.Name]}
	}
	return nil
}

// clear removes copies that are in the way of another one: a file that has become a folder on the node, or a folder that
// has become a file. It reports whether there were any.
func (c *Copies) clear(root *os.Root, base, local string) (removed bool) {
	drop := func(there string) {
		removed = root.RemoveAll(filepath.Join(base, there)) == nil || removed
		name := filepath.ToSlash(there)
		maps.DeleteFunc(c.files, func(n string, _ copied) bool { return n == name || strings.HasPrefix(n, name+"/") })
	}
	for there := filepath.Dir(local); there != "."; there = filepath.Dir(there) {
		if info, err := root.Lstat(filepath.Join(base, there)); err == nil && !info.IsDir() {
			drop(there)
		}
	}
	if info, err := root.Lstat(filepath.Join(base, local)); err == nil && info.IsDir() {
		drop(local)
	}
	return removed
}

package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// An Entry is a file or folder that Sync copies to the node when it changes.
type Entry struct {
	// Local is the path here. Remote is the path on the node, relative to Dir and below it, or "." to put a folder's
	// content into Dir itself.
	Local, Remote string
	// Exclude are patterns, as in .gitignore, of files to leave out. A .gitignore inside the folder counts too; if they
	// disagree, Exclude wins. A .git is always left out.
	Exclude []string
	// Links decides about links that lead out of a folder.
	Links Links
}

// Check returns the error that Sync would return for the entry's links, or because it cannot be listed.
func (e Entry) Check() error {
	var open roots
	defer open.close()
	_, err := list(e, &open, new(vanished))
	return err
}

// Stats reports what a Sync did.
type Stats struct {
	Files int   // number of files and links
	Sent  int   // how many of them were sent
	Bytes int64 // how many bytes of content were sent
	// Digest is a hash of all names, modes and content.
	Digest string
	// Vanished says what was listed here, and not sent, as it was not there any more when its turn came. It is mostly empty.
	Vanished string
}

// String describes the stats: "12 files, 3 sent (2048 bytes)".
func (s Stats) String() string {
	return fmt.Sprintf("%d files, %d sent (%d bytes)", s.Files, s.Sent, s.Bytes)
}

// Sync makes the entries the same on the node, and sends only what changed since the last Sync. The node records in
// State what was sent. A file is sent if its SHA-256 or mode here has changed, or if the node's file is missing or was
// written since, by its time. A file that an earlier Sync sent and that no longer exists here is removed there; files
// that Sync did not send are left alone. Symbolic links are treated as by Upload, as Entry.Links says. Progress may be nil.
//
// The folders may be at work meanwhile, since what waits for them is billed: what vanishes is left out, of a file that grows
// its beginning is sent, and if one is rewritten all is looked at again, a few times.
func (r *Remote) Sync(ctx context.Context, entries []Entry, progress Progress) (Stats, error) {
	for try := 1; ; try++ {
		stats, err := r.syncOnce(ctx, entries, progress)
		if !errors.Is(err, errWritten) || try == syncTries {
			return stats, err
		}
		select {
		case <-ctx.Done():
			return stats, context.Cause(ctx)
		case <-time.After(time.Duration(try) * 300 * time.Millisecond):
		}
	}
}

// syncTries is how often Sync looks at its folders, if files in them are rewritten.
const syncTries = 4

func (r *Remote) syncOnce(ctx context.Context, entries []Entry, progress Progress) (Stats, error) {
	var open roots
	defer open.close()
	gone := new(vanished)
	items, err := r.gather(entries, &open, gone)
	if err != nil {
		return Stats{}, err
	}
	if items, err = sumItems(ctx, items, gone); err != nil {
		return Stats{}, err
	}
	var stats Stats
	err = retry(ctx, func() (err error) {
		stats, err = r.sync(ctx, entries, items, newMeter(progress), gone)
		return err
	})
	stats.Digest = fmt.Sprintf("%x", sha256.Sum256(encodeManifest(items)))
	stats.Vanished = gone.String()
	return stats, err
}

// gather lists the content of the entries, each name once, and every folder before its content.
func (r *Remote) gather(entries []Entry, open *roots, gone *vanished) ([]item, error) {
	var all, parents []item
	for _, e := range entries {
		remote := path.Clean(e.Remote)
		if e.Remote == "" || strings.IndexByte(remote, 0) >= 0 || remote != "." && !isBelow(remote) {
			return nil, fmt.Errorf("%q is not a path below the node's folder", e.Remote)
		}
		items, err := list(e, open, gone)
		if err != nil {
			return nil, err
		}
		for i := range items {
			items[i].name = path.Join(remote, items[i].name)
		}
		for dir := path.Dir(remote); dir != "."; dir = path.Dir(dir) {
			parents = append(parents, item{name: dir, mode: fs.ModeDir | 0o755})
		}
		all = append(all, items...)
	}
	// If two entries have the same name, the later one counts, and either replaces a folder that is only the parent of
	// an entry.
	slices.Reverse(all)
	all = append(all, parents...)
	slices.SortStableFunc(all, func(a, b item) int { return strings.Compare(a.name, b.name) })
	all = slices.CompactFunc(all, func(a, b item) bool { return a.name == b.name })
	return slices.DeleteFunc(all, func(it item) bool { return it.name == "." }), nil
}

// roots are the folders in which items are opened.
type roots []*os.Root

func (r *roots) close() {
	for _, root := range *r {
		root.Close()
	}
}

func list(e Entry, open *roots, gone *vanished) ([]item, error) {
	info, err := os.Stat(e.Local)
	if err != nil {
		return nil, err
	}
	local, err := filepath.Abs(e.Local)
	if err != nil {
		return nil, err
	}
	self := item{local: local, mode: info.Mode().Type() | info.Mode().Perm(), size: info.Size(), mtime: info.ModTime()}
	switch {
	case info.Mode().IsRegular():
		return []item{self}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("%s is neither a file nor a folder", e.Local)
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return nil, err
	}
	*open = append(*open, root)
	items, err := scan(root, local, e.Exclude, true, e.Links, gone)
	return append(items, self), err
}

// sumItems computes the SHA-256 of all files, several at once, and returns the items without those that have vanished.
func sumItems(ctx context.Context, items []item, gone *vanished) ([]item, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range items {
		if it := &items[i]; it.mode.IsRegular() {
			g.Go(func() (err error) {
				if it.sum, err = hashOf(ctx, it); gone.takes(it.name, err) {
					return nil
				}
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(items, func(it item) bool { return it.mode.IsRegular() && it.sum == "" }), nil
}

func (r *Remote) sync(ctx context.Context, entries []Entry, items []item, m *meter, gone *vanished) (Stats, error) {
	state := r.State
	if state == "" {
		state = path.Clean(r.Dir) + ".sync"
	}
	old, same, err := r.remembered(ctx, entries, state)
	if err != nil {
		return Stats{}, err
	}
	d := delivery{at: path.Clean(r.Dir), mode: 0o755, state: state, gone: gone}
	var stats Stats
	here := make(map[string]bool, len(items))
	changed := withFolders(items, func(i int) bool {
		it := &items[i]
		here[it.name] = true
		if !it.mode.IsDir() {
			stats.Files++
		}
		was, known := old[it.name]
		if known && was == it.entry() && (it.mode.IsDir() || same[it.name]) {
			return false
		}
		if known && was.mode.Type() != it.mode.Type() {
			here[it.name] = false // the old one is removed first
		}
		if !it.mode.IsDir() {
			stats.Sent++
			stats.Bytes += it.entry().size
		}
		return true
	})
	for name, e := range old {
		switch {
		case here[name]:
		case e.mode.IsDir():
			d.emptied = append(d.emptied, name)
		default:
			d.removed = append(d.removed, name)
		}
	}
	if len(changed)+len(d.removed)+len(d.emptied) == 0 && old != nil {
		return stats, nil
	}
	slices.Sort(d.removed)
	slices.Sort(d.emptied)
	slices.Reverse(d.emptied)
	d.manifest = encodeManifest(items)
	m.expect(sizeOf(changed))
	return stats, r.send(ctx, d, m, func() ([]item, error) { return changed, nil })
}

// readState prints the manifest, and then each file and link that exists and is not newer than the manifest.
const readState = `[ -f "$state" ] && cd "$d" 2>/dev/null || exit 0
cat "$state" || exit 1
find "$@" \( -type f -o -type l \) ! -newer "$state" -exec printf '%s\000' {} +
`

// stateBytes bounds that output: enough for a million files. If it is longer, everything is sent.
const stateBytes = 256 << 20

// remembered returns what was sent before, and which of it still exists and was not written since.
func (r *Remote) remembered(ctx context.Context, entries []Entry, state string) (manifest, map[string]bool, error) {
	tops := make([]string, len(entries))
	for i, e := range entries {
		tops[i] = "./" + path.Clean(e.Remote)
	}
	var fields []string
	var text strings.Builder
	// find complains about a missing folder, which is an answer too.
	command := "set --" + words(tops) + "\n" + readState + ":\n"
	err := r.stream(ctx, script(command, "d="+r.Dir, "state="+state), state, nil, func(out io.Reader) error {
		n, err := io.Copy(&text, io.LimitReader(bufio.NewReaderSize(out, chunk), stateBytes+1))
		if n > stateBytes {
			return errManifest
		}
		return err
	})
	if errors.Is(err, errManifest) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	fields = strings.Split(text.String(), "\x00")
	old, files, err := decodeManifest(fields)
	if errors.Is(err, errManifest) {
		return nil, nil, nil // no manifest, or one of another version: all is sent
	}
	same := make(map[string]bool, len(files))
	for _, f := range files {
		same[path.Clean(f)] = true
	}
	return old, same, err
}

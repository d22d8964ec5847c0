package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A landing is a local folder that receives things from a node. The node is not trusted: whatever names and links it
// sends, nothing outside the folder is written or read, and no link in it is followed, whether the node made it or not.
// Its methods may be called concurrently.
type landing struct {
	*tally
	meter *meter
	root  *os.Root
	name  string // its name in errors
	made  bool   // the folder was made for what arrives

	mu       sync.Mutex
	here     *os.Root // the folder that was used last, or nil
	hereName string
}

// openLanding opens the folder dir, which the caller chose: it may be a link.
func openLanding(dir string, most Limits, progress Progress) (*landing, error) {
	if err := os.MkdirAll(dir, newFolder); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &landing{tally: newTally(most), meter: newMeter(progress), root: root, name: dir}, nil
}

// begin starts another try.
func (l *landing) begin() {
	l.tally.begin()
	l.meter.rewind()
}

func (l *landing) close() error {
	l.leave()
	return l.root.Close()
}

// below opens a folder of the landing as a landing with the same tally.
func (l *landing) below(local string) (*landing, error) {
	sub, made, err := enter(l.root, local)
	if err != nil {
		return nil, l.explain(err)
	}
	return &landing{tally: l.tally, meter: l.meter, root: sub, name: filepath.Join(l.name, local), made: made}, nil
}

// enter opens a folder in another one, and makes it if it is missing.
func enter(parent *os.Root, name string) (folder *os.Root, made bool, err error) {
	err = parent.Mkdir(name, newFolder)
	if made = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, made, err
	}
	if !info.IsDir() {
		return nil, made, &notFolderError{name}
	}
	folder, err = parent.OpenRoot(name)
	if err != nil {
		return nil, made, err
	}
	opened, err := folder.Stat(".")
	if err == nil && !os.SameFile(info, opened) { // it was just replaced
		err = &notFolderError{name}
	}
	if err != nil {
		folder.Close()
		return nil, made, err
	}
	return folder, made, nil
}

// A notFolderError means that a link or a file of this machine has the name of a folder.
type notFolderError struct{ local string }

func (e *notFolderError) Error() string {
	return fmt.Sprintf("%q is a link or a file on this machine, and the node has a folder of that name: remove it, or choose another folder", e.local)
}

// in calls do with a folder of the landing. It makes missing folders; a link on the way is an error.
func (l *landing) in(dir string, do func(*os.Root) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	folder, err := l.folder(dir)
	if err == nil {
		err = do(folder)
	}
	return err
}

// folder opens a folder and keeps it open, because the next entry is mostly in it, or below it.
func (l *landing) folder(dir string) (*os.Root, error) {
	switch {
	case dir == ".":
		return l.root, nil
	case l.here != nil && dir == l.hereName:
		return l.here, nil
	}
	const separator = string(filepath.Separator)
	at, rest := l.root, dir
	if below, ok := strings.CutPrefix(dir, l.hereName+separator); ok && l.here != nil {
		at, rest = l.here, below
	}
	walked := len(dir) - len(rest)
	for element := range strings.SplitSeq(rest, separator) {
		next, _, err := enter(at, element)
		if at != l.root && at != l.here {
			at.Close()
		}
		walked += len(element)
		if e := (*notFolderError)(nil); errors.As(err, &e) {
			e.local = dir[:walked]
		}
		if err != nil {
			return nil, err
		}
		at, walked = next, walked+len(separator)
	}
	l.leave()
	l.here, l.hereName = at, dir
	return at, nil
}

func (l *landing) leave() {
	if l.here != nil {
		l.here.Close()
		l.here = nil
	}
}

// dir makes a folder, unless it exists.
func (l *landing) dir(name string, mode fs.FileMode) error {
	local, err := l.claim(name, folderKind, 0)
	if err != nil {
		return err
	}
	if local == "." {
		if l.made {
			err = narrow(l.root, mode)
		}
		return l.explain(err)
	}
	return l.explain(l.in(filepath.Dir(local), func(parent *os.Root) error {
		folder, made, err := enter(parent, filepath.Base(local))
		if e := (*notFolderError)(nil); errors.As(err, &e) {
			e.local = local
		}
		if err != nil {
			return err
		}
		defer folder.Close()
		if !made {
			return nil
		}
		return narrow(folder, mode)
	}))
}

// narrow takes from a folder that was just made what the node's folder has not.
func narrow(folder *os.Root, mode fs.FileMode) error {
	info, err := folder.Stat(".")
	if err != nil {
		return err
	}
	return folder.Chmod(".", Mask(info.Mode()).Of(fs.ModeDir|mode))
}

// An arrival is a file that arrived, with its identity on this machine.
type arrival struct {
	File
	local string
	info  fs.FileInfo
}

// file writes a file of the given size, which the tally must have counted. It computes its SHA-256 if summed is set.
func (l *landing) file(name, local string, mode fs.FileMode, size int64, content io.Reader, summed bool) (arrival, error) {
	a := arrival{File: File{Name: name, Size: size}, local: local}
	return a, l.place(local, func(folder *os.Root, stage string) (func() error, error) {
		f, err := folder.OpenFile(stage, os.O_WRONLY|os.O_CREATE|os.O_EXCL, widest.Of(mode.Perm()))
		return func() error { return a.write(f, l.meter.counts(content), summed) }, err
	})
}

// write fills the new file and closes it.
func (a *arrival) write(f *os.File, content io.Reader, summed bool) error {
	defer f.Close()
	var to io.Writer = f
	sum := sha256.New()
	if summed {
		to = io.MultiWriter(f, sum)
	}
	n, err := io.CopyBuffer(onlyWriter{to}, onlyReader{content}, make([]byte, min(chunk, max(a.Size, 1))))
	switch {
	case err != nil:
		return err
	case n != a.Size:
		return io.ErrUnexpectedEOF
	}
	if summed {
		a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	if a.info, err = f.Stat(); err != nil {
		return err
	}
	return f.Close()
}

// symlink makes a link. If the link leads out of the landing, links decides.
func (l *landing) symlink(name, target string, links Links) error {
	local, err := l.claim(name, otherKind, 0)
	if err != nil {
		return err
	}
	if len(target) > nameBytes || hasControl(target) {
		return fmt.Errorf("the node sent %q, a link to %.60q: that is no name of a file here", name, target)
	}
	if links != KeepOutside && !staysBelow(filepath.ToSlash(local), target) {
		l.leftOut.add(name, target)
		return nil
	}
	err = l.place(local, func(folder *os.Root, stage string) (func() error, error) {
		return nil, folder.Symlink(filepath.FromSlash(target), stage)
	})
	if err == nil && links != KeepOutside && leadsOut(l.root, local) {
		// It leads out by a link that was here before.
		l.leftOut.add(name, target)
		err = l.root.Remove(local)
	}
	return err
}

// hardlink gives a second name to a file that arrived earlier in the same try.
func (l *landing) hardlink(name, old string) (local string, err error) {
	from, err := nodeName(old)
	if err != nil {
		return "", err
	}
	if !l.has(from) {
		return "", fmt.Errorf("the node sent %q as a second name of %q, which is not a file that it sent", name, old)
	}
	if local, err = l.claim(name, fileKind, 0); err != nil {
		return "", err
	}
	return local, l.place(local, func(_ *os.Root, stage string) (func() error, error) {
		return nil, l.root.Link(from, filepath.Join(filepath.Dir(local), stage))
	})
}

// verify checks that the file that arrived is still at its place, and is not a link.
func (l *landing) verify(a *arrival) error {
	return l.explain(l.in(filepath.Dir(a.local), func(folder *os.Root) error {
		info, err := folder.Lstat(filepath.Base(a.local))
		if err == nil && (!info.Mode().IsRegular() || !os.SameFile(info, a.info) || info.Size() != a.Size) {
			err = fmt.Errorf("%q was replaced after it was checked", a.Name)
		}
		return err
	}))
}

// remove removes a file that arrived.
func (l *landing) remove(local string) {
	l.in(filepath.Dir(local), func(folder *os.Root) error { return folder.Remove(filepath.Base(local)) })
}

// place calls begin to make something under a temporary name in the same folder, and then renames it. The func that
// begin returns, if any, runs while others use the landing.
func (l *landing) place(local string, begin func(folder *os.Root, stage string) (func() error, error)) error {
	dir, base, stage := filepath.Dir(local), filepath.Base(local), stageName()
	var finish func() error
	err := l.in(dir, func(folder *os.Root) (err error) {
		if finish, err = begin(folder, stage); err == nil && finish == nil {
			err = folder.Rename(stage, base)
		}
		return err
	})
	if err == nil && finish != nil {
		if err = finish(); err == nil {
			err = l.in(dir, func(folder *os.Root) error { return folder.Rename(stage, base) })
		}
	}
	if err != nil || finish == nil {
		// If both names are of one file, renaming succeeds and changes nothing: the first name is then still there.
		l.in(dir, func(folder *os.Root) error { return folder.Remove(stage) })
	}
	return l.explain(err)
}

// explain adds the folder, which the errors of os.Root leave out, and if a disk is full, that it is this machine's.
func (l *landing) explain(err error) error {
	var p *fs.PathError
	var link *os.LinkError
	var inWay *notFolderError
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("in %s on this machine: %w; free space here, or choose a folder on another disk", l.name, err)
	case errors.As(err, &p), errors.As(err, &link), errors.As(err, &inWay):
		return fmt.Errorf("in %s: %w", l.name, err)
	}
	return err
}

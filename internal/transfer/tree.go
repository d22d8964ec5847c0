package transfer

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// uploadTree merges a local folder into a folder of the node.
func (r *Remote) uploadTree(ctx context.Context, local, at string, o Options) error {
	root, err := os.OpenRoot(local)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	var gone *vanished
	if o.Vanished != nil {
		gone = new(vanished)
	}
	items, err := scan(root, local, o.Exclude, false, o.Links, gone)
	if err != nil {
		return err
	}
	d := delivery{at: at, mode: info.Mode().Perm(), keepTimes: true, gone: gone}
	err = retry(ctx, func() error {
		m := newMeter(o.Progress)
		return r.send(ctx, d, m, func() ([]item, error) {
			lacking, err := r.lacking(ctx, at, items)
			m.expect(sizeOf(lacking))
			return lacking, err
		})
	})
	if err != nil || gone == nil {
		return err
	}
	if text := gone.String(); text != "" {
		o.Vanished(text)
	}
	return nil
}

// sizeOf returns how many bytes of content items have.
func sizeOf(items []item) (size int64) {
	for i := range items {
		if items[i].mode.IsRegular() {
			size += items[i].size
		}
	}
	return size
}

// Check returns the error that Upload of a local file or folder would return for its links, or because it cannot be
// listed.
func (o Options) Check(local string) error {
	info, err := os.Stat(local)
	if err != nil || !info.IsDir() || o.Links != RefuseOutside {
		return err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = scan(root, local, o.Exclude, false, o.Links, new(vanished))
	return err
}

// A delivery is a tree for a folder of the node, and what is to be done before it takes its place.
type delivery struct {
	at        string
	mode      fs.FileMode // of the folder, if it is made
	keepTimes bool        // files get the times that they have here
	removed   []string    // files to remove, relative to at
	emptied   []string    // folders to remove if they are empty then, inner ones first
	manifest  []byte      // the content of Sync's state file, or nil
	state     string      // the path of that file
	gone      *vanished   // takes what cannot be sent any more; nil makes that an error
}

// send brings a delivery to its place, with the items that choose returns: every folder before its content. It starts
// the node's side meanwhile.
func (r *Remote) send(ctx context.Context, d delivery, m *meter, choose func() ([]item, error)) error {
	if !r.Tools.Tar {
		items, err := choose()
		if err != nil {
			return err
		}
		return r.sendSFTP(ctx, d, items, m)
	}
	n := stageName()
	defer r.discard(ctx, path.Join(d.at, n), path.Join(path.Dir(d.at), n))
	untimed := "m"
	if d.keepTimes {
		untimed = ""
	}
	command := script(awaitTree+receiveTree+placeTree,
		"d="+d.at, "p="+path.Dir(d.at), "n="+n, "state="+d.state, fmt.Sprintf("mode=%o", d.mode|0o700), "untimed="+untimed)
	return r.stream(ctx, command, d.at, func(w io.Writer) error {
		items, err := choose()
		if err != nil || len(items)+len(d.removed)+len(d.emptied)+len(d.manifest) == 0 {
			return err
		}
		if _, err := io.WriteString(w, "send\n"); err != nil {
			return err
		}
		a := newArchive(w, m, d.gone)
		if err := a.add(ctx, n, append([]item{{mode: fs.ModeDir | d.mode, mtime: time.Now()}}, items...)); err != nil {
			return err
		}
		if err := a.text("before", []byte(d.before())); err != nil {
			return err
		}
		if err := a.text("after", []byte(after(items))); err != nil {
			return err
		}
		if d.manifest != nil {
			if err := a.text("state", d.manifest); err != nil {
				return err
			}
		}
		if err := a.text("end", nil); err != nil {
			return err
		}
		return a.tw.Close()
	}, nil)
}

// awaitTree waits for the tree. If none comes, everything is there already, or the tree is an empty folder.
const awaitTree = `read -r order || {
	` + makeFolder + `	exit 0
}
`

const makeFolder = `if [ ! -d "$d" ]; then mkdir -p "$d" && chmod "$mode" "$d" || exit 1; fi
cd "$d" && d=$PWD || exit 1
`

// receiveTree unpacks beside the place, and goes on only if everything arrived: a tar whose input was cut may not
// notice.
const receiveTree = `fresh=
if [ ! -e "$d" ] && [ ! -L "$d" ]; then
	mkdir -p "$p" && cd "$p" || exit 1
	fresh=yes d=$PWD/${d##*/}
else
	` + makeFolder + `fi
s=$PWD/$n
` + removeStage + `(umask 077; mkdir "$s") && cd "$s" || exit 1
tar -xp${untimed}of - || exit 1
[ -f end ] || fail "it did not arrive whole"
[ ! -f state ] || touch state || exit 1 # tar makes some links last
`

// placeTree moves the unpacked tree to its place. A folder that does not exist yet is moved as a whole; into an
// existing one its files are moved, many at once. If another process makes the folder at that moment, the tree is first
// moved into that folder.
const placeTree = `merge() (
from=$1 to=$2 n=0
cd "$from" || exit 1
set --
for f in * .[!.]* ..?*; do
	if [ -L "$f" ]; then
		[ -L "$to/$f" ] || [ ! -d "$to/$f" ] || fail "$to/$f is a folder there, and a link here"
	elif [ -d "$f" ]; then
		if [ -d "$to/$f" ]; then
			merge "$from/$f" "$to/$f" || exit 1
			continue
		fi
		[ ! -e "$to/$f" ] && [ ! -L "$to/$f" ] || fail "$to/$f is a folder on this machine, but not on the node"
	elif [ -e "$f" ]; then
		[ -L "$to/$f" ] || [ ! -d "$to/$f" ] || fail "$to/$f is a folder there, and a file here"
	else
		continue
	fi
	set -- "$@" "./$f"
	n=$((n + 1))
	if [ "$n" -ge 200 ]; then
		mv -f "$@" "$to/" || exit 1
		set --
		n=0
	fi
done
[ "$n" -eq 0 ] || mv -f "$@" "$to/"
)
if [ -n "$fresh" ] && [ ! -e "$d" ]; then
	mv -f "$s/$n" "$d" || exit 1
	cd "$d" || exit 1
	if [ -d "$n" ]; then
		merge "$d/$n" "$d" || { rm -rf "$n"; exit 1; }
		rm -rf "$n"
	fi
else
	cd "$d" || exit 1
	. "$s/before"
	merge "$s/$n" "$d" || exit 1
fi
. "$s/after"
[ ! -f "$s/state" ] || mv -f "$s/state" "$state" || exit 1
`

// before returns the script that makes room, run in the delivery's folder.
func (d *delivery) before() string {
	var b strings.Builder
	b.WriteString(`drop() { rm -f "$@" 2>/dev/null || for f; do if [ -L "$f" ] || [ ! -d "$f" ]; then rm -f "$f" || exit 1; fi; done; }` + "\n")
	for names := range batches(d.removed) {
		b.WriteString("drop" + words(names) + "\n")
	}
	for names := range batches(d.emptied) {
		b.WriteString("rmdir" + words(names) + " 2>/dev/null\n")
	}
	return b.String() + ":\n"
}

// after returns the script that sets the modes of folders in which the owner may not write. Inner ones come first.
func after(items []item) string {
	var b strings.Builder
	for i := len(items) - 1; i >= 0; i-- {
		if it := &items[i]; it.mode.IsDir() && it.mode.Perm()&0o700 != 0o700 {
			fmt.Fprintf(&b, "chmod %o %s || exit 1\n", it.mode.Perm(), quote("./"+it.name))
		}
	}
	return b.String() + ":\n"
}

// batches splits names, made relative to the current folder. Each batch fits into the arguments of one command, and
// also into a script that is one argument itself, in which every quote is quoted again.
func batches(names []string) func(yield func([]string) bool) {
	const most = 64 << 10
	return func(yield func([]string) bool) {
		var batch []string
		size := 0
		for _, n := range names {
			n = "./" + n
			if size += len(quote(quote(n))) + 1; size > most && len(batch) > 0 {
				if !yield(batch) {
					return
				}
				batch, size = nil, len(quote(quote(n)))+1
			}
			batch = append(batch, n)
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

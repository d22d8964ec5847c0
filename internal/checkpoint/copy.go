package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/transfer"
)

const (
	// A part of a checkpoint of partBytes, or partFiles files, need not be copied again after an interruption.
	partBytes = 1 << 30
	partFiles = 1000
)

// errUnsettled means that a checkpoint has changed, or was removed, while it was copied.
var errUnsettled = errors.New("it was written to while it was copied")

// A conflict means that two nodes have different content under one name.
type conflict struct{ name, first, second string }

func (e *conflict) Error() string {
	return fmt.Sprintf("%s and %s have different content in %q: each node must write its own file names; this checkpoint is not kept", e.first, e.second, e.name)
}

// next returns the newest whole checkpoint of a look that is not here, if it is newer than all that are, and than the one
// that is being copied. A node can give any names to what it makes. So of those with steps, and of those without, what has appeared
// later is newer, and names count only among what has appeared at once, or was there from the beginning.
//
// One that is torn is passed over until it has changed.
func (k *Keeper) next(found []seen, p phase) (seen, bool) {
	newest, any := k.store.newest()
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b seen) int {
		return cmp.Or(a.order().compareKind(b.order()), cmp.Compare(a.since, b.since))
	})
	for i := len(found) - 1; i >= 0; i-- {
		s := &found[i]
		if !s.isWhole(p) || k.isCopied(s) || k.torn.is(s) {
			continue
		}
		k.mu.Lock()
		refused, copying, brought := k.refused[s.name], k.copying == s.name, k.brought
		k.mu.Unlock()
		older := s.order().compare(newest.order()) < 0
		if s.order().hasStep() == newest.order().hasStep() {
			older = s.since < brought || s.since <= max(brought, 1) && older
		}
		if any && s.name != newest.Name && older {
			continue
		}
		if copying {
			break // those before it are not needed
		}
		if !refused {
			return *s, true
		}
	}
	return seen{}, false
}

// isCopied reports whether an entry was copied as it is.
func (k *Keeper) isCopied(s *seen) bool {
	k.mu.Lock()
	stamp, ok := k.copied[s.name]
	k.mu.Unlock()
	if ok && stamp == s.stamp {
		return true
	}
	if s.whole {
		info, err := os.Stat(k.store.path(s.name))
		return err == nil && info.IsDir()
	}
	r, ok := k.store.record(s.name)
	return ok && r.Stamp == s.stamp
}

// hasCopied reports whether an entry of this name was copied.
func (k *Keeper) hasCopied(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.copied[name] != ""
}

// copy copies a checkpoint of the nodes to this computer, and removes older ones. It reports what goes wrong: if the copy is tried
// again, once a second copy in a row has failed. A checkpoint that the task removes or writes to meanwhile is no error.
func (k *Keeper) copy(ctx context.Context, nodes []Node, s seen, again bool) error {
	k.mu.Lock()
	k.copying = s.name
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.copying = ""
		k.mu.Unlock()
	}()
	if k.isCopied(&s) { // since the look
		return nil
	}
	r := Report{Name: s.name, Step: stepOf(s.name)}
	path, err := k.bring(ctx, nodes, s)
	if errors.Is(err, errUnsettled) {
		return nil
	}
	if _, ok := errors.AsType[*torn](err); ok {
		if r.Err = fmt.Errorf("checkpoint %s is not kept: %w", s.name, err); k.torn.add(&s, r) {
			k.report(r)
		}
		return nil
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			k.backoff.failed(s.name, k.cfg.Every)
		}
		if _, ok := errors.AsType[*conflict](err); ok {
			k.mu.Lock()
			k.refused[s.name] = true
			k.mu.Unlock()
			again = false
		}
		r.Err = fmt.Errorf("checkpoint %s could not be copied: %w", s.name, transfer.Explain(err, ""))
		if k.backoff.waitsForSecond(r, again) {
			return r.Err
		}
		k.report(r)
		return r.Err
	}
	k.backoff.take()
	k.torn.forget(&s)
	k.mu.Lock()
	k.copied[s.name] = s.stamp
	k.brought = max(k.brought, s.since)
	k.mu.Unlock()
	k.made(s.name)
	r.Path = path
	k.report(r)
	err = errors.Join(k.pruneNodes(ctx, nodes), k.store.prune(k.old))
	if err != nil && ctx.Err() == nil {
		k.report(Report{Step: -1, Err: fmt.Errorf("old checkpoints could not be removed: %w", err)})
	}
	return nil
}

// A source is the content of a checkpoint on one node, of which take are the files to be copied from there.
type source struct {
	node      Node
	all, take []transfer.Content
}

// list lists a checkpoint on all nodes. A node other than the first need not have a part.
func (k *Keeper) list(ctx context.Context, nodes []Node, name string) ([]source, error) {
	sources := make([]source, len(nodes))
	return sources, each(nodes, func(i int, n Node) (err error) {
		sources[i].node = n
		sources[i].all, err = n.Files.Contents(ctx, n.Dir, name, k.cfg.Limits)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		return nil
	})
}

// bring copies a checkpoint and has it appear under its name. It returns its path here.
func (k *Keeper) bring(ctx context.Context, nodes []Node, s seen) (string, error) {
	before, err := k.list(ctx, nodes, s.name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errUnsettled
	}
	if err != nil {
		return "", err
	}
	all, err := union(ctx, before)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(k.store.dir, 0o700); err != nil {
		return "", err
	}
	k.store.dropPartials(s.name)
	partial := k.store.hidden(s.name, partialSuffix)
	err = k.arrive(ctx, before, all, partial)
	if err == nil || ctx.Err() == nil {
		if changed := k.hasChanged(ctx, nodes, s.name, before); changed != nil {
			return "", changed
		}
	}
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) { // what has come is in the way of others
			_ = os.RemoveAll(partial)
		}
		return "", err
	}
	if err := tornIn(partial, all); err != nil {
		return "", err
	}
	r := record{Name: s.name, Time: s.time, Stamp: s.stamp, Copied: time.Now().UnixNano()}
	if newest, ok := k.store.newest(); ok { // the clock may have been set back
		r.Copied = max(r.Copied, newest.Copied+1)
	}
	for _, c := range all {
		r.Bytes += c.Size
	}
	return k.store.place(r, k.isMine(s.name))
}

// hasChanged compares a checkpoint with what it was before it was copied.
func (k *Keeper) hasChanged(ctx context.Context, nodes []Node, name string, before []source) error {
	after, err := k.list(ctx, nodes, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.RemoveAll(k.store.hidden(name, partialSuffix))
		return errUnsettled
	case err != nil:
		return err
	}
	for i := range before {
		if !slices.Equal(before[i].all, after[i].all) {
			return errUnsettled
		}
	}
	return nil
}

// union returns the content of all sources, each name once, and decides from which source each file is copied.
func union(ctx context.Context, sources []source) (all []transfer.Content, err error) {
	owner := map[string]int{}
	have := map[string]transfer.Content{}
	twice := map[[2]int][]string{}
	for i := range sources {
		s := &sources[i]
		for _, c := range s.all {
			was, known := have[c.Name]
			switch {
			case !known:
				have[c.Name], owner[c.Name] = c, i
				all = append(all, c)
				if c.Mode.IsRegular() {
					s.take = append(s.take, c)
				}
			case c.Mode.Type() != was.Mode.Type(), c.Size != was.Size, c.Target != was.Target:
				return nil, &conflict{c.Name, sources[owner[c.Name]].node.Name, s.node.Name}
			case c.Mode.IsRegular():
				pair := [2]int{owner[c.Name], i}
				twice[pair] = append(twice[pair], c.Name)
			}
		}
	}
	for pair, names := range twice {
		first, second := sources[pair[0]].node, sources[pair[1]].node
		a, err := first.Files.Sums(ctx, first.Dir, names)
		if err != nil {
			return nil, err
		}
		b, err := second.Files.Sums(ctx, second.Dir, names)
		if err != nil {
			return nil, err
		}
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				return nil, &conflict{names[i], first.Name, second.Name}
			}
		}
	}
	slices.SortFunc(all, func(a, b transfer.Content) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// arrive brings what a partial folder lacks.
func (k *Keeper) arrive(ctx context.Context, sources []source, all []transfer.Content, partial string) error {
	have, err := tidy(partial, all)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(partial)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range all {
		if c.Mode.IsDir() {
			if err := root.MkdirAll(filepath.FromSlash(c.Name), 0o700); err != nil {
				return err
			}
		}
	}
	for _, s := range sources {
		same, err := s.same(ctx, root, have)
		if err != nil {
			return fmt.Errorf("%s: %w", s.node.Name, err)
		}
		missing := slices.DeleteFunc(slices.Clone(s.take), func(c transfer.Content) bool { return same[c.Name] })
		if err := k.fetch(ctx, s.node, root, missing, partial); err != nil {
			return fmt.Errorf("%s: %w", s.node.Name, err)
		}
	}
	return finish(root, all)
}

// same returns which of the files that are here already have the content that they have on the node: an earlier attempt may
// have written others of the same size and time.
func (s *source) same(ctx context.Context, root *os.Root, have map[string]bool) (map[string]bool, error) {
	var names []string
	for _, c := range s.take {
		if have[c.Name] {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	sums, err := s.node.Files.Sums(ctx, s.node.Dir, names)
	if err != nil {
		return nil, err
	}
	same := map[string]bool{}
	for i := range min(len(sums), len(names)) {
		sum, err := sumOf(root, names[i])
		if err != nil {
			return nil, err
		}
		same[names[i]] = sum == sums[i]
	}
	for _, name := range names {
		if !same[name] {
			if err := root.Remove(filepath.FromSlash(name)); err != nil {
				return nil, err
			}
		}
	}
	return same, nil
}

// sumOf returns the SHA-256 of a file in hex.
func sumOf(root *os.Root, name string) (string, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// fetch brings files of a node, part by part, and gives those that have come the times that they have there.
func (k *Keeper) fetch(ctx context.Context, n Node, root *os.Root, files []transfer.Content, partial string) (err error) {
	if len(files) == 0 {
		return nil
	}
	o := transfer.FetchOptions{Dir: n.Dir, Limits: k.cfg.Limits}
	var total, done int64
	for _, c := range files {
		total += c.Size
	}
	if k.cfg.Transfer != nil {
		name, _, _ := strings.Cut(files[0].Name, "/")
		progress, end := k.cfg.Transfer(n, name, false)
		defer func() { end(err) }()
		if progress != nil {
			o.Progress = func(moved, _ int64) { progress(done+moved, total) }
		}
	}
	for len(files) > 0 {
		count, size := 0, int64(0)
		for count < len(files) && count < partFiles && (count == 0 || size+files[count].Size <= partBytes) {
			size += files[count].Size
			count++
		}
		came, err := n.Files.FetchFiles(ctx, files[:count], partial, o)
		o.Limits = o.Limits.Less(came)
		if err := stampFiles(root, files[:count], came); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		files, done = files[count:], done+size
	}
	return nil
}

// stampFiles gives files that have come the times that they have on their node. A file without is not whole.
func stampFiles(root *os.Root, want []transfer.Content, came []transfer.File) error {
	times := make(map[string]transfer.Content, len(want))
	for _, c := range want {
		times[c.Name] = c
	}
	for _, f := range came {
		c, ok := times[f.Name]
		if !ok || f.Size != c.Size {
			continue // it has changed meanwhile, which is found later
		}
		local := filepath.FromSlash(f.Name)
		at := time.Unix(c.Time, 0)
		if err := root.Chtimes(local, at, at); err != nil {
			return err
		}
	}
	return nil
}

// tidy makes a partial folder, and removes everything from it but files that are as wanted. It returns those.
func tidy(partial string, all []transfer.Content) (have map[string]bool, err error) {
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(partial)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	want := make(map[string]transfer.Content, len(all))
	for _, c := range all {
		want[c.Name] = c
	}
	have = map[string]bool{}
	var drop []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		c, wanted := want[name]
		if wanted && d.IsDir() && c.Mode.IsDir() {
			return root.Chmod(filepath.FromSlash(name), 0o700)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if wanted && d.Type().IsRegular() && c.Mode.IsRegular() && info.Size() == c.Size && info.ModTime().Equal(time.Unix(c.Time, 0)) {
			have[name] = true
			return nil
		}
		drop = append(drop, name)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	for _, name := range drop {
		err = errors.Join(err, root.RemoveAll(filepath.FromSlash(name)))
	}
	return have, err
}

// finish makes the links, and gives files and folders their permissions, also those that an earlier copy has brought under
// another umask.
func finish(root *os.Root, all []transfer.Content) error {
	mask, err := transfer.MaskIn(root)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- { // the content of a folder before itself
		c := &all[i]
		local := filepath.FromSlash(c.Name)
		var err error
		switch c.Mode.Type() {
		case fs.ModeSymlink:
			err = root.Symlink(filepath.FromSlash(c.Target), local)
		case 0, fs.ModeDir:
			err = root.Chmod(local, mask.Of(c.Mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pruneScript removes entries of $d. Each disappears at once.
const pruneScript = `cd "$d" || exit 1
for e; do
	[ -e "./$e" ] || continue
	rm -rf "./.gone-$e" && mv "./$e" "./.gone-$e" || exit 1
done
for e; do rm -rf "./.gone-$e" || exit 1; done
`

// pruneNodes removes all but the newest copied checkpoints from the nodes, as far as they are as they were copied.
func (k *Keeper) pruneNodes(ctx context.Context, nodes []Node) error {
	_, found, err := lookAll(ctx, nodes)
	if err != nil {
		return err
	}
	came := map[string]int64{} // what is not here any more comes first
	for _, r := range k.store.list() {
		came[r.Name] = r.Copied
	}
	var names []string
	for i := range found {
		_, ours := k.store.record(found[i].name)
		if (ours || k.hasCopied(found[i].name)) && k.isCopied(&found[i]) && !k.isRefused(found[i].name) {
			names = append(names, found[i].name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(came[a], came[b]) })
	names = names[:max(len(names)-k.cfg.Keep, 0)]
	if len(names) == 0 {
		return nil
	}
	return each(nodes, func(_ int, n Node) error {
		_, err := n.Files.Script(ctx, n.Dir, "set --"+words(names)+"\n"+pruneScript, lookBytes, "d="+n.Dir)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		return nil
	})
}

// words quotes each text as a word of sh, with a space before it.
func words(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(" '" + strings.ReplaceAll(t, "'", `'\''`) + "'")
	}
	return b.String()
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain/internal/transfer"
)

// stagePrefix begins the name of a checkpoint that is being put back.
const stagePrefix = ".restoring-"

// prepareScript makes the folder, and takes an earlier notice back.
const prepareScript = `mkdir -p "$d" "${p%/*}" && rm -f "$p"
`

// asideScript gives entries of $d hidden names of their own.
const asideScript = `cd "$d" || exit 1
for e; do
	[ -e "./$e" ] || continue
	to=./.aside-$e i=1
	while [ -e "$to" ]; do i=$((i + 1)) to=./.aside-$e-$i; done
	mv "./$e" "$to" || exit 1
done
`

// reuseScript gives an entry the name in which it is completed.
const reuseScript = `cd "$d" || exit 1
[ -e "./$n" ] || exit 0
rm -rf "./$s" && mv "./$n" "./$s"
`

// revealScript has a completed checkpoint appear, and removes what was left of others.
const revealScript = `cd "$d" || exit 1
[ -e "./$s" ] || { [ -e "./$n" ] && exit 0; exit 1; }
[ ! -e "./$n" ] || exit 1
mv "./$s" "./$n" && rm -rf ./.restoring-* ./.gone-*
`

// Restore makes the folder of checkpoints on all nodes, and puts the newest whole checkpoint there, under its old name,
// with the parts of all nodes. What is newer on a node, and not whole, gets a hidden name. Restore returns the
// checkpoint's name and step: "" if there is none, and -1 if its name has no step.
func (k *Keeper) Restore(ctx context.Context, nodes []Node) (name string, step int64, err error) {
	k.setUrgent(false)
	k.step = -1
	k.begin()
	k.count, k.since = 0, nil
	k.mu.Lock()
	k.brought = 0
	k.mu.Unlock()
	err = script(ctx, nodes, prepareScript)
	if err != nil {
		return "", -1, err
	}
	if k.cfg.Shared {
		return k.restoreShared(ctx, nodes)
	}
	if len(nodes) == 1 {
		k.bringFirst(ctx, nodes)
		k.begin()
	}
	newest, ok := k.store.newest()
	for ; ok; newest, ok = k.store.newest() {
		err := k.store.judge(newest)
		if err == nil {
			break
		}
		if _, torn := errors.AsType[*torn](err); !torn {
			return "", -1, err
		}
		k.report(Report{Name: newest.Name, Step: newest.step(), Err: fmt.Errorf("checkpoint %s is not resumed from: %w", newest.Name, err)})
		if err := k.SetAside(newest.Name); err != nil {
			return "", -1, err
		}
	}
	if err := k.moveAside(ctx, nodes, newest, ok); err != nil {
		return "", -1, err
	}
	if !ok {
		return "", -1, nil
	}
	local, err := localContents(k.store.path(newest.Name), newest.Name)
	if err != nil {
		return "", -1, err
	}
	err = each(nodes, func(_ int, n Node) error {
		if err := k.put(ctx, n, newest.Name, local); err != nil {
			return fmt.Errorf("%s: checkpoint %s could not be put back: %w", n.Name, newest.Name, err)
		}
		return nil
	})
	if err != nil {
		return "", -1, err
	}
	if _, found, err := lookAll(ctx, nodes); err == nil {
		for _, s := range found {
			if s.name == newest.Name {
				k.mu.Lock()
				k.copied[s.name] = s.stamp
				k.mu.Unlock()
			}
		}
	}
	k.step = newest.step()
	return newest.Name, newest.step(), nil
}

// judge returns a torn error if a checkpoint here is not whole, which a user or an earlier version may have put here.
func (s store) judge(r record) error {
	all, err := localContents(s.path(r.Name), r.Name)
	if err != nil {
		return err
	}
	return tornIn(s.dir, all)
}

// script runs a script with $d and $p on all nodes.
func script(ctx context.Context, nodes []Node, text string) error {
	return each(nodes, func(_ int, n Node) error {
		if _, err := n.Files.Script(ctx, n.Dir, text, lookBytes, "d="+n.Dir, "p="+n.Notice); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		return nil
	})
}

// bringFirst copies what an earlier attempt has left on the only node, if it is whole and newer than what is here. If it
// cannot come, that is reported.
func (k *Keeper) bringFirst(ctx context.Context, nodes []Node) {
	_, found, err := lookAll(ctx, nodes)
	if err != nil {
		return // what follows fails too
	}
	for i := len(found) - 1; i >= 0; i-- {
		if s := found[i]; s.isWhole(failed) && !k.isRefused(s.name) && !k.store.isAside(s.name) {
			newest, any := k.store.newest()
			if !any || s.order().compare(newest.order()) > 0 {
				_ = k.copy(ctx, nodes, s, false)
			}
			if !k.torn.is(&s) {
				return
			}
		}
	}
}

// restoreShared returns the newest checkpoint that the first node sees.
func (k *Keeper) restoreShared(ctx context.Context, nodes []Node) (string, int64, error) {
	k.mu.Lock()
	var names []string
	for name := range k.refused {
		names = append(names, name)
	}
	clear(k.refused)
	k.mu.Unlock()
	if err := script(ctx, nodes[:1], "set --"+words(names)+"\n"+asideScript); err != nil {
		return "", -1, err
	}
	k.forgetLooks()
	for range 2 { // a checkpoint that does not change is whole
		found, _, err := k.look(ctx, nodes)
		if err != nil {
			return "", -1, err
		}
		for i := len(found) - 1; i >= 0; i-- {
			if s := &found[i]; s.isWhole(succeeded) {
				k.step = stepOf(s.name)
				return s.name, stepOf(s.name), nil
			}
		}
		if len(found) == 0 {
			break
		}
	}
	return "", -1, nil
}

// moveAside gives hidden names to what is newer on the nodes than the newest checkpoint here, and to those that must not be
// resumed from. Without a checkpoint here, what was there before the task has run is the user's, and stays.
func (k *Keeper) moveAside(ctx context.Context, nodes []Node, newest record, ok bool) error {
	looks, _, err := lookAll(ctx, nodes)
	if err != nil {
		return err
	}
	if k.foreign == nil {
		k.foreign = map[string]bool{}
		for i := range looks {
			for _, s := range looks[i].entries {
				k.foreign[s.name] = !ok && !k.ran
			}
		}
	}
	err = each(nodes, func(i int, n Node) error {
		var names []string
		for _, s := range looks[i].entries {
			newer := !ok && !k.foreign[s.name] || ok && s.name != newest.Name && s.order().compare(newest.order()) > 0
			if newer || k.isRefused(s.name) && s.name != newest.Name {
				names = append(names, s.name)
			}
		}
		if len(names) == 0 {
			return nil
		}
		return script(ctx, []Node{n}, "set --"+words(names)+"\n"+asideScript)
	})
	if err == nil {
		k.mu.Lock()
		clear(k.refused)
		k.mu.Unlock()
	}
	return err
}

// put has a checkpoint of this computer be on a node. What the node has of it is used.
func (k *Keeper) put(ctx context.Context, n Node, name string, want []transfer.Content) (err error) {
	have, err := n.Files.Contents(ctx, n.Dir, name, k.cfg.Limits)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(have) == len(want) && isPart(have, want) {
		return nil
	}
	stage := stagePrefix + name
	vars := []string{"d=" + n.Dir, "n=" + name, "s=" + stage}
	run := func(text string) error {
		_, err := n.Files.Script(ctx, n.Dir, text, lookBytes, vars...)
		return err
	}
	switch {
	case err != nil: // it has none
		err = nil
	case isPart(have, want):
		err = run(reuseScript)
	default: // it is another one of this name
		err = run("set --" + words([]string{name}) + "\n" + asideScript)
	}
	if err != nil {
		return err
	}
	staged, err := n.Files.Contents(ctx, n.Dir, stage, k.cfg.Limits)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i := range staged {
		staged[i].Name = name + strings.TrimPrefix(staged[i].Name, stage)
	}
	if !isPart(staged, want) {
		if err := run(`cd "$d" && rm -rf "./$s"`); err != nil {
			return err
		}
	}
	o := transfer.Options{Links: transfer.SkipOutside}
	if k.cfg.Transfer != nil {
		var end func(error)
		o.Progress, end = k.cfg.Transfer(n, name, true)
		defer func() { end(err) }()
	}
	if err := n.Files.Upload(ctx, k.store.path(name), n.Dir+"/"+stage, o); err != nil {
		return err
	}
	return run(revealScript)
}

// isPart reports whether all of have is in want, with the same size and time. A time may be a second earlier, as
// transfer.Remote.Upload says.
func isPart(have, want []transfer.Content) bool {
	all := make(map[string]transfer.Content, len(want))
	for _, c := range want {
		all[c.Name] = c
	}
	for _, c := range have {
		w, ok := all[c.Name]
		if !ok || w.Mode.Type() != c.Mode.Type() || w.Size != c.Size || w.Target != c.Target || c.Mode.IsRegular() && c.Time != w.Time && c.Time != w.Time-1 {
			return false
		}
	}
	return true
}

// localContents lists a file or folder of this computer as Remote.Contents does.
func localContents(at, name string) (all []transfer.Content, err error) {
	err = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(at, p)
		if err != nil {
			return err
		}
		c := transfer.Content{Name: name, Mode: info.Mode().Type() | info.Mode().Perm(), Time: info.ModTime().Unix()}
		if below != "." {
			c.Name += "/" + filepath.ToSlash(below)
		}
		switch c.Mode.Type() {
		case 0:
			c.Size = info.Size()
		case fs.ModeSymlink:
			if c.Target, err = os.Readlink(p); err != nil {
				return err
			}
		case fs.ModeDir:
		default:
			return nil
		}
		all = append(all, c)
		return nil
	})
	return all, err
}

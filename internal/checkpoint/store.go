package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A store is the folder of this computer with the checkpoints of one task. Beside each that was copied there is a record,
// which was written before the checkpoint appeared: others are never removed. A folder step-<n> counts without one.
type store struct{ dir string }

// A record describes a checkpoint that was copied.
type record struct {
	Name  string `json:"name"`
	Time  int64  `json:"time"` // when the task wrote it, in Unix seconds
	Bytes int64  `json:"bytes"`
	Stamp string `json:"stamp"` // of the look after which it was copied
	// Copied is when it came, in Unix nanoseconds of this computer. No two have the same.
	Copied int64 `json:"copied"`
	ours   bool  // there is a record
}

func (r *record) step() int64  { return stepOf(r.Name) }
func (r *record) order() order { return order{r.step(), r.Time, r.Name} }

// An order says which of two checkpoints is newer: by their steps, and without steps by their times.
type order struct {
	step, time int64
	name       string
}

func (o order) hasStep() bool { return o.step >= 0 }

// compareKind says which of two checkpoints is newer if only one has a step: that one.
func (o order) compareKind(p order) int { return cmp.Compare(min(o.step, 0), min(p.step, 0)) }

func (o order) compare(p order) int {
	if o.step < 0 && p.step < 0 || o.step == p.step {
		return cmp.Or(cmp.Compare(o.time, p.time), strings.Compare(o.name, p.name))
	}
	return cmp.Compare(o.step, p.step)
}

// The hidden names that belong to a checkpoint.
const (
	recordSuffix  = ".json"
	partialSuffix = ".partial" // a folder in which it arrives
	oldSuffix     = ".old"     // what it replaces
	beforeSuffix  = ".before"  // what it replaces, and an earlier attempt has made
	goneSuffix    = ".gone"    // what is being removed
	asidePrefix   = ".aside-"
	earlierPrefix = ".earlier-" // what an earlier attempt had under a name that another one has used again
)

func (s store) hidden(name, suffix string) string { return filepath.Join(s.dir, "."+name+suffix) }
func (s store) path(name string) string           { return filepath.Join(s.dir, name) }

// list returns the whole checkpoints, oldest first.
func (s store) list() (whole []record) {
	entries, _ := os.ReadDir(s.dir) // a folder that does not exist has none
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		r, ok := s.record(name)
		if ok || e.IsDir() && stepOf(name) >= 0 {
			r.Name, r.ours = name, ok
			whole = append(whole, r)
		}
	}
	// A node chooses names and times. So of those with steps, and of those without, the newest is the one that came last. One
	// without a record, which the user may have put here, comes after all those of lower steps.
	slices.SortFunc(whole, func(a, b record) int { return a.order().compare(b.order()) })
	last := int64(0)
	for i := range whole {
		r := &whole[i]
		last = max(last, r.Copied)
		if !r.ours {
			r.Copied = last
		}
	}
	slices.SortStableFunc(whole, func(a, b record) int {
		return cmp.Or(a.order().compareKind(b.order()), cmp.Compare(a.Copied, b.Copied))
	})
	return whole
}

func (s store) record(name string) (r record, ok bool) {
	b, err := os.ReadFile(s.hidden(name, recordSuffix))
	return r, err == nil && json.Unmarshal(b, &r) == nil && r.Name == name
}

func (s store) newest() (record, bool) {
	whole := s.list()
	if len(whole) == 0 {
		return record{}, false
	}
	return whole[len(whole)-1], true
}

// write writes the record of a checkpoint.
func (s store) write(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	at := s.hidden(r.Name, recordSuffix)
	if err := os.WriteFile(at+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}

// place has the checkpoint that has arrived in its partial folder appear under its name, and returns its path. What it
// replaces is removed if mine is set, and else kept under a hidden name.
func (s store) place(r record, mine bool) (string, error) {
	at, old := s.path(r.Name), s.hidden(r.Name, oldSuffix)
	from := filepath.Join(s.hidden(r.Name, partialSuffix), r.Name)
	_, err := os.Lstat(at)
	_, ours := s.record(r.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the record comes first: what has none is not ours
		err = s.write(r)
		if err == nil {
			err = os.Rename(from, at)
		}
	case err != nil:
	case !ours:
		err = fmt.Errorf("%s is there already, and was not copied from the task: move it elsewhere", at)
	default:
		done := func() error { return os.RemoveAll(old) }
		if !mine {
			old, done = s.hidden(r.Name, beforeSuffix), func() error { return s.keepEarlier(r.Name) }
		}
		if err = done(); err == nil {
			err = os.Rename(at, old)
		}
		if err == nil {
			err = os.Rename(from, at)
		}
		if err == nil { // the record comes last: until then the checkpoint counts as not copied
			err = errors.Join(s.write(r), done())
		}
	}
	if err == nil {
		err = os.RemoveAll(s.hidden(r.Name, partialSuffix))
	}
	return at, err
}

// repair removes what a program that died has left, except for what a copy can go on from. It gives a checkpoint that was
// about to be replaced its name again.
func (s store) repair() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		hidden, ok := strings.CutPrefix(e.Name(), ".")
		if !ok || isKept(e.Name()) {
			continue
		}
		at := filepath.Join(s.dir, e.Name())
		for _, suffix := range []string{oldSuffix, beforeSuffix} {
			name, ok := strings.CutSuffix(hidden, suffix)
			if !ok {
				continue
			}
			switch _, err := os.Lstat(s.path(name)); {
			case errors.Is(err, fs.ErrNotExist):
				_ = os.Rename(at, s.path(name))
			case suffix == oldSuffix:
				_ = os.RemoveAll(at)
			default:
				_ = s.keepEarlier(name)
			}
		}
		if strings.HasSuffix(hidden, goneSuffix) {
			_ = os.RemoveAll(at)
		}
	}
}

// keepEarlier keeps what a checkpoint has replaced, if an earlier attempt had made it.
func (s store) keepEarlier(name string) error {
	err := os.Rename(s.hidden(name, beforeSuffix), s.free(earlierPrefix+name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isKept reports whether a hidden name is of a checkpoint that stays, whatever a node has called it.
func isKept(name string) bool {
	return strings.HasPrefix(name, asidePrefix) || strings.HasPrefix(name, earlierPrefix)
}

// prune removes those of the checkpoints that were copied, oldest first, that old returns.
func (s store) prune(old func(whole []record) []record) error {
	var errs []error
	for _, r := range old(slices.DeleteFunc(s.list(), func(r record) bool { return !r.ours })) {
		gone := s.hidden(r.Name, goneSuffix)
		if err := os.Rename(s.path(r.Name), gone); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.Remove(s.hidden(r.Name, recordSuffix)), os.RemoveAll(gone))
	}
	return errors.Join(errs...)
}

// dropPartials removes the partial folders of other checkpoints than name.
func (s store) dropPartials(name string) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if other, ok := strings.CutSuffix(e.Name(), partialSuffix); ok && strings.HasPrefix(other, ".") && other != "."+name && !isKept(e.Name()) {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
}

// setAside gives a checkpoint a hidden name.
func (s store) setAside(name string) error {
	if err := os.Rename(s.path(name), s.free(asidePrefix+name)); err != nil {
		return err
	}
	if err := os.Remove(s.hidden(name, recordSuffix)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// free returns the path of a name that begins like this, and that nothing has.
func (s store) free(name string) string {
	to := s.path(name)
	for i := 2; ; i++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to
		}
		to = s.path(name + "-" + strconv.Itoa(i))
	}
}

// isAside reports whether a checkpoint of this name was set aside.
func (s store) isAside(name string) bool {
	_, err := os.Lstat(s.path(asidePrefix + name))
	return err == nil
}

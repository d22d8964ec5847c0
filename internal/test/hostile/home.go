package hostile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Home is the computer of a user who deals with hostile nodes: a folder with the
// user's files, and one, Taken, in which things from nodes may arrive.
type Home struct {
	// Dir is the home folder (HOME), and Work is where the user's program runs.
	Dir, Work string
	// Taken is the one folder in which anything may change.
	Taken string
	// Secret is in files of Dir and nowhere else.
	Secret string

	t      testing.TB
	base   string
	before map[string]string
}

// Decoys are files of Dir that an attacker likes to read or write.
var Decoys = []string{".ssh/authorized_keys", ".ssh/id_ed25519", ".bashrc", ".aws/credentials", "secret"}

// NewHome makes a home in a folder of the test and notes what is in it.
func NewHome(t testing.TB) *Home {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Home{
		Dir: filepath.Join(base, "home"), Work: filepath.Join(base, "work"), Taken: filepath.Join(base, "taken"),
		Secret: "secret-" + rand.Text(), t: t, base: base,
	}
	for _, dir := range []string{h.Work, h.Taken} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range Decoys {
		file := filepath.Join(h.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("# "+name+"\n"+h.Secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.before = h.look()
	return h
}

// Decoy returns the absolute path of a decoy.
func (h *Home) Decoy(i int) string { return filepath.Join(h.Dir, Decoys[i%len(Decoys)]) }

// look describes all but Taken: kinds, modes, contents, and where links lead.
func (h *Home) look() map[string]string {
	seen := map[string]string{}
	err := filepath.WalkDir(h.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == h.Taken {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " -> " + target
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		seen[path] = what
		return nil
	})
	if err != nil {
		h.t.Errorf("the home cannot be looked at: %v", err)
	}
	return seen
}

// Changes returns what is wrong: all that has changed outside Taken, links in
// Taken that lead out of it, and files there that hold the secret.
func (h *Home) Changes() []string {
	var wrong []string
	after := h.look()
	for path, was := range h.before {
		if is, there := after[path]; !there {
			wrong = append(wrong, path+" is gone")
		} else if is != was {
			wrong = append(wrong, fmt.Sprintf("%s is %s and was %s", path, is, was))
		}
	}
	for path, is := range after {
		if _, there := h.before[path]; !there {
			wrong = append(wrong, fmt.Sprintf("%s is there: %s", path, is))
		}
	}
	wrong = append(wrong, h.arrived()...)
	slices.Sort(wrong)
	return wrong
}

// arrived looks at what is in Taken.
func (h *Home) arrived() (wrong []string) {
	root, err := os.OpenRoot(h.Taken)
	if err != nil {
		return []string{err.Error()}
	}
	defer root.Close()
	err = filepath.WalkDir(h.Taken, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeSymlink:
			rel, err := filepath.Rel(h.Taken, path)
			if err != nil {
				return err
			}
			if _, err := root.Stat(rel); err != nil && strings.Contains(err.Error(), "escapes") {
				target, _ := os.Readlink(path)
				wrong = append(wrong, fmt.Sprintf("%s leads out of the folder, to %s", path, target))
			}
		case 0:
			if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil && bytes.Contains(b, []byte(h.Secret)) {
				wrong = append(wrong, path+" holds the secret")
			}
			return err
		case fs.ModeDir:
		default:
			wrong = append(wrong, fmt.Sprintf("%s is a %s", path, d.Type()))
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// Empty removes all that is in Taken.
func (h *Home) Empty() {
	entries, err := os.ReadDir(h.Taken)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(h.Taken, e.Name())); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Size returns how many bytes the files in Taken have. Some may come or go meanwhile.
func (h *Home) Size() (n int64) {
	filepath.WalkDir(h.Taken, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// Repair undoes what an attack has done outside Taken, so that the next one is seen
// by itself.
func (h *Home) Repair() {
	for path := range h.look() {
		if _, there := h.before[path]; !there {
			os.RemoveAll(path)
		}
	}
	for _, name := range Decoys {
		file := filepath.Join(h.Dir, name)
		os.MkdirAll(filepath.Dir(file), 0o700)
		os.Remove(file)
		os.WriteFile(file, []byte("# "+name+"\n"+h.Secret+"\n"), 0o600)
	}
	h.before = h.look()
}

// Out returns ways to name a file of the home from a folder in Taken.
func (h *Home) Out(i int) []string {
	decoy := h.Decoy(i)
	names := []string{decoy, strings.TrimPrefix(decoy, "/")}
	for depth := 1; depth <= 4; depth++ {
		names = append(names, strings.Repeat("../", depth)+filepath.Join("home", Decoys[i%len(Decoys)]))
	}
	return names
}

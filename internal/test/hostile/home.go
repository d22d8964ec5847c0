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

// A Home is the computer of a user of hostile nodes: a folder with the user's files, and a folder Taken for data from
// nodes.
type Home struct {
	// Dir is the home folder (HOME), and Work is the working directory of the user's program.
	Dir, Work string
	// Taken is the only folder in which anything may change.
	Taken string
	// Secret is the text in the decoys. No other file has it.
	Secret string

	t      testing.TB
	base   string
	before map[string]string
}

// Decoys are files in Dir that an attacker would like to read or write.
var Decoys = []string{".ssh/authorized_keys", ".ssh/id_ed25519", ".bashrc", ".aws/credentials", "secret"}

// NewHome creates a home in a folder of the test and records its content.
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

// look describes everything but Taken: kinds, modes, contents and link targets.
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
		h.t.Errorf("the home cannot be read: %v", err)
	}
	return seen
}

// Changes returns everything that is wrong: changes outside Taken, links in Taken that point outside it, and files in
// it that contain the secret.
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

// arrived checks the content of Taken.
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

// Empty removes everything in Taken.
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

// Size returns the total size of the files in Taken. Files may appear and vanish meanwhile.
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

// Repair undoes an attack's changes outside Taken, so that they do not count for the next attack.
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

// Out returns several names that may lead from a folder in Taken to decoy i.
func (h *Home) Out(i int) []string {
	decoy := h.Decoy(i)
	names := []string{decoy, strings.TrimPrefix(decoy, "/")}
	for depth := 1; depth <= 4; depth++ {
		names = append(names, strings.Repeat("../", depth)+filepath.Join("home", Decoys[i%len(Decoys)]))
	}
	return names
}

package crossbuild

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// ErrChanged means that the sources are newer than the program.
var ErrChanged = errors.New("the sources have changed since this program was built")

// ErrNoSources means that no known folder has the sources, or that other users can change them.
var ErrNoSources = errors.New("cannot find the sources of this program")

// A place is a folder in which the go command may find the program.
type place struct {
	dir     string
	targets []string
	flags   []string // in addition to those of every command
	env     []string
	version string // of the module, if known
	named   bool   // the caller has named it, and is responsible for it
}

// places returns the folders that may have the sources, the best first: the one that the caller has
// named, or else those in the program's line tables. The working directory is never used, because
// the program may be started anywhere.
func (p *Program) places() []place {
	if p.SourceDir != "" {
		targets := p.targets()
		if p.byFiles() {
			targets = absolute(p.Files, p.SourceDir)
		}
		return []place{{dir: p.SourceDir, targets: targets, named: true}}
	}
	if p.released() {
		return nil // the checksum of its module is more reliable than a folder's name
	}
	var found []place
	for _, name := range p.Files {
		dir := filepath.Dir(name)
		at := place{dir: dir, targets: p.targets()}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) || slices.ContainsFunc(found, func(o place) bool { return o.dir == dir }) {
			continue
		}
		found = append(found, at)
	}
	return found
}

// absolute returns files by absolute names: the names that -trimpath has shortened are looked up in
// dir.
func absolute(files []string, dir string) []string {
	names := slices.Clone(files)
	for i, name := range names {
		if joined := filepath.Join(dir, name); !filepath.IsAbs(name) && exists(joined) {
			names[i] = joined
		}
	}
	return names
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// release returns the place of a released version. It is in the module cache, and is downloaded if
// necessary. The go command's own files are in scratch.
func (t *toolchain) release(ctx context.Context, p *Program, scratch string) (place, error) {
	main := p.Info.Main
	out, err := t.run(ctx, scratch, []string{"GOWORK=off"}, "mod", "download", "-json", main.Path+"@"+main.Version)
	var module struct{ Version, Dir, GoMod, Sum, Error string }
	switch parseErr := json.Unmarshal(out, &module); {
	case module.Error != "":
		return place{}, fmt.Errorf("go mod download: %s", module.Error)
	case err != nil:
		return place{}, err
	case parseErr != nil:
		return place{}, fmt.Errorf("go mod download: %w", parseErr)
	}
	if module.Sum != main.Sum {
		return place{}, fmt.Errorf("%s@%s has the checksum %s, but had %s when this program was built", main.Path, main.Version, module.Sum, main.Sum)
	}
	// The cache is read-only, and its go.sum may be incomplete.
	mod := filepath.Join(scratch, "go.mod")
	if err := copyFile(module.GoMod, mod); err != nil {
		return place{}, err
	}
	if err := copyFile(filepath.Join(module.Dir, "go.sum"), filepath.Join(scratch, "go.sum")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return place{}, err
	}
	return place{dir: module.Dir, targets: p.targets(), flags: []string{"-mod=mod", "-modfile=" + mod}, env: []string{"GOWORK=off"}, version: module.Version}, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return copyTo(in, to)
}

// copyTo copies in to a new file.
func copyTo(in io.Reader, to string) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A pkg is a package in the output of go list.
type pkg struct {
	ImportPath, Dir, ForTest string
	Standard                 bool
	Module                   *module
	GoFiles, CgoFiles        []string
	SFiles, EmbedFiles       []string
	HFiles, SysoFiles        []string
	Error                    *struct{ Err string }
}

type module struct {
	Path, Version, Dir, GoMod string
	Replace                   *module
}

// immutable reports whether a module's files are those of a released version in the module cache.
// Vendored files are not, and their module has no Dir.
func (m *module) immutable() bool {
	if m != nil && m.Replace != nil {
		m = m.Replace
	}
	return m != nil && m.Version != "" && m.Dir != ""
}

// files returns the files that are built into the program.
func (one *pkg) files() []string {
	names := slices.Concat(one.GoFiles, one.SFiles, one.HFiles, one.SysoFiles, one.EmbedFiles)
	for i, name := range names {
		if !filepath.IsAbs(name) {
			names[i] = filepath.Join(one.Dir, name)
		}
	}
	return names
}

// made reports whether a package has no folder of the program's: Go's own packages, and the main
// package of tests, which go list generates.
func (p *Program) made(one *pkg) bool {
	return one.Standard || p.Test && one.ImportPath == p.packagePath()+".test"
}

const listFields = "-json=ImportPath,Dir,ForTest,Standard,Module,GoFiles,CgoFiles,SFiles,HFiles,SysoFiles,EmbedFiles,Error"

// list returns the program's package at a place, and all packages that it imports. A tested package
// is listed in its form for tests too, which includes their sources.
func (t *toolchain) list(ctx context.Context, p *Program, at place, env ...string) (target pkg, all []pkg, err error) {
	args := []string{"list", "-e", "-deps", listFields}
	if p.Test {
		args = append(args, "-test")
	}
	args = append(append(append(args, p.flags()...), at.flags...), "--")
	out, err := t.run(ctx, at.dir, append(at.env, env...), append(args, at.targets...)...)
	if err != nil {
		return pkg{}, nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one pkg
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return target, all, nil
		} else if err != nil {
			return pkg{}, nil, fmt.Errorf("go list: %w", err)
		}
		if one.ImportPath == p.packagePath() && one.ForTest == "" {
			target = one
		}
		all = append(all, one)
	}
}

// mismatch returns why a package at a place is not the program's, or "".
func (p *Program) mismatch(target pkg, at place) string {
	switch module := target.Module; {
	case target.Error != nil && target.Dir == "":
		return target.Error.Err
	case target.Dir == "":
		return "the package is not there"
	case p.byFiles():
		return "" // they are known by their names, and their imports are compared later
	case module == nil && p.Info.Main.Path != "":
		return "the package is in no module"
	case module == nil:
		return ""
	case module.Path != p.Info.Main.Path:
		return fmt.Sprintf("the package is in the module %s, but this program's module is %s", module.Path, p.Info.Main.Path)
	case p.released() && !at.named && cmp.Or(at.version, module.Version) != p.Info.Main.Version:
		return fmt.Sprintf("the module has version %q, but this program's version is %s", module.Version, p.Info.Main.Version)
	}
	return ""
}

// changed returns an error if sources are newer than the program.
func (p *Program) changed(all []pkg) error {
	for _, one := range all {
		if p.made(&one) || one.Module.immutable() {
			continue
		}
		for _, name := range one.files() {
			if info, err := os.Stat(name); err == nil && info.ModTime().After(p.Built) {
				return fmt.Errorf("%w: %s was changed %s, and the program was built %s", ErrChanged, name,
					info.ModTime().Format(time.DateTime), p.Built.Format(time.DateTime))
			}
		}
	}
	return nil
}

// cgo returns the program's packages, except Go's own, that have C code for a platform.
func (t *toolchain) cgo(ctx context.Context, p *Program, at place) []string {
	_, all, err := t.list(ctx, p, at, "CGO_ENABLED=1")
	if err != nil {
		return nil
	}
	var found []string
	for _, one := range all {
		if !one.Standard && len(one.CgoFiles) > 0 && !slices.Contains(found, one.ImportPath) {
			found = append(found, one.ImportPath)
		}
	}
	return found
}

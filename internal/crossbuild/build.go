package crossbuild

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// flags are the flags of every go command for the program.
func (p *Program) flags() []string {
	flags := []string{"-trimpath", "-buildvcs=false", "-buildmode=exe", "-race=false", "-msan=false", "-asan=false"}
	return append(flags, "-tags="+setting(p.Info, "-tags")) // even if empty, to override GOFLAGS
}

// build builds the program for a platform, as the file out in the folder scratch. If out exists
// already and is up to date, it is used. Otherwise scratch is empty. The caller removes it.
func (p *Program) build(ctx context.Context, to Platform, scratch, out string) error {
	tool, err := newToolchain(p, to)
	if err != nil {
		return err
	}
	var tried []string
	try := func(at place) (done bool, err error) {
		why, err := p.buildAt(ctx, tool, at, to, out)
		if why != "" {
			tried = append(tried, at.dir+": "+why)
		}
		return why == "", err
	}
	for _, at := range p.places() {
		if done, err := try(at); done {
			return err
		}
	}
	if p.released() {
		at, err := tool.release(ctx, p, scratch)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			tried = append(tried, err.Error())
		default:
			if done, err := try(at); done {
				return err
			}
		}
	}
	return p.noSources(tried)
}

// noSources returns an ErrNoSources that names the program and the reason.
func (p *Program) noSources(tried []string) error {
	what := "package " + p.packagePath()
	if p.byFiles() {
		what = strings.Join(p.targets(), " ")
	}
	why := "none of the folders that it was built from exists"
	switch {
	case len(tried) > 0:
		why = "\n\t" + strings.Join(tried, "\n\t")
	case !slices.ContainsFunc(p.Files, filepath.IsAbs):
		why = "it was built with -trimpath, which removes the folders' names"
	}
	return fmt.Errorf("%w: %s: %s", ErrNoSources, what, why)
}

// buildAt builds the program from one place. If that place does not have the program, why is the
// reason.
func (p *Program) buildAt(ctx context.Context, tool *toolchain, at place, to Platform, out string) (why string, err error) {
	var custody custody
	if !at.named {
		if len(at.env) == 0 { // a release's is complete
			if at.env, err = custody.enter(at.dir); err != nil {
				return notOurs(err), nil
			}
		}
	}
	target, all, err := tool.list(ctx, p, at)
	if failed := (*commandError)(nil); errors.As(err, &failed) {
		return failed.Error(), nil
	} else if err != nil {
		return "", err
	}
	if why := p.mismatch(target, at); why != "" {
		return why, nil
	}
	if !at.named {
		if err := custody.packages(p, all); err != nil {
			return notOurs(err), nil
		}
	}
	if err := p.changed(all); err != nil {
		return "", err
	}
	args := []string{"build"}
	if p.Test {
		args = []string{"test", "-c"}
	}
	linker, err := joinFlags(append([]string{"-s", "-w"}, linkerFlags(setting(p.Info, "-ldflags"))...))
	if err != nil {
		return "", err
	}
	args = append(append(args, p.flags()...), "-ldflags="+linker, "-o", out)
	args = append(args, at.flags...)
	if !p.Test { // go test would pass the rest to the tests
		args = append(args, "--")
	}
	if _, err := tool.run(ctx, at.dir, at.env, append(args, at.targets...)...); err != nil {
		if needs := tool.cgo(ctx, p, at); len(needs) > 0 && ctx.Err() == nil {
			err = fmt.Errorf("%w\n\t%s has C code, which is left out here (CGO_ENABLED=0): build on a machine with a C compiler for %v, and link statically",
				err, strings.Join(needs, ", "), to)
		}
		if p.byFiles() && ctx.Err() == nil {
			err = fmt.Errorf("%w\n\tif a program is started by its files, only the files with functions are known: start it by its folder (go run .)", err)
		}
		return "", err
	}
	return p.verify(out, to)
}

// notOurs returns the reason why sources that other users may change are not built.
func notOurs(err error) string {
	return fmt.Sprintf("not built, because other users can change it: %v", err)
}

// verify compares the built program with this one. If it is a different program, why is the reason,
// and another place may have the right one.
func (p *Program) verify(out string, to Platform) (why string, err error) {
	if _, err := os.Stat(out); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("the go command built no %s", filepath.Base(out)) // a package without tests
	}
	built, err := buildinfo.ReadFile(out)
	if err != nil {
		return "", fmt.Errorf("the built program: %w", err)
	}
	format, err := Identify(out)
	switch {
	case err != nil:
		return "", fmt.Errorf("the built program: %w", err)
	case format.Platform != to:
		return "", fmt.Errorf("the built program is for %v", format.Platform)
	case format.Interpreter != "":
		return "", fmt.Errorf("the built program is not static: it needs %s", format.Interpreter)
	case built.Path != p.Info.Path || built.Main.Path != p.Info.Main.Path:
		return fmt.Sprintf("it builds %s of the module %s, but this program is %s of %s",
			built.Path, built.Main.Path, p.Info.Path, p.Info.Main.Path), nil
	}
	return otherVersions(built.Deps, p.Info.Deps), nil
}

// otherVersions describes a module whose version in the built program differs from this program's,
// or returns "". A module that only one of them has belongs to one platform.
func otherVersions(built, ours []*debug.Module) string {
	versions := map[string]string{}
	for _, m := range ours {
		versions[m.Path] = versionOf(m)
	}
	for _, m := range built {
		if was, ok := versions[m.Path]; ok && was != versionOf(m) {
			return fmt.Sprintf("it uses %s %s, but this program uses %s", m.Path, versionOf(m), was)
		}
	}
	return ""
}

func versionOf(m *debug.Module) string {
	if r := m.Replace; r != nil {
		if r.Version == "" || r.Version == "(devel)" {
			return "=> " + filepath.Clean(r.Path)
		}
		return "=> " + r.Path + " " + r.Version
	}
	return m.Version
}

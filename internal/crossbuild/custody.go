package crossbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gputrain/gputrain/internal/private"
)

// A custody checks which users can change the sources of a program. In a folder that the caller has
// not named these must be this user and root alone, because another user could otherwise decide
// what runs on nodes.
type custody struct{ sealed private.Sealed }

// moduleFiles are the files that, besides the sources, decide what the go command builds.
var moduleFiles = []string{"go.mod", "go.sum", "go.work", "go.work.sum", filepath.Join("vendor", "modules.txt")}

// enter checks a folder before the go command runs in it, together with the folders of its module
// and workspace. It returns the environment that makes the command use the checked workspace and
// look for no other.
func (c *custody) enter(dir string) (env []string, err error) {
	if err := c.sealed.Check(dir); err != nil {
		return nil, err
	}
	inModule, work := false, "off"
	for at := dir; ; at = filepath.Dir(at) {
		// The nearest go.mod is the module's. Folders between it and dir belong to the module.
		if !inModule {
			if err := c.sealed.Check(at); err != nil {
				return nil, fmt.Errorf("%w, and a go.mod there would decide what is built", err)
			}
			if inModule, err = c.has(at, "go.mod"); err != nil {
				return nil, err
			}
			if inModule {
				if err := c.files(at); err != nil {
					return nil, err
				}
			}
		}
		// A workspace that another user has put above the module does not belong to the program.
		if file := filepath.Join(at, "go.work"); work == "off" && exists(file) {
			if c.files(at) == nil {
				work = file
			}
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if given := os.Getenv("GOWORK"); given != "" {
		work = given
	}
	return []string{"GOWORK=" + work}, nil
}

// files checks the module files in a folder.
func (c *custody) files(dir string) error {
	for _, name := range moduleFiles {
		if _, err := c.has(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a folder has a file, and checks the file.
func (c *custody) has(dir, name string) (bool, error) {
	file := filepath.Join(dir, name)
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, c.sealed.Check(file)
}

// packages checks the sources of packages, and the files of their modules.
func (c *custody) packages(p *Program, all []pkg) error {
	for _, one := range all {
		if p.made(&one) || one.Dir == "" {
			continue
		}
		for _, path := range append(one.files(), one.Dir) {
			if err := c.sealed.Check(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		for m := one.Module; m != nil; m = m.Replace {
			if m.GoMod == "" {
				continue
			}
			if err := c.sealed.Check(m.GoMod); err != nil {
				return err
			}
		}
	}
	return nil
}

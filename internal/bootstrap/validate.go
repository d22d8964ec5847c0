package bootstrap

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var (
	// packageName matches the names that apt, apk and dnf accept, with an architecture (libc6:arm64), a version
	// (foo=1.2-3, foo~1.2), or a repository (foo@edge). It matches no option.
	packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._:@-]*([=~<>]{1,2}[A-Za-z0-9][A-Za-z0-9+._:~*-]*)?$`)

	pythonVersion = regexp.MustCompile(`^3(\.[0-9]{1,3}){0,2}$`)

	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

	// userinfo finds "user:password@" and "token@" in an address.
	userinfo = regexp.MustCompile(`([A-Za-z0-9+.-]*)://([^/?#\s]*)@`)
)

// validate returns all mistakes joined. No message contains a password, or a part of an address that could hold one.
func (img Image) validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	for i, name := range img.Apt {
		switch {
		case strings.HasPrefix(name, "-"):
			add("Apt[%d]: %q would be read as an option; only names of packages go here", i, name)
		case !packageName.MatchString(name):
			add("Apt[%d]: %q is not a package's name", i, name)
		case strings.HasSuffix(name, "-"):
			add("Apt[%d]: %q ends in a dash, by which apt removes packages", i, name)
		}
	}
	if img.Python != "" && !pythonVersion.MatchString(img.Python) {
		add("Python: %q is no version of Python 3; write it like 3.12", img.Python)
	}
	for i, p := range img.Pip {
		if err := checkRequirement(p); err != nil {
			add("Pip[%d]: %w", i, err)
		}
	}
	for i, index := range img.PipIndexes {
		if err := checkIndex(index); err != nil {
			add("PipIndexes[%d]: %w", i, err)
		}
	}
	for name, value := range img.Env {
		if !envName.MatchString(name) {
			add("Env: %q is not a name that a process can be given", name)
		}
		if strings.ContainsRune(value, 0) {
			add("Env: the value of %s has a NUL byte, which no process can be given", name)
		}
	}
	for _, field := range []struct {
		name     string
		commands []string
	}{{"Before", img.Before}, {"Setup", img.Setup}} {
		for i, command := range field.commands {
			if strings.TrimSpace(command) == "" {
				add("%s[%d]: the command is empty", field.name, i)
			}
			if strings.ContainsRune(command, 0) {
				add("%s[%d]: the command has a NUL byte, which no process can be given", field.name, i)
			}
		}
	}
	if img.PhaseTimeout < 0 {
		add("PhaseTimeout: %v is negative", img.PhaseTimeout)
	}
	entries, err := img.entries()
	if err != nil {
		faults = append(faults, err)
	}
	for _, e := range entries {
		if err := e.Check(); err != nil {
			add("path %q of Include: %w; leave them out with Exclude, or set FollowOutsideLinks", e.Local, err)
		}
	}
	return errors.Join(faults...)
}

// checkRequirement checks one argument of pip install.
func checkRequirement(p string) error {
	switch {
	case strings.TrimSpace(p) == "":
		return errors.New("the requirement is empty")
	case strings.HasPrefix(strings.TrimSpace(p), "-"):
		return errors.New("options of pip do not go here; name a file with them in Image.Requirements, or install with them in a Setup command")
	case strings.ContainsAny(p, "\x00\r\n"):
		return errors.New("the requirement has a newline or a NUL byte")
	}
	for _, m := range userinfo.FindAllStringSubmatch(p, -1) {
		scheme, user := m[1], m[2]
		// git+ssh://git@host names an account; nothing in it is secret.
		if strings.HasSuffix(scheme, "ssh") && !strings.Contains(user, ":") {
			continue
		}
		return errors.New("the address holds a user or a password, which every process of the node could read; " +
			"write it into the file of Image.Requirements, with ${NAME} in their place and the value in Spec.Secrets")
	}
	return nil
}

// checkIndex checks one extra package index. url.Parse's own error contains the address, so it is not used.
func checkIndex(index string) error {
	if userinfo.MatchString(index) {
		return errors.New("the address holds a user or a password, which every process of the node could read; " +
			"set PIP_EXTRA_INDEX_URL in Spec.Secrets")
	}
	u, err := url.Parse(index)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	file := err == nil && u.Scheme == "file" && u.Path != ""
	if !web && !file || strings.ContainsAny(index, " \t\r\n") {
		return errors.New("not the address of a package index; write it like https://download.pytorch.org/whl/cu124")
	}
	return nil
}

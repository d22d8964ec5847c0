package slurm

import (
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// linkable are the folders of a node in which a job can make the Target of a mount without root.
var linkable = []string{"/tmp/", "/var/tmp/", "/dev/shm/"}

// checkMounts refuses mounts that a job cannot make. A mount of a container can be any; on the node itself a Source is seen
// at its own path, or by a symbolic link.
func (c Config) checkMounts(mounts []driver.Mount) error {
	const hint = "set Target to Source, or to a path below /tmp, or set Config.Container"
	for _, m := range mounts {
		for _, path := range []string{m.Source, m.Target} {
			if !strings.HasPrefix(path, "/") || hasControl(path) || strings.ContainsAny(path, ":,") {
				return invalid("launch", "Source is a path of the compute nodes", "Spec.Mounts has %q, which is not an absolute path without colons and commas", path)
			}
		}
		if c.Container != "" || m.Target == m.Source && !m.ReadOnly {
			continue
		}
		if m.ReadOnly {
			return &driver.Error{Provider: providerName, Op: "launch", Kind: driver.ErrUnsupported,
				Err: fmt.Errorf("Spec.Mounts: %s cannot be made read-only without a container", m.Source), Hint: "leave ReadOnly false, or set Config.Container"}
		}
		if !c.canLink(m.Target) {
			return &driver.Error{Provider: providerName, Op: "launch", Kind: driver.ErrUnsupported,
				Err: fmt.Errorf("Spec.Mounts: a job cannot make %s on a node without root", m.Target), Hint: hint}
		}
	}
	return nil
}

// canLink reports whether a job may make a link at a path.
func (c Config) canLink(target string) bool {
	if strings.Contains(target, "/../") || strings.HasSuffix(target, "/") || strings.HasSuffix(target, "/..") {
		return false
	}
	for _, folder := range linkable {
		if strings.HasPrefix(target, folder) {
			return true
		}
	}
	return plainPath.MatchString(c.WorkDir) && strings.HasPrefix(target, strings.TrimSuffix(c.WorkDir, "/")+"/")
}

// mountWords returns pairs for job.sh: a path that must exist, and the link to make to it, or "".
func (c Config) mountWords(mounts []driver.Mount) (words []string) {
	for _, m := range mounts {
		link := m.Target
		if c.Container != "" || m.Target == m.Source {
			link = ""
		}
		words = append(words, quote(m.Source), quote(link))
	}
	return words
}

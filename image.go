package gputrain

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/providers/driver"
)

// An Image describes what a node needs before it runs tasks. Its parts run in the order of its fields,
// each as a named phase, on all nodes at once. A node does not repeat a phase that it has done
// already, by the hash of what was asked.
type Image struct {
	// Before are shell commands that run first, in order, in the working directory: to add a package repository or a
	// certificate, for example. The files of Include arrive later. A change of Before rebuilds the Python environment.
	// providers/container keeps an image of a prepared container only if Before is empty.
	Before []string `json:",omitzero"`
	// Apt are system packages, installed with apt, apk or dnf, whichever the
	// node has. The names are the node's distribution's.
	Apt []string
	// Python is the version of Python for the tasks' virtual environment: "3.12". Empty means the
	// node's python3 if Pip or Requirements is set, or the version that a pyproject.toml asks for, and
	// no environment otherwise. uv makes the environment, and fetches a Python that the node lacks. It
	// is the node's own uv, if that is 0.5 or newer, or else a release that gputrain pins by its SHA-256.
	// The node fetches that from GitHub, or from the address in UV_INSTALLER_GITHUB_BASE_URL of Env. If
	// it cannot, this program does, by its own variable of that name, and sends it. With UV_OFFLINE=1 in
	// Env neither does. Without uv the node needs a python3 of that version, with venv and pip.
	Python string
	// Pip are Python packages, as pip takes them: "torch==2.4.0". They go into
	// the virtual environment.
	Pip []string
	// Requirements is a file of this machine with Python packages for the virtual environment: a
	// requirements.txt, with the files that its -r and -c name, or a pyproject.toml with uv.lock
	// beside it. A project's own package is not installed; its default groups are. If the
	// requirements have hashes, only packages with these are installed, those of Pip aside. Each
	// preparation of a node reads the files again, and rebuilds the environment if they have changed. A
	// change of a file that -r names by its address is not noticed. Open refuses, with [ErrInvalid], a
	// missing uv.lock, packages by their path on this machine, and passwords: a requirements.txt may
	// have ${NAME} in their place, with the value in Spec.Secrets, and for an index of a pyproject.toml
	// uv reads UV_INDEX_<NAME>_PASSWORD there. Only uv installs a uv.lock. Empty means none.
	Requirements string `json:",omitzero"`
	// PipIndexes are further package indexes, tried beside the usual one. The address may not
	// contain a password: give the address of such an index as PIP_EXTRA_INDEX_URL or
	// UV_EXTRA_INDEX_URL in Spec.Secrets, or use a netrc file.
	PipIndexes []string
	// Env is set for every task and every phase. PYTHONUNBUFFERED is 1 unless it is set here or by
	// the task, even to nothing: Python then writes lines as they are printed. It is kept in clear: a
	// variable that is a credential by its name, such as HF_TOKEN, is [ErrInvalid], and belongs into
	// Spec.Secrets.
	Env map[string]string
	// Include are files and folders of this machine, copied into the working
	// directory of every node, only what changed: "./src" arrives as src. A
	// path outside the current directory arrives under its last element.
	Include []string
	// Exclude are patterns, as in .gitignore, of what Include leaves out. A
	// .gitignore inside an included folder counts too.
	Exclude []string
	// FollowOutsideLinks copies what the symbolic links of an included folder lead
	// to, if that is outside of the folder. Otherwise such a link, and an absolute
	// one, is [ErrOutsideLink]. A path of Include itself may be any link.
	FollowOutsideLinks bool
	// Setup are shell commands, run in the working directory, in order, after everything else.
	Setup []string
	// PhaseTimeout bounds each phase. Zero means 20 minutes.
	PhaseTimeout time.Duration

	// Docker is the container image in which tasks, functions and all other phases run, and in which
	// files are: "pytorch/pytorch:2.9.0-cuda12.9-cudnn9-runtime". It needs a POSIX shell, and tar for
	// folders. Tasks are root there. Empty means none.
	//
	// A provider that rents containers rents this image: see Capabilities.Images. On any other machine
	// the image runs in a container of the node's Docker, with all GPUs, the machine's network and
	// shared memory, the pool's folder, and the targets of Spec.Mounts, at their paths. A phase named
	// "docker" pulls it. If the machine has no Docker, the phase installs Docker, and for NVIDIA's GPUs
	// their container toolkit, if the login is root or may use sudo without a password; both stay. All
	// nodes have the same image, by its digest: of a tag the one that the first node has found. An image
	// that was built on the node, and is in no registry, is used as it is.
	//
	// The container ends with the node's part in the pool, by its lease too. On a machine that goes on,
	// an image that the pool has pulled is removed then, unless another container uses it or the
	// provider keeps its cache.
	Docker string `json:",omitzero"`
	// DockerUser and DockerPassword log in to the image's registry. The password may be a token, or a
	// reference, which is looked up when the pool is opened; see [Secret]. A node has it in memory while
	// it pulls. It is not kept for Attach, whose new nodes have it from [WithSecrets], under the name
	// "Image.DockerPassword". Empty means that the image is public, or that the node's own Docker is
	// logged in.
	DockerUser     string `json:",omitzero"`
	DockerPassword Secret `json:"-"`
}

// packages is the part of the image that a driver may have installed before a machine starts. It is empty if Before is
// to run first, since that may use what the pool has. Of a pool with secrets it has no Python packages: their index may
// need one.
func (s Spec) packages(secrets bool) driver.Packages {
	i := s.Image
	if len(i.Before) > 0 {
		return driver.Packages{}
	}
	if secrets {
		return driver.Packages{Apt: i.Apt, Env: i.Env, PhaseTimeout: i.PhaseTimeout}
	}
	return driver.Packages{Apt: i.Apt, Python: i.Python, Pip: i.Pip, Requirements: i.Requirements, PipIndexes: i.PipIndexes, Env: i.Env, PhaseTimeout: i.PhaseTimeout}
}

func (im Image) validate(f *invalid.Faults) {
	for name, list := range map[string][]string{
		"Before": im.Before, "Apt": im.Apt, "Pip": im.Pip, "PipIndexes": im.PipIndexes,
		"Include": im.Include, "Exclude": im.Exclude, "Setup": im.Setup,
	} {
		for i, s := range list {
			where := fmt.Sprintf("Image.%s[%d]", name, i)
			if strings.TrimSpace(s) == "" {
				f.Add("%s is empty", where)
			}
			f.Text(where, s)
		}
	}
	for i, s := range append(im.Apt[:len(im.Apt):len(im.Apt)], im.Pip...) {
		if strings.HasPrefix(s, "-") {
			f.Add("Image package %d, %q, would be read as an option", i, s)
		}
	}
	for i, s := range im.PipIndexes {
		if u, err := url.Parse(s); err != nil || u.Host == "" {
			f.Add("Image.PipIndexes[%d] is not an address", i)
		} else if u.User != nil {
			f.Add("Image.PipIndexes[%d], at %s, holds a user or password, which would be readable on the node", i, u.Host)
		}
	}
	f.Text("Image.Python", im.Python)
	f.Text("Image.Requirements", im.Requirements)
	f.Env("Image.Env", "Spec.Secrets", im.Env)
	f.Duration("Image.PhaseTimeout", im.PhaseTimeout)
	im.validateDocker(f)
}

// validateDocker checks the container image, and its registry's login.
func (im Image) validateDocker(f *invalid.Faults) {
	if im.Docker != "" {
		if _, err := docker.ParseReference(im.Docker); err != nil {
			f.Add("Image.Docker: %v", err)
		}
	}
	f.Secret("Image.DockerPassword", im.DockerPassword)
	switch login := im.DockerUser != "" || im.DockerPassword != ""; {
	case login && im.Docker == "":
		f.Add("Image.DockerUser or DockerPassword is set, and Image.Docker is not")
	case (im.DockerUser == "") != (im.DockerPassword == ""):
		f.Add("Image.DockerUser and DockerPassword log in together; one of them is empty")
	case strings.ContainsAny(im.DockerUser, ": \t\r\n\x00"):
		f.Add("Image.DockerUser has a colon or a space, which no registry takes")
	}
}

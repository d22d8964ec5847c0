// Package bootstrap makes a node ready for tasks: it turns an Image into named
// phases and runs them on the node, one after the other.
//
//	packages     system packages, by the node's own package manager
//	python       a virtual environment
//	pip          Python packages in it
//	files        what Include names, into the working directory
//	setup 1/2    shell commands in the working directory
//	setup 2/2
//
// A phase that the node has been through already is skipped. What counts as
// such differs, because what can be relied on differs: packages are looked up
// in the node's package database; a virtual environment must have been
// finished under the hash of what it is made of, and its python must still
// start; files are compared one by one; a setup command must have run after
// the same phases in the same working directory.
package bootstrap

import (
	"fmt"
	"time"
)

// An Image describes what a node needs before it runs tasks. Its fields are those of
// the root package's Image, name by name and in order, so that the one
// converts to the other.
type Image struct {
	Apt        []string
	Python     string
	Pip        []string
	PipIndexes []string
	Env        map[string]string
	Include    []string
	Exclude    []string

	FollowOutsideLinks bool

	Setup        []string
	PhaseTimeout time.Duration
}

// DefaultPhaseTimeout bounds a phase if the image does not.
const DefaultPhaseTimeout = 20 * time.Minute

func (img Image) timeout() time.Duration {
	if img.PhaseTimeout == 0 {
		return DefaultPhaseTimeout
	}
	return img.PhaseTimeout
}

// wantsPython reports whether tasks get a virtual environment.
func (img Image) wantsPython() bool { return img.Python != "" || len(img.Pip) > 0 }

// A Phase is one step of making a node ready.
type Phase struct {
	// Name is for people: "pip", "setup 1/3".
	Name string
	// Key is the hash of what the phase does, and of the phases before it if they matter to it. It does not cover facts
	// of the node and the content of files.
	Key string

	kind    kind
	command string // of a setup phase
}

type kind int

const (
	packages kind = iota
	python
	pip
	files
	setup
)

// Plan returns the image's phases in order, or all mistakes in the image. It reads the local disk and does not contact
// a node.
func Plan(img Image) ([]Phase, error) {
	if err := img.validate(); err != nil {
		return nil, err
	}
	var phases []Phase
	add := func(k kind, name, key, command string) {
		phases = append(phases, Phase{Name: name, Key: key, kind: k, command: command})
	}
	if len(img.Apt) > 0 {
		add(packages, "packages", hash("packages", list(img.Apt)), "")
	}
	if img.wantsPython() {
		key := img.venvKey()
		add(python, "python", key, "")
		if len(img.Pip) > 0 {
			add(pip, "pip", key, "")
		}
	}
	if len(img.Include) > 0 {
		add(files, "files", hash("files", list(img.Include), list(img.Exclude)), "")
	}
	before := hash("env", pairs(img.Env))
	for _, p := range phases {
		before = hash("after", before, p.Name, p.Key)
	}
	for i, command := range img.Setup {
		before = hash("setup", before, command)
		add(setup, fmt.Sprintf("setup %d/%d", i+1, len(img.Setup)), before, command)
	}
	return phases, nil
}

// Package bootstrap makes a node ready for tasks: it turns an Image into named
// phases and runs them on the node, one after the other.
//
//	before 1/2   shell commands in the working directory
//	before 2/2
//	packages     system packages, by the node's own package manager
//	python       a virtual environment, by uv, which is fetched or sent if the node lacks it
//	pip          Python packages in it
//	files        what Include names, into the working directory
//	setup 1/2    shell commands in the working directory
//	setup 2/2
//
// A phase that the node has been through already is skipped. What counts as
// such differs, because what can be relied on differs: packages are looked up
// in the node's package database; a virtual environment must have been
// finished under the hash of what it is made of, and its python must still
// start; files are compared one by one; a shell command must have run after
// the same phases in the same working directory.
package bootstrap

import (
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An Image describes what a node needs before it runs tasks. Its fields are those of
// the root package's Image, name by name and in order, so that the one
// converts to the other.
type Image struct {
	Before       []string
	Apt          []string
	Python       string
	Pip          []string
	Requirements string
	PipIndexes   []string
	Env          map[string]string
	Include      []string
	Exclude      []string

	FollowOutsideLinks bool

	Setup        []string
	PhaseTimeout time.Duration

	// The container in which all of this happens is another package's work: see internal/docker.
	Docker         string
	DockerUser     string
	DockerPassword driver.Secret
}

// DefaultPhaseTimeout bounds a phase if the image does not.
const DefaultPhaseTimeout = 20 * time.Minute

// Timeout bounds each phase.
func (img Image) Timeout() time.Duration {
	if img.PhaseTimeout == 0 {
		return DefaultPhaseTimeout
	}
	return img.PhaseTimeout
}

// wantsPython reports whether tasks get a virtual environment.
func (img Image) wantsPython() bool { return img.Python != "" || img.wantsPip() }

// wantsPip reports whether packages are installed into it.
func (img Image) wantsPip() bool { return len(img.Pip) > 0 || img.Requirements != "" }

// A Phase is one step of making a node ready.
type Phase struct {
	// Name is for people: "pip", "setup 1/3".
	Name string
	// Key is the hash of what the phase does, and of the phases before it if they matter to it. It does not cover facts
	// of the node and the content of files.
	Key string

	kind    kind
	command string // of a before or setup phase
}

type kind int

const (
	before kind = iota
	packages
	python
	pip
	files
	setup
	baked // see BakedPhase
)

// Plan returns the image's phases in order, or all mistakes in the image. It reads the local disk and does not contact
// a node.
func Plan(img Image) ([]Phase, error) {
	phases, _, err := plan(img, nil)
	return phases, err
}

// plan is Plan for nodes whose phases have secrets, by their names. It also returns what Requirements names.
func plan(img Image, secrets map[string]string) ([]Phase, requirements, error) {
	required, err := readRequirements(img.Requirements)
	if err != nil {
		err = fmt.Errorf("the file of Requirements: %w", err)
	}
	if err := errors.Join(img.validate(), err); err != nil {
		return nil, requirements{}, err
	}
	var phases []Phase
	add := func(k kind, name, key, command string) {
		phases = append(phases, Phase{Name: name, Key: key, kind: k, command: command})
	}
	last := hash("env", pairs(img.Env))
	for i, command := range img.Before {
		last = hash("before", last, command)
		add(before, fmt.Sprintf("before %d/%d", i+1, len(img.Before)), last, command)
	}
	if len(img.Apt) > 0 {
		add(packages, "packages", hash("packages", list(img.Apt)), "")
	}
	if img.wantsPython() {
		key := img.venvKey(required, secrets)
		add(python, "python", key, "")
		if img.wantsPip() {
			add(pip, "pip", key, "")
		}
	}
	if len(img.Include) > 0 {
		add(files, "files", hash("files", list(img.Include), list(img.Exclude)), "")
	}
	for _, p := range phases[len(img.Before):] {
		last = hash("after", last, p.Name, p.Key)
	}
	for i, command := range img.Setup {
		last = hash("setup", last, command)
		add(setup, fmt.Sprintf("setup %d/%d", i+1, len(img.Setup)), last, command)
	}
	return phases, required, nil
}

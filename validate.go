package gputrain

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/secretref"
)

// Validate reports everything that is wrong with the spec, in one error that
// is [ErrInvalid]. Open calls it before anything is contacted.
func (s Spec) Validate() error {
	var f faults
	f.count("Nodes", s.Nodes)
	f.count("MinReady", s.MinReady)
	f.count("Concurrency", s.Concurrency)
	f.count("MaxNodes", s.MaxNodes)
	f.duration("IdleTimeout", s.IdleTimeout)
	if s.MaxNodes > 0 && s.MaxNodes < s.Nodes {
		f.add("MaxNodes is %d, fewer than the %d of Nodes", s.MaxNodes, s.Nodes)
	}
	if s.IdleTimeout > 0 && s.MaxNodes == 0 {
		f.add("IdleTimeout is %v, and without MaxNodes no node is ended for being idle", s.IdleTimeout)
	}
	if s.MaxReplacements < -1 {
		f.add("MaxReplacements is %d; -1 is for none", s.MaxReplacements)
	}
	if s.MaxOffers < -1 {
		f.add("MaxOffers is %d; -1 is for no bound", s.MaxOffers)
	}
	f.text("OnPreemption", s.OnPreemption)
	if s.MinReady > s.nodes() {
		f.add("MinReady is %d, more than the %d of Nodes", s.MinReady, s.nodes())
	}
	if goName := map[string]string{"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64"}[strings.ToLower(s.Arch)]; goName != "" {
		f.add("Arch is %q; in Go's words that is %q", s.Arch, goName)
	}
	f.text("Arch", s.Arch)
	for i, r := range s.Regions {
		if strings.TrimSpace(r) == "" {
			f.add("Regions[%d] is empty", i)
		}
		f.text(fmt.Sprintf("Regions[%d]", i), r)
	}
	f.amount("VCPUs", s.VCPUs)
	f.amount("MemoryGiB", s.MemoryGiB)
	f.amount("DiskGiB", s.DiskGiB)
	f.amount("MaxHourlyUSD", s.MaxHourlyUSD)
	f.amount("BudgetUSD", s.BudgetUSD)
	f.amount("IngressGiB", s.IngressGiB)
	f.amount("EgressGiB", s.EgressGiB)
	if err := s.Accelerator.Validate(); err != nil {
		f.add("Accelerator: %v", err)
	}
	if s.Allocation < OnDemand || s.Allocation > CheapestAllocation {
		f.add("Allocation is %v; use OnDemand, SpotIfAvailable, Spot or CheapestAllocation", s.Allocation)
	}
	f.duration("Lease", s.Lease)
	f.duration("TTL", s.TTL)
	if s.Lease > 0 && s.Lease < MinLease {
		f.add("Lease is %v; the least that can be kept is %v", s.Lease, MinLease)
	}
	if s.TTL > 0 && s.TTL < MinLease {
		f.add("TTL is %v; the least is %v", s.TTL, MinLease)
	}
	for i, m := range s.Mounts {
		m.validate(&f, fmt.Sprintf("Mounts[%d]", i))
	}
	s.Image.validate(&f)
	return f.err("spec")
}

func (m Mount) validate(f *faults, where string) {
	switch {
	case !path.IsAbs(m.Target):
		f.add("%s.Target %q is not an absolute path", where, m.Target)
	case path.Clean(m.Target) == "/":
		f.add("%s.Target is the node's root", where)
	}
	if m.Source == "" {
		f.add("%s.Source is empty", where)
	}
	f.text(where+".Source", m.Source)
	f.text(where+".Target", m.Target)
	if strings.ContainsAny(m.Source+m.Target, ",\n") {
		f.add("%s has a comma or a newline, which no engine takes", where)
	}
}

func (im Image) validate(f *faults) {
	for name, list := range map[string][]string{
		"Apt": im.Apt, "Pip": im.Pip, "PipIndexes": im.PipIndexes,
		"Include": im.Include, "Exclude": im.Exclude, "Setup": im.Setup,
	} {
		for i, s := range list {
			where := fmt.Sprintf("Image.%s[%d]", name, i)
			if strings.TrimSpace(s) == "" {
				f.add("%s is empty", where)
			}
			f.text(where, s)
		}
	}
	for i, s := range append(im.Apt[:len(im.Apt):len(im.Apt)], im.Pip...) {
		if strings.HasPrefix(s, "-") {
			f.add("Image package %d, %q, would be read as an option", i, s)
		}
	}
	for i, s := range im.PipIndexes {
		if u, err := url.Parse(s); err != nil || u.Host == "" {
			f.add("Image.PipIndexes[%d] is not an address", i)
		} else if u.User != nil {
			f.add("Image.PipIndexes[%d], at %s, holds a user or password, which would be readable on the node", i, u.Host)
		}
	}
	f.text("Image.Python", im.Python)
	f.env("Image.Env", im.Env)
	f.duration("Image.PhaseTimeout", im.PhaseTimeout)
}

// faults collects what is wrong, so that a user hears of all of it at once.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *faults) count(name string, n int) {
	if n < 0 {
		f.add("%s is %d; it counts, so it cannot be negative", name, n)
	}
}

func (f *faults) amount(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		f.add("%s is %v; it must be a number from 0 up", name, v)
	}
}

func (f *faults) duration(name string, d time.Duration) {
	if d < 0 {
		f.add("%s is %v; it cannot be negative", name, d)
	}
}

// text refuses what cannot be handed to a process.
func (f *faults) text(name, s string) {
	if strings.ContainsRune(s, 0) {
		f.add("%s has a NUL byte, which no process can be given", name)
	}
}

// secret refuses what cannot be handed to a process, and a reference that is none.
func (f *faults) secret(name string, s Secret) {
	f.text(name, string(s))
	if err := secretref.Check(string(s)); err != nil {
		f.add("%s: %v", name, err)
	}
}

// env refuses names that sh cannot set. Values are not printed.
func (f *faults) env(where string, env map[string]string) {
	for name, value := range env {
		f.envName(where, name)
		f.text(fmt.Sprintf("%s[%q]", where, name), value)
	}
}

func (f *faults) envName(where, name string) {
	if !isEnvName(name) {
		f.add("%s has the name %q; sh takes letters, digits and _, not starting with a digit", where, name)
	}
	if strings.HasPrefix(name, "GPUTRAIN_") {
		f.add("%s has the name %q; names with GPUTRAIN_ are gputrain's own", where, name)
	}
}

func isEnvName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// err joins the faults into one ErrInvalid, or returns nil.
func (f faults) err(what string) error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Op: what, Kind: ErrInvalid, Err: errors.New(strings.Join(f, "; "))}
}

// nodes is how many nodes the pool has at least.
func (s Spec) nodes() int {
	if s.MaxNodes > 0 {
		return s.Nodes
	}
	return max(s.Nodes, 1)
}

// maxNodes is how many it has at most.
func (s Spec) maxNodes() int { return max(s.MaxNodes, s.nodes()) }

func (s Spec) concurrency() int { return max(s.Concurrency, 1) }

func (s Spec) idleTimeout() time.Duration {
	if s.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return s.IdleTimeout
}

func (s Spec) replacements() int {
	switch s.MaxReplacements {
	case 0:
		return DefaultReplacements
	case -1:
		return 0
	}
	return s.MaxReplacements
}

func (s Spec) minReady() int {
	if s.MinReady == 0 {
		return s.nodes()
	}
	return s.MinReady
}

func (s Spec) lease() time.Duration {
	if s.Lease == 0 {
		return DefaultLease
	}
	return s.Lease
}

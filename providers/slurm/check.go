package slurm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

var (
	// slurmName matches names of partitions, accounts and the like.
	slurmName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+:-]*$`)
	// plainPath matches paths that need no quotes anywhere: in a comment of a job, in sshd_config.
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9_./+-]*$`)
	// workPath is plainPath with variables. No command can be in it.
	workPath = regexp.MustCompile(`^(?:/|\$[A-Z_{])[A-Za-z0-9_./+:${}-]*$`)
)

// faults collects the mistakes in a Config.
type faults []error

func (f *faults) add(hint, format string, args ...any) {
	*f = append(*f, invalid("open", hint, format, args...))
}

func invalid(op, hint, format string, args ...any) error {
	return &driver.Error{Provider: providerName, Op: op, Kind: driver.ErrInvalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// check reports all mistakes at once. It contacts nothing.
func (c Config) check() error {
	var f faults
	c.checkLogin(&f)
	c.checkNames(&f)
	c.checkPath(&f)
	c.checkAmounts(&f)
	c.checkJob(&f)
	for _, arg := range c.SbatchArgs {
		if why := refusedArg(arg); why != "" {
			f.add("leave it out of SbatchArgs", "SbatchArgs: %q %s", arg, why)
		}
	}
	return errors.Join(f...)
}

func (c Config) checkLogin(f *faults) {
	switch {
	case c.Local:
		if c.Login.Addr != "" || len(c.Jump) > 0 {
			f.add("leave Login and Jump empty on the login node itself", "Local is true, and Login or Jump names a host")
		}
		return
	case c.Login.Addr == "":
		f.add(`write slurm.Config{Login: ssh.Host{Addr: "login.lab"}}, or set Local on the login node itself`, "Login names no host")
		return
	}
	known := len(*f)
	for i, h := range c.Jump {
		f.host(fmt.Sprintf("Jump[%d]", i), h)
	}
	if len(*f) > known { // and not once more as the way to Login
		f.host("Login", c.Login)
	} else {
		f.host("Login", c.Login, c.Jump...)
	}
}

// host adds the mistakes in a host, which is reached through others. One without a credential is of the kind driver.ErrAuth.
func (f *faults) host(field string, h ssh.Host, jump ...ssh.Host) {
	if _, err := h.Route(jump...); err != nil {
		e := &driver.Error{Provider: providerName, Op: "open", Kind: driver.ErrInvalid, Err: fmt.Errorf("%s, %q: %w", field, h.Addr, err)}
		if known, ok := errors.AsType[*driver.Error](err); ok {
			e.Kind, e.Hint, e.Err = known.Kind, known.Hint, fmt.Errorf("%s, %q: %w", field, h.Addr, known.Err)
		}
		*f = append(*f, e)
	}
}

func (c Config) checkNames(f *faults) {
	for _, field := range []struct {
		name  string
		names []string
	}{{"Partitions", c.Partitions}, {"PreemptiblePartitions", c.PreemptiblePartitions}} {
		for i, name := range field.names {
			if !slurmName.MatchString(name) {
				f.add("write it as sinfo shows it, without a star", "%s has %q, which is not the name of a partition", field.name, name)
			} else if slices.Contains(field.names[:i], name) {
				f.add("name each once", "%s has %q twice", field.name, name)
			}
		}
	}
	for _, field := range [][2]string{{"Account", c.Account}, {"QOS", c.QOS}, {"Reservation", c.Reservation}, {"Clusters", c.Clusters}} {
		if field[1] != "" && !slurmName.MatchString(field[1]) {
			f.add("give one name", "%s is %q, which is not a name", field[0], field[1])
		}
	}
	if c.Clusters == "all" {
		f.add("give the name of one cluster, and join several by gputrain.FirstOf", "Clusters is %q", c.Clusters)
	}
	if strings.HasPrefix(c.Constraint, "-") || hasControl(c.Constraint) {
		f.add("write it as for sbatch --constraint", "Constraint is %q", c.Constraint)
	}
	for _, name := range slices.Sorted(maps.Keys(c.GPUNames)) {
		if a, err := accelerators.Parse(c.GPUNames[name]); err != nil || name == "" || a.IsZero() || a.Count > 1 {
			f.add(`write the name of one accelerator: "A100-80GB"`, "GPUNames[%q] is %q, which names no accelerator", name, c.GPUNames[name])
		}
	}
}

func (c Config) checkAmounts(f *faults) {
	if c.CPUsPerGPU < 0 {
		f.add("", "CPUsPerGPU is %d", c.CPUsPerGPU)
	}
	if !(c.MemoryPerGPUGiB >= 0) || math.IsInf(c.MemoryPerGPUGiB, 0) {
		f.add("", "MemoryPerGPUGiB is %v", c.MemoryPerGPUGiB)
	}
	for _, field := range []struct {
		name string
		d    time.Duration
	}{{"TimeLimit", c.TimeLimit}, {"QueueTimeout", c.QueueTimeout}, {"CommandTimeout", c.CommandTimeout}, {"PollInterval", c.PollInterval}} {
		if field.d < 0 {
			f.add("", "%s is %v", field.name, field.d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.HourlyUSD)) {
		if usd := c.HourlyUSD[name]; !(usd > 0) || math.IsInf(usd, 0) {
			f.add("leave HourlyUSD empty if the cluster is free", "HourlyUSD[%q] is %v, which is not a price", name, usd)
		}
	}
	if c.Ports != [2]int{} && (c.Ports[0] < 1024 || c.Ports[1] < c.Ports[0] || c.Ports[1] > 65535) {
		f.add("give the first and the last one, from 1024 to 65535", "Ports are %d to %d", c.Ports[0], c.Ports[1])
	}
}

func (c Config) checkJob(f *faults) {
	if c.WorkDir != "" && !workPath.MatchString(c.WorkDir) {
		f.add("write an absolute path, without blanks and quotes; it may have variables", "WorkDir is %q", c.WorkDir)
	}
	if c.SSHD != "" && !plainPath.MatchString(c.SSHD) {
		f.add("write the absolute path of sshd", "SSHD is %q", c.SSHD)
	}
	for i, line := range c.Setup {
		if strings.ContainsRune(line, 0) {
			f.add("", "line %d of Setup has a NUL byte", i)
		}
	}
	if strings.HasPrefix(c.Container, "-") || hasControl(c.Container) || strings.Contains(c.Container, " ") {
		f.add("write the name of an image, or the path of a .sif file", "Container is %q", c.Container)
	}
	switch c.Reach {
	case "", ReachAuto, ReachForward:
	case ReachStep:
		if c.Local {
			f.add("leave Reach empty", "Reach is step, and Local reaches nodes over TCP")
		}
		if c.Container != "" {
			f.add("leave Reach or Container empty", "Reach is step, and a step does not run in the Container")
		}
	default:
		f.add(`use "auto", "forward" or "step"`, "Reach is %q", string(c.Reach))
	}
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

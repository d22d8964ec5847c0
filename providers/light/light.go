// Package light makes every provider except aws, gcp and kubernetes by its name, as package
// providers/all does. Those link their vendors' clients, which take a minute each to build from scratch:
// a program with this package builds in seconds.
//
//	provider, err := light.New("lambda", nil)
//	accounts, err := light.Accounts(file) // several accounts, by the names in a file
package light

import (
	"maps"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/byname"
)

const elsewhere = "it links its vendor's client, and is in package providers/all"

var set = byname.Set{Package: "light", Configs: byname.Light, Elsewhere: map[string]string{"aws": elsewhere, "gcp": elsewhere, "kubernetes": elsewhere}}

// Names returns the names of the providers that New makes, in alphabetical order.
func Names() []string { return set.Names() }

// Elsewhere returns the names of the providers that only package providers/all makes, in alphabetical order.
func Elsewhere() []string { return slices.Sorted(maps.Keys(set.Elsewhere)) }

// New returns the provider of a name. It contacts nothing.
//
// The settings are the fields of its Config, as a JSON, YAML or TOML file has them: "MinCUDA",
// "min_cuda" and "min-cuda" are the same. A duration is a text ("90s") or a number of
// nanoseconds. Missing fields are as in the zero Config. It is better to leave a credential to
// the environment, or to use a reference: see [driver.Secret].
//
// Settings are data: New refuses settings that run programs on this computer, such as a
// credential that begins with cmd://, unless AllowCommands is given. The author of the settings
// still decides what is rented in this user's name, which files and variables are read as
// credentials, and by Endpoint where they are sent.
//
// An unknown name, an unknown setting, a value of the wrong type, and a field that only a
// program can set (HTTPClient) are [driver.ErrInvalid]. Open checks the values.
func New(name string, settings map[string]any, opts ...Option) (driver.Provider, error) {
	return set.New(name, settings, opts...)
}

// A Registry has accounts by the names that the user gave them: Names lists them, and Provider
// returns one, or [driver.ErrNotFound]. The zero value has none. A credential in it does not
// print.
type Registry = byname.Registry

// Accounts returns the accounts of a settings file, by their names: several of one cloud, say.
// It contacts nothing.
//
// The settings of an account are those of New, and "provider", the name of its provider:
//
//	{"work": {"provider": "vastai", "api_key": "env://VAST_WORK"}, "own": {"provider": "vastai"}}
//
// What AllowCommands permits is refused without it. The error names everything that is wrong in
// any account, and is [driver.ErrInvalid].
//
// In one pool of several accounts of a cloud (gputrain.Cheapest), each machine stays its
// account's.
func Accounts(accounts map[string]map[string]any, opts ...Option) (Registry, error) {
	return set.Accounts(accounts, opts...)
}

// An Option changes what New and Accounts take from settings.
type Option = byname.Option

// AllowCommands accepts settings that run programs on this computer: credentials that are
// commands (cmd://COMMAND LINE), for a container engine its command (Binary) and the
// options that open this computer to containers (RunArgs, Devices), and for Slurm what its jobs run
// in the user's name on the cluster, or that this computer is its login node (Setup, SSHD,
// Container, SbatchArgs, WorkDir, Local). It is for settings that the user of this computer wrote,
// or would run as a script.
func AllowCommands() Option { return byname.AllowCommands() }

// Package light knows every provider by its name but those of aws and gcp, as package
// providers/all does. Those two link their vendors' clients, which take a minute each to
// build from nothing: a program with this package builds in seconds.
//
//	provider, err := light.New("lambda", nil)
package light

import (
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/byname"
)

const elsewhere = "it links its vendor's client, and is in package providers/all"

var set = byname.Set{Package: "light", Configs: byname.Light, Elsewhere: map[string]string{"aws": elsewhere, "gcp": elsewhere}}

// Names returns the names of the providers that New makes, in alphabetical order.
func Names() []string { return set.Names() }

// New returns the provider of a name. Nothing is contacted.
//
// The settings are the fields of its Config, as a JSON, YAML or TOML file has them: "MinCUDA",
// "min_cuda" and "min-cuda" are the same. A duration is a text ("90s") or a number of
// nanoseconds. What is left out is as in the zero Config. A credential is better left to
// the environment, or a reference: see [gputrain.Secret].
//
// Settings are data: one that has this computer run what it says, as a credential that
// begins with cmd:// does, is refused unless AllowCommands is given. Whoever writes the
// settings still decides what is rented in this user's name, which files and variables
// are read as credentials, and by Endpoint where they are sent.
//
// A name or a setting that there is none of, one of the wrong type, and one that only
// a program can make (HTTPClient) is [gputrain.ErrInvalid]. What Config itself thinks of the
// values its Open says.
func New(name string, settings map[string]any, opts ...Option) (gputrain.Provider, error) {
	return set.New(name, settings, opts...)
}

// An Option changes what New takes from settings.
type Option = byname.Option

// AllowCommands takes settings that have this computer run what they say:
// credentials that are commands (cmd://COMMAND LINE), and of a container engine
// its command (Binary) and what opens this computer to containers (RunArgs,
// Devices). It is for settings that the user of this computer wrote, or
// would run as a script.
func AllowCommands() Option { return byname.AllowCommands() }

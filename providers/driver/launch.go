package driver

import (
	"io"
	"time"
)

// A Launch asks for machines of one offer.
type Launch struct {
	Pool  PoolInfo
	Offer Offer
	Query Query
	// Nodes has one request for each wanted machine.
	Nodes []NodeRequest
	// Token makes the call idempotent if the API supports that: the same token never launches
	// twice.
	Token string
	// Packages will be installed on the machines once they are up, for a driver that can keep
	// an image with them.
	Packages Packages
	// ImageLogin logs in to the registry of Query.Image, if Capabilities.Images has Logins.
	ImageLogin ImageLogin
	// Output returns the writer for the output of a phase that the driver runs before its
	// machines start. Nil discards it.
	Output func(phase string) io.Writer
}

// A NodeRequest asks for one machine.
type NodeRequest struct {
	// Rank is the node's index in the pool, from 0.
	Rank int
	// Name is unique in the pool and fit for a host name: "<pool id>-<rank>",
	// with a suffix for a replacement.
	Name string
	// HostKey is the key that the machine's SSH server must show, for a provider whose
	// Capabilities.HostKeys is HostKeyInjected.
	HostKey HostKey
}

// Packages are the parts of a pool's image that do not depend on the pool: system packages
// and a Python environment, as gputrain.Image has them.
type Packages struct {
	Apt    []string
	Python string
	Pip    []string
	// Requirements is the path of a file on this computer, as in gputrain.Image.
	Requirements string
	PipIndexes   []string
	// Env is the environment of their installation.
	Env map[string]string
	// PhaseTimeout bounds the system packages, and the Python environment. Zero means the
	// default of gputrain.Image.
	PhaseTimeout time.Duration
}

// An ImageLogin logs in to the registry of a container image. The zero value means that there is
// no login.
type ImageLogin struct {
	User     string
	Password Secret
}

// A HostKey is an SSH server's identity.
type HostKey struct {
	// Private is the private key in OpenSSH's PEM form.
	Private Secret
	// Public is the public key in authorized_keys form.
	Public string
}

package colab

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
)

// An Endpoint is where a notebook's runtime is reached, and how it proves to be
// that. The cell prints it in Go, and as JSON for [ParseEndpoint].
type Endpoint struct {
	// Host and Port are the public end of the tunnel. They change whenever the
	// tunnel is opened anew.
	Host string
	Port int
	// User is whom to log in as. Empty means "root".
	User string
	// HostKey is the public key of the runtime's SSH server in one line, or its
	// "SHA256:" fingerprint. It is never left out.
	HostKey string
}

const (
	defaultUser = "root"
	// newest is the version of the cell's document that this package reads.
	newest = 1
)

// ParseEndpoint reads the JSON that the cell prints. Fields that it does not know
// are ignored, and a document of a newer version is refused.
func ParseEndpoint(document []byte) (Endpoint, error) {
	var d struct {
		Version  int    `json:"version"`
		Provider string `json:"provider"`
		Host     string `json:"host"`
		Port     int    `json:"port"`
		User     string `json:"user"`
		HostKey  string `json:"host_key"`
		SHA256   string `json:"host_key_sha256"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return Endpoint{}, unreadable("take the one line of JSON that the cell prints, and nothing else", err)
	}
	switch {
	case d.Provider != provider:
		return Endpoint{}, unreadable(hintCell, fmt.Errorf("its provider is %q, not %q", d.Provider, provider))
	case d.Version > newest:
		return Endpoint{}, unreadable("update gputrain, or run the cell that its BootstrapCell makes", fmt.Errorf("it is of version %d, and this program reads up to %d", d.Version, newest))
	case d.Version < 1:
		return Endpoint{}, unreadable(hintCell, errors.New("it has no version"))
	}
	e := Endpoint{Host: d.Host, Port: d.Port, User: d.User, HostKey: d.HostKey}
	if _, err := e.host(); err != nil {
		return Endpoint{}, err
	}
	fingerprint, err := e.fingerprint()
	if err != nil {
		return Endpoint{}, err
	}
	if d.SHA256 != "" && d.SHA256 != fingerprint {
		return Endpoint{}, unreadable(hintCell, fmt.Errorf("host_key has the fingerprint %s, and host_key_sha256 says %s", fingerprint, d.SHA256))
	}
	return e, nil
}

func unreadable(hint string, err error) error {
	return &gputrain.Error{Provider: provider, Op: "read the endpoint", Kind: gputrain.ErrInvalid, Err: err, Hint: hint}
}

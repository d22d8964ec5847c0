package colab

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// An Endpoint is the address of a notebook's runtime and its host key. The cell prints it in
// Go, and as JSON for [ParseEndpoint].
type Endpoint struct {
	// Host and Port are the public end of the tunnel. They change whenever the tunnel is
	// reopened.
	Host string
	Port int
	// User is the user to log in as. If empty, it is "root".
	User string
	// HostKey is the public key of the runtime's SSH server in one line, or its "SHA256:"
	// fingerprint. It is mandatory.
	HostKey string
}

const (
	defaultUser = "root"
	// newest is the version of the cell's document that this package reads.
	newest = 1
)

// ParseEndpoint reads the JSON that the cell prints. It ignores unknown fields, and refuses a
// document of a newer version.
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
		return Endpoint{}, unreadable("pass only the one line of JSON that the cell prints", err)
	}
	switch {
	case d.Provider != provider:
		return Endpoint{}, unreadable(hintCell, fmt.Errorf("its provider is %q, not %q", d.Provider, provider))
	case d.Version > newest:
		return Endpoint{}, unreadable("update gputrain, or run the cell of its BootstrapCell", fmt.Errorf("its version is %d; this program reads up to %d", d.Version, newest))
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
		return Endpoint{}, unreadable(hintCell, fmt.Errorf("host_key has the fingerprint %s, but host_key_sha256 is %s", fingerprint, d.SHA256))
	}
	return e, nil
}

func unreadable(hint string, err error) error {
	return &driver.Error{Provider: provider, Op: "read the endpoint", Kind: driver.ErrInvalid, Err: err, Hint: hint}
}

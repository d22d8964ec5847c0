//go:build unix

package hosts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Making a machine with OpenSSH a node takes openTrips round trips. The protocol, and x/crypto/ssh,
// which asks for approval of a key before it signs, require each of them:
//
//  1. the versions, and what the server supports
//  2. the exchange of keys
//  3. the request for a login
//  4. "none", which returns the login methods
//  5. whether the server accepts the key
//  6. the key's signature
//  7. a channel
//  8. a shell in it, whose stdin can be written to only then
//  9. the supervisor, which reports the machine's properties
//
// Other queries of the machine run concurrently with these. TCP adds one before them.
const openTrips = 9

// trips opens a pool over a link, and returns the number of round trips of that.
func trips(t *testing.T, h *e2etest.OwnHost, provider gputrain.Provider, spec gputrain.Spec) int {
	t.Helper()
	pool, err := gputrain.Open(t.Context(), provider, spec, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	n := h.Link.Trips()
	h.Link.Delay(0)
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	return n
}

// Over a slow link, opening takes the protocol's round trips, whatever the machine is asked.
func TestRoundTripsToOpenANode(t *testing.T) {
	bin := t.TempDir()
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("nvidia-smi", `case $1 in -L) echo 'GPU 0: Tesla T4 (UUID: GPU-1)' ;; *) echo 'Tesla T4, 15360' ;; esac`)
	program("python3", "echo 0") // the result of cuInit
	own := func(h *e2etest.OwnHost) gputrain.Provider { return ssh.Config{Hosts: []ssh.Host{h.Host()}} }
	notebook := func(h *e2etest.OwnHost) gputrain.Provider {
		host, port, _ := strings.Cut(h.Link.Addr, ":")
		n, _ := strconv.Atoi(port)
		return colab.Config{KeyFile: h.Server.KeyFile, Endpoint: colab.Endpoint{Host: host, Port: n, User: h.Server.User, HostKey: h.Host().HostKey}}
	}
	for _, tt := range []struct {
		name     string
		provider func(*e2etest.OwnHost) gputrain.Provider
		path     string
		spec     gputrain.Spec
	}{
		{"no accelerators", own, "/usr/bin:/bin", gputrain.Spec{}},
		{"accelerators that the spec does not ask for", own, bin + ":/usr/bin:/bin", gputrain.Spec{}},
		{"accelerators", own, bin + ":/usr/bin:/bin", gputrain.Spec{Accelerator: accelerators.T4()}},
		{"accelerators that the driver looks for", notebook, bin + ":/usr/bin:/bin", gputrain.Spec{Accelerator: accelerators.T4()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least := 0
			for i := range 5 { // a busy machine may add some, the less the slower the link
				h := e2etest.NewHost(t, "PATH="+tt.path)
				h.Link.Delay(25 * time.Millisecond << i)
				if n := trips(t, h, tt.provider(h), tt.spec); least == 0 || n < least {
					least = n
				}
				if least <= openTrips {
					break
				}
			}
			if least != openTrips {
				t.Errorf("it took %d round trips; it takes %d", least, openTrips)
			}
		})
	}
}

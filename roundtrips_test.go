//go:build unix

package gputrain_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/ssh"
)

// The round trips that it takes to make a node of a machine with OpenSSH. The protocol, and
// x/crypto/ssh, which asks before it shows a key, need each of them:
//
//  1. the versions, and what the server can do
//  2. the exchange of keys
//  3. the request for a login
//  4. "none", which tells what logins there are
//  5. whether the key will do
//  6. the key's signature
//  7. a channel
//  8. a shell in it, whose stdin has room only then
//  9. the supervisor, which tells what the machine is
//
// What else is asked of the machine is asked beside these. TCP takes one before them.
const openTrips = 9

// trips opens a pool over a link, and returns how many round trips that took.
func trips(t *testing.T, h *ownHost, provider gputrain.Provider, spec gputrain.Spec) int {
	t.Helper()
	pool, err := gputrain.Open(t.Context(), provider, spec, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	n := h.link.Trips()
	h.link.Delay(0)
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	return n
}

// A slow link costs as many round trips as the protocol needs, whatever the machine is asked.
func TestRoundTripsToOpenANode(t *testing.T) {
	bin := t.TempDir()
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("nvidia-smi", `case $1 in -L) echo 'GPU 0: Tesla T4 (UUID: GPU-1)' ;; *) echo 'Tesla T4, 15360' ;; esac`)
	program("python3", "echo 0") // cuInit's code
	own := func(h *ownHost) gputrain.Provider { return ssh.Config{Hosts: []ssh.Host{h.host()}} }
	notebook := func(h *ownHost) gputrain.Provider {
		host, port, _ := strings.Cut(h.link.Addr, ":")
		n, _ := strconv.Atoi(port)
		return colab.Config{KeyFile: h.srv.KeyFile, Endpoint: colab.Endpoint{Host: host, Port: n, User: h.srv.User, HostKey: h.host().HostKey}}
	}
	for _, tt := range []struct {
		name     string
		provider func(*ownHost) gputrain.Provider
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
			for range 5 { // a machine that is busy adds some
				h := newHost(t, "PATH="+tt.path)
				h.link.Delay(25 * time.Millisecond)
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

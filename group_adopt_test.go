//go:build unix

package gputrain_test

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// One's own host first, and what that has no room for elsewhere: the host is left as it
// was found, and the rest is ended.
func TestFirstOfOwnHosts(t *testing.T) {
	h := newHost(t)
	p, err := gputrain.Open(t.Context(), gputrain.FirstOf(ssh.Config{Hosts: []ssh.Host{h.host()}}, local.Config{}), gputrain.Spec{Nodes: 3},
		gputrain.WithStateDir(t.TempDir()), gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var providers []string
	for _, n := range p.Nodes() {
		providers = append(providers, n.Provider)
	}
	if got := fmt.Sprint(providers); got != "[ssh local local]" {
		t.Errorf("nodes at %s", got)
	}
	if got, err := norm.Broadcast(p, point{3, 4}); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	one, err := p.Run(gputrain.Task{Script: "echo $HOME", Target: gputrain.OnLabels(map[string]string{gputrain.LabelProvider: "ssh"})})
	if err != nil || string(one.Stdout) != h.home+"\n" {
		t.Errorf("%q, %v", one.Stdout, err)
	}
	id := p.ID()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	h.wantAsFound(t)
	if left := processesWith("GPUTRAIN_POOL=" + id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

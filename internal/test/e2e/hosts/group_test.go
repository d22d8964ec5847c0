//go:build unix

package hosts

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// The user's own host gets the first node, and another provider the rest. Close leaves the host as it was, and ends the
// other nodes.
func TestFirstOfOwnHosts(t *testing.T) {
	h := e2etest.NewHost(t)
	p, err := gputrain.Open(t.Context(), gputrain.FirstOf(ssh.Config{Hosts: []ssh.Host{h.Host()}}, local.Config{}), gputrain.Spec{Nodes: 3},
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
	if got, err := e2etest.Norm.Broadcast(p, e2etest.Point{X: 3, Y: 4}); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	one, err := p.Run(gputrain.Task{Script: "echo $HOME", Target: gputrain.OnLabels(map[string]string{gputrain.LabelProvider: "ssh"})})
	if err != nil || string(one.Stdout) != h.Home+"\n" {
		t.Errorf("%q, %v", one.Stdout, err)
	}
	id := p.ID()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	h.WantAsFound(t)
	if left := e2etest.ProcessesWith("GPUTRAIN_POOL=" + id); len(left) > 0 {
		t.Errorf("these files are left: %q", left)
	}
}

package local

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// A node is a machine with the facts that the driver reports of it.
type node struct {
	id, login string
	mark      mark
	offer     driver.Offer
	machine   *machine.Machine
}

// startNode makes a node that the holder of the pool's key can log in to. If it fails, it
// leaves nothing.
func (d *localDriver) startNode(ctx context.Context, req driver.Launch, want driver.NodeRequest) (*node, error) {
	if !validID(want.Name) {
		return nil, fmt.Errorf("%w: a node's name is lower-case letters, digits and dashes", driver.ErrInvalid)
	}
	key := string(want.HostKey.Private)
	if key == "" {
		var err error
		if key, err = machine.NewHostKey(); err != nil {
			return nil, fmt.Errorf("host key: %w", err)
		}
	}
	m := mark{Token: rand.Text(), Rank: want.Rank, Created: time.Now().UTC()}.renewed(req.Pool)
	var home machine.Home
	var err error
	if m.Accelerator = req.Offer.Accelerator; m.Accelerator.IsZero() {
		home, err = d.homes.newHome(want.Name, m, []byte(key))
	} else {
		home, m, err = d.newHomeWithGPUs(ctx, want.Name, m, key)
	}
	if err != nil {
		return nil, err
	}
	n, err := d.serve(want.Name, home, m, key, req.Pool.AuthorizedKey)
	if err != nil {
		home.Remove()
		return nil, err
	}
	n.offer = req.Offer
	return n, nil
}

// serve starts the machine of an existing home.
func (d *localDriver) serve(id string, home machine.Home, m mark, hostKey, authorizedKey string) (*node, error) {
	login, err := machine.LoginName()
	if err != nil {
		return nil, err
	}
	cfg := d.machineConfig(id, home, m)
	cfg.HostKey, cfg.AuthorizedKey = hostKey, authorizedKey
	served, err := machine.New(cfg)
	if err != nil {
		return nil, err
	}
	offer := d.offer()
	offer.Accelerator = m.Accelerator
	return &node{id: id, login: login, mark: m, offer: offer, machine: served}, nil
}

// machineConfig returns the configuration of a node's machine, without keys. An empty mark is unknown.
func (d *localDriver) machineConfig(id string, home machine.Home, m mark) machine.Config {
	env := append(withGPUs(environment(os.Environ(), d.pass), m.GPUs), poolEnv+"="+m.Pool, homesEnv+"="+d.real)
	if m.Token != "" {
		env = append(env, tokenEnv+"="+m.Token)
	}
	return machine.Config{Name: id, Home: home, Env: env, Mark: nodeMark(id), Owns: d.owns(m.Token)}
}

// instance describes the node's present state.
func (n *node) instance() driver.Instance {
	in := driver.Instance{
		ID:          n.id,
		Name:        n.id,
		Rank:        n.mark.Rank,
		State:       driver.InstanceRunning,
		PrivateAddr: "127.0.0.1",
		SSH:         driver.Endpoint{Addr: name + ":" + n.id, User: n.login, HostKeys: []string{n.machine.HostKey}},
		Offer:       n.offer,
	}
	if !n.machine.Home().Exists() {
		in.State = driver.InstanceTerminated
		in.StateReason = "its home directory is gone: its lease or TTL ran out, or another program removed it"
	}
	return in
}

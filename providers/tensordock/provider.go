package tensordock

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A dock is the API. It remembers nothing.
type dock struct {
	client  *client
	cfg     Config //secretvet:ignore without the token
	account string
}

// Capabilities says what TensorDock can do. How late its lists are, and its effects, is
// estimated.
func (d *dock) Capabilities() gputrain.Capabilities {
	keys := gputrain.HostKeyFirstContact
	if d.cfg.byCloudInit() {
		keys = gputrain.HostKeyInjected
	}
	return gputrain.Capabilities{
		Account:          d.account,
		LocalAddresses:   localnet.IsURL(d.cfg.Endpoint),
		ListLag:          30 * cloud.Second,
		LateEffect:       d.cfg.RequestTimeout + time.Minute,
		EndsBilling:      "delete",
		DiskResizable:    true,
		HostKeys:         keys,
		ProvisionTimeout: 20 * time.Minute,
	}
}

// Prepare makes nothing: the pool's key is in each create call.
func (d *dock) Prepare(context.Context, gputrain.PoolInfo) error { return nil }

// Release has nothing to remove.
func (d *dock) Release(context.Context, gputrain.PoolInfo) error { return nil }

// Shared returns nothing, as nothing outlives a machine.
func (d *dock) Shared(context.Context, string) ([]gputrain.Resource, error) { return nil, nil }

// Create rents a machine. Any port may be forwarded to its SSH server; where the API wants to
// be told which, one is taken that a host of that location has free.
func (d *dock) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	s, err := parseSize(o.Offer.ID)
	if err != nil {
		return "", err
	}
	in := order{
		Name: o.Name(), Type: "virtualmachine", Image: d.cfg.OperatingSystem, LocationID: s.location, SSHKey: strings.TrimSpace(o.Pool.AuthorizedKey),
		Resources: resources{VCPUs: s.vcpus, RAMGB: s.ramGB, StorageGB: s.diskGB, GPUs: map[string]gpuCount{s.gpu: {s.count}}},
		Dedicated: d.cfg.DedicatedIP,
	}
	if d.cfg.byCloudInit() {
		d.client.Hide(string(o.Node.HostKey.Private)) // should an answer show it
		in.CloudInit = firstBoot(in.SSHKey, o.Node.HostKey)
	}
	if d.cfg.DedicatedIP {
		return d.client.create(ctx, in)
	}
	in.Forwards = []forward{{Internal: 22}}
	id, err = d.client.create(ctx, in)
	if refusesPort(err) {
		var port int
		if port, err = d.freePort(ctx, s); err == nil {
			in.Forwards[0].External = port
			id, err = d.client.create(ctx, in)
		}
	}
	return id, err
}

// refusesPort is whether a create was refused, and so made nothing, for its ports. What is "not
// supported" is something else.
func refusesPort(err error) bool {
	e, ok := cloud.Answered(err)
	return ok && e.Status == http.StatusBadRequest && namesPort.MatchString(cmp.Or(e.Message, e.Body))
}

var namesPort = regexp.MustCompile(`(?i)(^|[^a-z])ports?([^a-z]|$)|port_?forward`)

// freePort is a port that a host of a location has, which has the GPUs as well.
func (d *dock) freePort(ctx context.Context, s size) (int, error) {
	all, err := d.client.hosts(ctx)
	if err != nil {
		return 0, err
	}
	for _, h := range all {
		has := false
		for _, g := range h.Available.GPUs {
			has = has || g.Name == s.gpu && g.Count >= s.count
		}
		if has && h.LocationID == s.location && len(h.Available.Ports) > 0 {
			return h.Available.Ports[0], nil
		}
	}
	return 0, &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: errors.New("no host of this location has a port free")}
}

// firstBoot has sshd take the pool's key for root, and prove itself by the node's host key, from
// its first start. Beside the one is root's own file of keys, in which images put the same key with
// a command that logs out; beside the other the image's own, without which sshd would not start
// where it does not like the mode of the file.
func firstBoot(key string, host gputrain.HostKey) *cloudInit {
	const keys, hostKey = "/etc/ssh/gputrain_keys", "/etc/ssh/gputrain_host_key"
	return &cloudInit{
		Files: []file{
			{Path: keys, Content: key + "\n", Owner: "root:root", Permissions: "0644"},
			{Path: hostKey, Content: strings.TrimSpace(string(host.Private)) + "\n", Owner: "root:root", Permissions: "0600"},
			{
				Path: "/etc/ssh/sshd_config.d/01-gputrain.conf", Owner: "root:root", Permissions: "0644",
				Content: "AuthorizedKeysFile " + keys + " .ssh/authorized_keys\nPermitRootLogin prohibit-password\n" +
					"HostKey " + hostKey + "\nHostKey /etc/ssh/ssh_host_ed25519_key\n",
			},
		},
		Commands: []string{"chmod 600 " + hostKey, "systemctl reload ssh || systemctl reload sshd || true"}, // where it was started before
	}
}

// Machines returns all machines whose names are gputrain's. Lists are known to tell less than
// there is: of what runs and has no address there it is asked by itself.
func (d *dock) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	all, err := d.client.instances(ctx)
	if err != nil {
		return nil, err
	}
	var found []cloud.Machine
	for _, in := range all {
		m := d.machine(in)
		if m.Tag.Pool == "" || poolID != "" && m.Tag.Pool != poolID {
			continue
		}
		if state, _ := stateOf(in.Status); state == gputrain.InstanceRunning && m.SSH.Addr == "" {
			switch more, err := d.Machine(ctx, in.ID); {
			case err == nil:
				m = more
			case !isGone(err):
				return nil, err
			}
		}
		found = append(found, m)
	}
	return found, nil
}

// Machine returns one machine.
func (d *dock) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := d.client.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return d.machine(in), nil
}

// machine is what the API tells of one. It is running once it can be reached.
func (d *dock) machine(in machine) cloud.Machine {
	m := cloud.Machine{Tag: cloud.FromName(in.Name)}
	m.ID, m.PublicAddr = in.ID, in.IP
	m.State, m.StateReason = stateOf(in.Status)
	for gpu, n := range in.Resources.GPUs {
		m.Offer = gputrain.Offer{
			InstanceType: strconv.Itoa(n.Count) + "x " + gpu, Accelerator: accelerator(gpu, n.Count, gputrain.Spec{}), Arch: "amd64",
			VCPUs: float64(in.Resources.VCPUs), MemoryGiB: float64(in.Resources.RAMGB), DiskGiB: float64(in.Resources.StorageGB) * 1e9 / gib,
		}
	}
	if in.PerHour > 0 {
		m.Offer.HourlyUSD = gputrain.USD(float64(in.PerHour))
	}
	port := d.sshPort(in)
	if in.IP != "" && port > 0 {
		m.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(in.IP, strconv.Itoa(port)), User: d.cfg.SSHUser}
	} else if m.State == gputrain.InstanceRunning {
		m.State, m.StateReason = gputrain.InstancePending, in.Status+", without an address yet"
	}
	return m
}

// sshPort is the port that is forwarded to SSH. It is 22 only where the address is the
// machine's own: on one that is shared, that is somebody else.
func (d *dock) sshPort(in machine) int {
	i := slices.IndexFunc(in.Forwards, func(f forward) bool { return f.Internal == 22 })
	switch {
	case i >= 0:
		return in.Forwards[i].External
	case d.cfg.DedicatedIP:
		return 22
	}
	return 0
}

// End deletes a machine, which alone surely ends its billing.
func (d *dock) End(ctx context.Context, id string) error { return d.client.deleteInstance(ctx, id) }

// isGone is whether the API says that there is no such machine.
func isGone(err error) bool {
	_, kind := classify("", err)
	if kind == nil {
		kind = cloud.StatusKind(err)
	}
	return kind == gputrain.ErrNotFound
}

// Classify says what kind of failure an error is, by the API's words.
func (d *dock) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Close gives back connections.
func (d *dock) Close() { d.client.Close() }

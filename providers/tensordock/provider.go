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

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// maxName bounds the length of a machine's name. The API's own limit is not published; host names, which it may become,
// have 63 characters.
const maxName = 63

// A dock is TensorDock's [cloud.API]. It remembers nothing.
type dock struct {
	client  *client
	cfg     Config //secretvet:ignore without the token
	account string
}

// Capabilities describes what TensorDock can do. The lags of its lists and effects are
// estimates.
func (d *dock) Capabilities() driver.Capabilities {
	keys := driver.HostKeyFirstContact
	if d.cfg.byCloudInit() {
		keys = driver.HostKeyInjected
	}
	return driver.Capabilities{
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

// Prepare makes nothing: each create call contains the pool's key.
func (d *dock) Prepare(context.Context, driver.PoolInfo) error { return nil }

// Release does nothing.
func (d *dock) Release(context.Context, driver.PoolInfo) error { return nil }

// Shared returns nothing, as nothing outlives a machine.
func (d *dock) Shared(context.Context, string) ([]driver.Resource, error) { return nil, nil }

// Create rents a machine. Any port may be forwarded to its SSH server. If the API requires a
// port, Create names one that a host of that location has free.
func (d *dock) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	s, err := parseSize(o.Offer.ID)
	if err != nil {
		return "", err
	}
	in := order{
		Name: o.Tag.LongName(maxName), Type: "virtualmachine", Image: d.cfg.OperatingSystem, LocationID: s.location, SSHKey: strings.TrimSpace(o.Pool.AuthorizedKey),
		Resources: resources{VCPUs: s.vcpus, RAMGB: s.ramGB, StorageGB: s.diskGB, GPUs: map[string]gpuCount{s.gpu: {s.count}}},
		Dedicated: d.cfg.DedicatedIP,
	}
	if d.cfg.byCloudInit() {
		d.client.Hide(string(o.Node.HostKey.Private)) // an answer might show it
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

// refusesPort reports whether a create was refused because of its ports, and so made nothing.
// "Not supported" has another meaning.
func refusesPort(err error) bool {
	e, ok := cloud.Answered(err)
	return ok && e.Status == http.StatusBadRequest && namesPort.MatchString(cmp.Or(e.Message, e.Body))
}

var namesPort = regexp.MustCompile(`(?i)(^|[^a-z])ports?([^a-z]|$)|port_?forward`)

// freePort returns a free port of a host of the location that also has the GPUs.
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
	return 0, &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("no host of this location has a free port")}
}

// firstBoot makes sshd accept the pool's key for root, and show the node's host key, from its
// first start. Beside the pool's file it names root's own file of keys, in which images put the
// same key with a command that logs out. Beside the node's host key it names the image's own:
// without that, sshd would not start if it dislikes the mode of the file.
func firstBoot(key string, host driver.HostKey) *cloudInit {
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
		Commands: []string{"chmod 600 " + hostKey, "systemctl reload ssh || systemctl reload sshd || true"}, // if it was started before
	}
}

// Machines returns all machines with gputrain's names. Lists are known to be incomplete: a
// running machine without an address in the list is asked for by itself.
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
		if state, _ := stateOf(in.Status); state == driver.InstanceRunning && m.SSH.Addr == "" {
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

// machine translates a machine. It is running once it can be reached.
func (d *dock) machine(in machine) cloud.Machine {
	m := cloud.Machine{Tag: pooltag.FromName(in.Name)}
	m.ID, m.PublicAddr, m.Ports = in.ID, in.IP, d.ports(in)
	m.State, m.StateReason = stateOf(in.Status)
	for gpu, n := range in.Resources.GPUs {
		m.Offer = driver.Offer{
			InstanceType: strconv.Itoa(n.Count) + "x " + gpu, Accelerator: accelerator(gpu, n.Count, driver.Query{}), Arch: "amd64",
			VCPUs: float64(in.Resources.VCPUs), MemoryGiB: float64(in.Resources.RAMGB), DiskGiB: float64(in.Resources.StorageGB) * 1e9 / gib,
		}
	}
	if in.PerHour > 0 {
		m.Offer.HourlyUSD = driver.USD(float64(in.PerHour)) // of all parts
	}
	port := d.sshPort(in)
	if in.IP != "" && port > 0 {
		m.SSH = driver.Endpoint{Addr: net.JoinHostPort(in.IP, strconv.Itoa(port)), User: d.cfg.SSHUser}
	} else if m.State == driver.InstanceRunning {
		m.State, m.StateReason = driver.InstancePending, in.Status+", without an address yet"
	}
	return m
}

// ports returns the addresses of a machine's ports at its host's address, or nil if it has an address of its own.
func (d *dock) ports(in machine) map[int]string {
	if in.IP == "" || len(in.Forwards) == 0 && d.cfg.DedicatedIP {
		return nil
	}
	all := map[int]string{}
	for _, f := range in.Forwards {
		if f.External > 0 {
			all[f.Internal] = net.JoinHostPort(in.IP, strconv.Itoa(f.External))
		}
	}
	return all
}

// sshPort returns the port that is forwarded to SSH. It is 22 only if the address is the
// machine's own: on a shared address, port 22 is another machine's.
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

// End deletes a machine. Nothing else surely ends its billing.
func (d *dock) End(ctx context.Context, id string) error { return d.client.deleteInstance(ctx, id) }

// isGone reports whether the API answers that there is no such machine.
func isGone(err error) bool {
	_, kind := classify("", err)
	if kind == nil {
		kind = cloud.StatusKind(err)
	}
	return kind == driver.ErrNotFound
}

// Classify returns the kind of a failure by the API's text, and a hint.
func (d *dock) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Balance returns the account's money, if Config.APIKey is set: only the older API tells it.
func (d *dock) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	if d.client.market == nil {
		return driver.Balance{}, nil
	}
	usd, err := d.client.market.balance(ctx)
	if err != nil {
		return driver.Balance{}, err
	}
	return driver.Balance{Known: true, USD: usd, LeastUSD: leastUSD}, nil
}

// Close closes connections.
func (d *dock) Close() {
	d.client.Close()
	if d.client.market != nil {
		d.client.market.Close()
	}
}

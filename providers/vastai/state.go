package vastai

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// loadTimeout is how long an image may be pulled: a host that takes longer is dead.
func loadTimeout() time.Duration { return 600 * second }

// describe is an instance in gputrain's words.
func (d *driver) describe(in instance) gputrain.Instance {
	id := strconv.FormatInt(in.ID, 10)
	state, why := stateOf(in)
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.made[id]
	mine := m != nil
	if m == nil {
		m = &machine{}
	} else if state == gputrain.InstancePending && !m.at.IsZero() && m.offer.Provider != "" && time.Since(m.at) > loadTimeout() {
		state, why = gputrain.InstanceFailed, "it has not come up in "+loadTimeout().String()+": "+why
	}
	if state == gputrain.InstanceFailed && in.MachineID != 0 {
		d.broken[in.MachineID] = true
	}
	if m.absent && cloud.IsOver(state) && time.Since(m.at) >= createLag() {
		state, why = gputrain.InstanceTerminated, cloud.NothingToEnd(why)
	}
	out := gputrain.Instance{
		ID: id, State: state, StateReason: why,
		PublicAddr: strings.TrimSpace(in.PublicIPAddr),
		Offer:      chargedOffer(m.offer, in),
	}
	if t, ok := labelOf(in); ok {
		out.Name, out.Rank = t.name, t.rank
	}
	if state == gputrain.InstanceRunning {
		out.SSH = gputrain.Endpoint{Addr: sshAddr(in, d.cfg.RequireDirectPort), User: "root"}
		d.pinLocked(&out, mine)
	}
	return out
}

// chargedOffer is what was rented, with what is really charged: of an instance that
// another program has launched, as far as it tells.
func chargedOffer(o gputrain.Offer, in instance) gputrain.Offer {
	if o.Provider == "" {
		o = gputrain.Offer{
			Provider: providerName, InstanceType: instanceType(in.GPUName, in.NumGPUs), Region: in.Geolocation,
			Accelerator: accelerator(in.GPUName, in.NumGPUs, 0),
		}
	}
	o.Spot = in.IsBid
	if in.DPHTotal != nil && *in.DPHTotal > 0 {
		o.HourlyUSD = gputrain.USD(*in.DPHTotal)
	}
	return o
}

// stateOf maps the API's states. What is stopped though no pool ever stops anything lost
// its bid, or its account has no credit. The prose of status_msg may be old, and counts
// only where it says why a container cannot be made.
func stateOf(in instance) (gputrain.InstanceState, string) {
	status, message := "", ""
	if in.ActualStatus != nil {
		status = *in.ActualStatus
	}
	if in.StatusMsg != nil {
		message = strings.TrimSpace(*in.StatusMsg)
	}
	why := cmp.Or(message, status, "placing")
	stopped := in.CurState == "stopped" && in.IntendedStatus == "stopped" && in.NextState == "stopped"
	switch {
	case stopped && in.IsBid, status == "stopped" && in.IsBid:
		return gputrain.InstancePreempted, "outbid, and stopped: its disk is billed until it is destroyed"
	case stopped, status == "stopped", status == "frozen":
		return gputrain.InstanceStopped, why
	}
	switch status {
	case "", "rebooting":
		return gputrain.InstancePending, why
	case "created", "loading":
		for _, fatal := range []string{"OCI runtime create failed", "pull access denied", "no space left on device"} {
			if strings.Contains(message, fatal) {
				return gputrain.InstanceFailed, why
			}
		}
		if strings.HasPrefix(message, "Error") {
			return gputrain.InstanceFailed, why
		}
		return gputrain.InstancePending, why
	case "running":
		return gputrain.InstanceRunning, why
	case "exited", "unknown", "offline":
		return gputrain.InstanceFailed, status + ": " + why
	}
	return gputrain.InstanceUnknown, status
}

// sshAddr is where the SSH server is: at a port of the host where it has one, else at
// Vast's proxy, unless only direct ones will do.
func sshAddr(in instance, directOnly bool) string {
	host := strings.TrimSpace(in.PublicIPAddr)
	if ports := in.Ports["22/tcp"]; host != "" && len(ports) > 0 {
		if port, err := strconv.Atoi(strings.TrimSpace(ports[0].HostPort)); err == nil && port > 0 {
			return net.JoinHostPort(host, strconv.Itoa(port))
		}
	}
	if directOnly || in.SSHHost == "" || in.SSHPort == 0 {
		return ""
	}
	port := in.SSHPort
	if strings.Contains(in.ImageRunType, "jupyter") {
		port++
	}
	return net.JoinHostPort(in.SSHHost, strconv.Itoa(port))
}

// labelOf reads the label of an instance.
func labelOf(in instance) (tag, bool) {
	if in.Label == nil {
		return tag{}, false
	}
	return parseTag(*in.Label)
}

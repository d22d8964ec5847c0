package vastai

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// loadTimeout bounds the pull of an image: a slower host counts as dead.
func loadTimeout() time.Duration { return 600 * cloud.Second }

// gpuWait bounds the time for which an instance that has run before may wait for its GPU. Another user
// has rented the GPU, for an unknown time.
func gpuWait() time.Duration { return 30 * cloud.Second }

// hostFailed is the kind of the failure of a host that cannot start a container: later pools avoid the host.
var hostFailed = driver.ErrUnavailable

// imageDenied is in the message about an image that a registry refuses: no other host has it either.
const imageDenied = "pull access denied"

// machine translates an instance.
func (p *provider) machine(in instance) cloud.Machine {
	id := strconv.FormatInt(in.ID, 10)
	m := cloud.Machine{Instance: driver.Instance{ID: id, PublicAddr: strings.TrimSpace(in.PublicIPAddr), Offer: chargedOffer(in)}}
	m.State, m.StateReason = stateOf(in)
	m.Unbilled = m.State != driver.InstanceRunning
	if m.State == driver.InstanceFailed && !strings.Contains(m.StateReason, imageDenied) {
		m.FailureKind = hostFailed
	}
	m.Tag, _ = labelOf(in)
	if m.Tag.Created.IsZero() && in.StartDate != nil {
		m.Tag.Created = time.Unix(int64(*in.StartDate), 0)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.notes[id]; r != nil {
		if m.State == driver.InstancePending && !r.launched.IsZero() && time.Since(r.launched) > loadTimeout() {
			m.State, m.StateReason = driver.InstanceFailed, "it has not come up in "+loadTimeout().String()+": "+m.StateReason
			m.FailureKind = hostFailed
		}
		if r.waitsForGPU(m.State, in) {
			m.State, m.StateReason = driver.InstanceFailed, "it was stopped, and another user has rented its GPU"
			m.FailureKind = nil // there is no room
		}
		if r.failed != nil {
			m.ListAs, m.Tag.Name = m.Tag.Name, "" // it is not the node in its label
		}
	}
	if m.State == driver.InstanceFailed && in.MachineID != 0 {
		p.broken[in.MachineID] = true
	}
	if m.State == driver.InstanceRunning {
		m.SSH = driver.Endpoint{Addr: sshAddr(in, !p.cfg.AllowProxy), User: "root"}
		m.Ports = portsOf(in)
	}
	return m
}

// waitsForGPU reports whether an instance that has been running has waited for its GPU for gpuWait.
func (n *note) waitsForGPU(state driver.InstanceState, in instance) bool {
	n.ran = n.ran || state == driver.InstanceRunning
	if !n.ran || state != driver.InstancePending || in.CurState != "stopped" || in.IntendedStatus != "running" {
		n.waits = time.Time{}
		return false
	}
	if n.waits.IsZero() {
		n.waits = time.Now()
	}
	return time.Since(n.waits) > gpuWait()
}

// billing is Vast.ai's: a GPU costs while the instance runs and not while it loads, its disk for as long as it exists (fact
// sheet of Vast.ai, section 5).
var billing = driver.Billing{AfterLaunch: true, FromLaunch: diskPart}

// chargedOffer returns the offer and the real price, as far as the instance reports them.
func chargedOffer(in instance) driver.Offer {
	o := driver.Offer{
		InstanceType: instanceType(in.GPUName, in.NumGPUs), Region: in.Geolocation, Country: countryOf(in.Geolocation), Host: hostOf(in.MachineID), Spot: in.IsBid,
		Accelerator: accelerator(in.GPUName, in.NumGPUs, 0), Billing: billing,
	}
	if in.DPHTotal != nil && *in.DPHTotal > 0 {
		o.HourlyUSD = driver.USD(*in.DPHTotal)
		o.Parts = partsOf(o.HourlyUSD, in.DiskSpace*or(in.StorageCost, 0)/hoursPerMonth)
	}
	return o
}

// stateOf maps the API's states. No pool stops an instance: a stopped one lost its bid, or its
// account has no credit. The text of status_msg may be old, and counts only if it explains why
// a container cannot be made.
func stateOf(in instance) (driver.InstanceState, string) {
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
		return driver.InstancePreempted, "outbid, and stopped: its disk is billed until it is destroyed"
	case stopped, status == "stopped", status == "frozen":
		return driver.InstanceStopped, why
	}
	switch status {
	case "", "rebooting":
		return driver.InstancePending, why
	case "created", "loading":
		for _, fatal := range []string{"OCI runtime create failed", imageDenied, "no space left on device"} {
			if strings.Contains(message, fatal) {
				return driver.InstanceFailed, why
			}
		}
		if strings.HasPrefix(message, "Error") {
			return driver.InstanceFailed, why
		}
		return driver.InstancePending, why
	case "running":
		return driver.InstanceRunning, why
	case "exited", "unknown", "offline":
		return driver.InstanceFailed, status + ": " + why
	}
	return driver.InstanceUnknown, status
}

// portsOf returns the addresses of an instance's TCP ports, which Vast maps to random ones of its
// machine. None are known until it runs.
func portsOf(in instance) map[int]string {
	host, ports := strings.TrimSpace(in.PublicIPAddr), map[int]string{}
	for name, at := range in.Ports {
		private, err := strconv.Atoi(strings.TrimSuffix(name, "/tcp"))
		if err != nil || host == "" || len(at) == 0 {
			continue
		}
		if public, err := strconv.Atoi(strings.TrimSpace(at[0].HostPort)); err == nil && public > 0 {
			ports[private] = net.JoinHostPort(host, strconv.Itoa(public))
		}
	}
	return ports
}

// sshAddr returns the address of the SSH server: a port of the host if it has one, else Vast's
// proxy, unless directOnly is set.
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

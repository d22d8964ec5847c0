package jarvislabs

import (
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
)

// stateOf maps the API's states. No pool pauses anything: what is paused has lost its spot
// place, or its account's balance has run out, and its disk is billed. A spot machine that is
// being destroyed has lost its place, too, unless it was ended here, which shows when it is gone.
func stateOf(status string, spot bool) (state gputrain.InstanceState, why string) {
	switch strings.ToLower(status) {
	case "creating", "resuming":
		return gputrain.InstancePending, status
	case "running":
		return gputrain.InstanceRunning, status
	case "pausing", "paused":
		if spot {
			return gputrain.InstancePreempted, status + ": its disk is billed until it is destroyed"
		}
		return gputrain.InstanceStopped, status + ", as where the balance has run out: its disk is billed until it is destroyed"
	case "failed":
		return gputrain.InstanceFailed, status
	case "destroying", "destroyed":
		if spot {
			return gputrain.InstancePreempted, status
		}
		return gputrain.InstanceTerminated, status
	}
	return gputrain.InstanceUnknown, status
}

// endpoint is where a machine's SSH server is. What it says is old unless the machine runs.
func endpoint(in instance) gputrain.Endpoint {
	user, addr, ok := parseSSH(in.ssh())
	if ip := string(in.PublicIP); !ok && in.isVM() && ip != "" {
		user, addr, ok = "", net.JoinHostPort(ip, "22"), true
	}
	switch {
	case !ok:
		return gputrain.Endpoint{}
	case user == "" && in.isVM():
		user = "ubuntu"
	case user == "":
		user = "root"
	}
	return gputrain.Endpoint{Addr: addr, User: user}
}

// parseSSH reads the command line of an SSH client, where the port may come before or after
// the host: "ssh -o StrictHostKeyChecking=no -p 11014 root@sshn.example.net".
func parseSSH(command string) (user, addr string, ok bool) {
	fields := strings.Fields(command)
	if len(fields) < 2 || fields[0] != "ssh" {
		return "", "", false
	}
	host, port := "", "22"
	for i := 1; i < len(fields); i++ {
		f := fields[i]
		switch {
		case len(f) == 2 && f[0] == '-' && strings.Contains("bcDEeFIiJLlmOopQRSWw", f[1:]): // and its value
			i++
			if i == len(fields) {
				return "", "", false
			}
			switch f {
			case "-p":
				port = fields[i]
			case "-l":
				user = fields[i]
			}
		case strings.HasPrefix(f, "-p"):
			port = f[2:]
		case strings.HasPrefix(f, "-"):
		case host == "":
			host = f
			if at := strings.LastIndex(f, "@"); at >= 0 {
				user, host = f[:at], f[at+1:]
			}
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/[]@%") {
		return "", "", false
	}
	return user, net.JoinHostPort(host, port), true
}

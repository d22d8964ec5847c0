package jarvislabs

import (
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// stateOf maps the API's states. No pool pauses anything: a paused machine was preempted, or
// its account's balance has run out, and its disk is billed. A spot machine that is being
// destroyed was preempted, too, unless this driver ended it, which shows once it is gone.
func stateOf(status string, spot bool) (state driver.InstanceState, why string) {
	switch strings.ToLower(status) {
	case "creating", "resuming":
		return driver.InstancePending, status
	case "running":
		return driver.InstanceRunning, status
	case "pausing", "paused":
		if spot {
			return driver.InstancePreempted, status + ": its disk is billed until it is destroyed"
		}
		return driver.InstanceStopped, status + ", for example because the balance has run out: its disk is billed until it is destroyed"
	case "failed":
		return driver.InstanceFailed, status
	case "destroying", "destroyed":
		if spot {
			return driver.InstancePreempted, status
		}
		return driver.InstanceTerminated, status
	}
	return driver.InstanceUnknown, status
}

// endpoint returns the address of a machine's SSH server. It is outdated unless the machine
// runs.
func endpoint(in instance) driver.Endpoint {
	user, addr, ok := parseSSH(in.ssh())
	if ip := string(in.PublicIP); !ok && in.isVM() && ip != "" {
		user, addr, ok = "", net.JoinHostPort(ip, "22"), true
	}
	switch {
	case !ok:
		return driver.Endpoint{}
	case user == "" && in.isVM():
		user = "ubuntu"
	case user == "":
		user = "root"
	}
	return driver.Endpoint{Addr: addr, User: user}
}

// parseSSH reads the command line of an SSH client, in which the port may come before or after
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
		case len(f) == 2 && f[0] == '-' && strings.Contains("bcDEeFIiJLlmOopQRSWw", f[1:]): // with its value
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

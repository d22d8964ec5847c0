package novita

import (
	"net"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// endpoint returns the endpoint of an instance, through Novita's proxy. Port and password
// change with every start. It is empty while the instance's SSH server does not run.
func (in instance) endpoint(allowed bool) driver.Endpoint {
	command, password := in.SSH.Command, in.SSH.Password
	if command == "" {
		command, password = in.SSHCommand, in.SSHPassword
	}
	if in.SSH.IsRunning != nil && !*in.SSH.IsRunning {
		return driver.Endpoint{}
	}
	addr, user, ok := parseSSH(command)
	if !ok {
		return driver.Endpoint{}
	}
	return driver.Endpoint{Addr: addr, User: user, Password: driver.Secret(password), PasswordAtFirstContact: allowed}
}

// parseSSH reads a command line such as "ssh -p 32787 root@proxy.example.com". The port may
// come after the host. The defaults are port 22 and user root.
func parseSSH(command string) (addr, user string, ok bool) {
	words := strings.Fields(command)
	if len(words) == 0 || words[0] != "ssh" {
		return "", "", false
	}
	host, port := "", "22"
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-p":
			if i++; i == len(words) {
				return "", "", false
			}
			port = words[i]
		case strings.HasPrefix(w, "-p"):
			port = w[2:]
		case strings.HasPrefix(w, "-o"): // for the user's own computer
			if w == "-o" {
				i++
			}
		case strings.HasPrefix(w, "-") || host != "":
			return "", "", false
		default:
			host = w
		}
	}
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, host = host[:at], host[at+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/[]") || strings.ContainsAny(user, "@:") {
		return "", "", false
	}
	if user == "" {
		user = "root"
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), user, true
}

// Package ssh makes pools of machines that exist already: servers in a lab, workstations,
// machines rented by other means. It adopts them as they are, never starts, stops or pays for
// them, and leaves them as they were.
//
//	lab := ssh.Config{Hosts: []ssh.Host{
//		{Addr: "gpu1.lab", HostKey: "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"},
//		{Addr: "gpu2.lab:2222", User: "me", KeyFile: "~/.ssh/lab"},
//	}}
//	pool, err := gputrain.Open(ctx, lab, gputrain.Spec{Nodes: 2})
//
// # At a glance
//
//   - GPUs: whatever your hosts have, which are adopted and left as found.
//   - Spot: no.
//   - Regions: none.
//   - Credentials: an SSH server, a POSIX sh.
//   - Billing: free.
//   - Private network: no.
//   - Ends itself: no: its tasks end, the machine stays.
//   - Host key pinned by: the user's word: known_hosts or a fingerprint.
//   - Tags: no: the place in [Config].Hosts.
//   - Tried against: OpenSSH 9.2.
//
// # What a host needs
//
// An SSH server that lets the user in by key, and /bin/sh. The user's login shell may be another
// one, such as zsh, csh or fish, and its start files may print. Only the Spec's Image installs
// anything on a host.
//
// # Authentication
//
// The user logs in with [Host.KeyFile]; without one, with what ssh(1) would try: the keys of the SSH
// agent, and those of ~/.ssh (id_rsa, id_ecdsa, id_ed25519), with the certificates beside them. An
// agent that has no keys, or has ended, is no fault if a file does. A server allows few keys for
// each connection: further ones are tried in another. A key with a passphrase must be in the agent.
//
// [Host.HostKey] verifies a host, or else the known_hosts file, to which one connection with
// ssh(1) adds the host. Names are compared as ssh(1) does: in any case, by patterns, and without
// a port if none has it. A line that cannot be read takes nothing from the others. A host that neither names, or whose key differs, is refused. This
// prints the fingerprint on the host:
//
//	ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
//
// # As ssh(1) is configured
//
// What a [Host] leaves empty is as ~/.ssh/config has it: the name, user, port, keys and known_hosts file of a Host or Match entry,
// and the hosts on the way (ProxyJump), which [Config.Jump] names otherwise. ssh(1) itself reads the file, by ssh -G, so it must be
// installed; without it, the offer has a warning. A host's ID is its Addr, and does not change with the file. A connection goes
// through the hosts on the way by their forwarding or, if they forbid that, by a program there that passes bytes on.
//
// # Which node is where
//
// Nodes take the hosts in their order. A replacement takes a host that the pool has not used
// yet, if there is one. A host that is listed twice carries up to two nodes. Amounts in a Spec
// (VCPUs, memory, accelerators) are unknown until a host is reached, so they choose nothing
// here.
//
// # What can go wrong
//
// A host is up, or it is not: a certain failure is reported after one attempt, and the host is
// not tried again for ten minutes. Its node gets another free host, if there is one, up to
// Spec.MaxReplacements times.
//
//   - [driver.ErrNoCapacity]: there are fewer hosts than nodes. No host was asked.
//   - [driver.ErrHostKey]: the host shows another key than HostKey or the known_hosts file has,
//     or the file does not name it. Nothing was sent to it. Reported at once.
//   - [driver.ErrAuth]: the host does not let the user in with this key. Reported at once.
//   - [driver.ErrUnavailable]: the port was refused, the name unknown, or the host unreachable
//     for five seconds, as an SSH server may be restarting; or nothing answered for a minute.
//     The pool waits a minute for a host that was its node before, which may be restarting, and
//     tries again.
//   - [driver.ErrUnsupported]: ~/.ssh/config has a ProxyCommand for the host. Name the hosts on the way in [Config.Jump].
//   - [driver.ErrNoOffers]: the host has less than the Spec asks for.
//
// # What stays behind
//
// Nothing, once the pool is closed or its lease has run out: its folder under the user's home
// is removed and its processes are ended. [Config.KeepCache] leaves the cache, so that the next
// pool copies and installs less.
package ssh

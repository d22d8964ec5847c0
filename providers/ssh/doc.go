// Package ssh makes pools of machines that exist already: servers in a lab,
// workstations, machines rented by other means. They are adopted as they are,
// never started, stopped or paid for, and left as they were found.
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
// An SSH server that lets the user in by key, and a POSIX shell. Nothing is
// installed on a host but what the Spec's Image asks for.
//
// # Who is who
//
// The user proves themselves with [Host.KeyFile]; without one, with the keys
// of the SSH agent; without an agent, with the first of ~/.ssh/id_ed25519,
// ~/.ssh/id_ecdsa and ~/.ssh/id_rsa. A key with a passphrase has to be in the
// agent.
//
// A host proves itself with [Host.HostKey], or else by the known_hosts file:
// connecting to it once with ssh(1) puts it there. A host that neither names,
// or whose key is another, is refused. The fingerprint is what this prints on
// the host:
//
//	ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
//
// # Which node is where
//
// Nodes take the hosts in their order; a replacement takes one that the pool
// has not used yet, if there is any. A host that is listed twice carries up to
// two nodes. Amounts in a Spec (VCPUs, memory, accelerators) are not known
// before a host is reached, and so choose nothing here.
//
// # What can go wrong
//
// A host is up, or it is not: what is certain is said after one attempt, and the host is
// not tried again for ten minutes. Its node gets another host that no node has, if there
// is one, as often as Spec.MaxReplacements says.
//
//   - [gputrain.ErrNoCapacity]: there are fewer hosts than nodes. No host was asked.
//   - [gputrain.ErrHostKey]: the host shows another key than HostKey or the known_hosts file has, or the file does not
//     name it. Nothing was sent to it. At once.
//   - [gputrain.ErrAuth]: the host does not let the user in with this key. At once.
//   - [gputrain.ErrUnavailable]: the port was refused, the name unknown, or no way led to the host, for five seconds,
//     as an SSH server may be starting again; or nothing answered for a minute. A host that was a node of this pool
//     before, and may be restarting, is waited for a minute, and tried again.
//   - [gputrain.ErrNoOffers]: the host has less than the Spec asks for.
//
// # What stays behind
//
// Nothing, once the pool is closed or its lease has run out: its folder under
// the user's home is removed and its processes are ended. [Config.KeepCache]
// leaves the cache, so that the next pool copies and installs less.
package ssh

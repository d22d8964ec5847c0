// Package container runs the nodes of a pool as containers of the engine that is
// here already: Docker, podman, nerdctl, or Apple's container. They cost nothing,
// and what passes on them passes in a cloud, for every node is a real machine
// as far as the pool can see: a real OpenSSH server, a host name, an address, a
// network of its own.
//
//	pool, err := gputrain.Open(ctx, container.Config{}, gputrain.Spec{Nodes: 4})
//
// # At a glance
//
//   - GPUs: this machine's: containers of docker, podman, nerdctl or Apple's container.
//   - Spot: no.
//   - Regions: none.
//   - Credentials: an engine.
//   - Billing: free.
//   - Private network: yes.
//   - Ends itself: yes, by its lease.
//   - Host key pinned by: the pool's own key, put in at start.
//   - Tags: yes: labels.
//   - Tried against: Docker 20.10, podman 4.3; nerdctl and container by their documented output.
//
// # Image
//
// Any Debian-, Alpine- or Red-Hat-family image will do. One that has an SSH
// server is used as it is. Any other is made ready once, with its own package
// manager, and kept as localhost/gputrain/ready under a tag of its content. To
// give the disk back:
//
//	docker image rm $(docker image ls -q localhost/gputrain/ready)
//
// What Image.Apt, Python and Pip install is kept too, as localhost/gputrain/phases under a
// tag of the ready image and of what is installed. The first pool with an image goes
// through these phases once, in a container of its own, for all of its nodes; later pools
// start from what was kept, with the versions that were current then. No key, file,
// variable or task of a pool enters that container, but what pip, uv, proxies and compilers
// read of Image.Env: if that may hold a secret, as an index's password, or if RunArgs is
// set, the phases run on the nodes. Include and Setup always do. A phase that fails is kept
// nowhere. The ten latest images stay; to give the disk back, and to have newer versions
// installed:
//
//	docker image rm $(docker image ls -q localhost/gputrain/phases)
//
// The default is [DefaultImage]. If that is not here and cannot be pulled, it is
// [HomeMadeImage], which the repository's scripts/container-image makes from Debian's
// packages.
// Entry point, user and health of the image play no part: a node runs sshd, and
// tasks run as root, in the image's environment.
//
// # What a node is
//
// The engine's init as process 1, and sshd below it. Everything secret (the
// node's host key) enters by the container's standard input at its start, and so
// is in no argument, label or variable that the engine would show. SSH is
// published on 127.0.0.1 only, on a port that the engine picks. An engine on
// another machine (DOCKER_HOST, a context) has no such port: there, the pool's
// connections run through "docker exec", and nothing is published at all.
//
// A node gets exactly the vCPUs and the memory of the spec, without swap.
// Spec.DiskGiB makes a disk of that size on btrfs and zfs, and is no more than a
// check elsewhere: engines cannot limit it. A mount's source is an absolute path
// on the engine's machine, or the name of a volume.
//
// Every node has a name on the pool's network, and an alias by its rank: node-0,
// node-1. Containers, and the network, carry the labels gputrain.pool,
// gputrain.owner, gputrain.created, gputrain.lease (in seconds) and
// gputrain.expires, by which another program finds those of every pool. A node that ends, or ends itself because
// its program is gone, is removed by its engine. One that is restarted ends: what
// ran on it is lost. The network of a program that was killed stays behind, as
// no node may touch the engine. To remove those that nothing uses:
//
//	docker network prune --filter label=gputrain.pool
//
// # What is verified
//
// Docker is tested for real, locally and as a remote engine over TCP, and so is
// podman where it is installed, with an image made from Debian's packages.
// Alpine's apk is tested against a stand-in in a busybox image. The commands for
// dnf, microdnf and yum, and the answers of nerdctl and of Apple's container,
// follow their documentation. nerdctl has no aliases; Apple's engine has neither
// these nor a size for shared memory, and its nodes reach each other by address.
package container

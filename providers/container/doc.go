// Package container runs the nodes of a pool as containers of the engine on this machine:
// Docker, podman, nerdctl, or Apple's container. They cost nothing. A program that works on
// them works in a cloud: the pool sees real machines, each with a real OpenSSH server, a host
// name, an address and a network of its own.
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
//   - Tags: yes: labels, also for Spec.Tags.
//   - Tried against: Docker 20.10, podman 4.3; nerdctl and container by their documented output.
//
// # Image
//
// Any image of the Debian, Alpine or Red Hat family will do. An image with an SSH server is
// used as it is. Any other is made ready once, with its own package manager, and kept as
// localhost/gputrain/ready under a tag of its content. To free the disk space:
//
//	docker image rm $(docker image ls -q localhost/gputrain/ready)
//
// The packages of Image.Apt, Python, Pip and Requirements are kept too, as localhost/gputrain/phases under a
// tag of the ready image and of the packages. The first pool with an image runs these phases
// once, in a container of its own, for all of its nodes. Later pools start from the kept image,
// with the versions of that time. No key, file, variable or task of a pool enters that
// container, except the variables of Image.Env that pip, uv, proxies and compilers read. If
// those may hold a secret, such as an index's password, or if Image.Before or RunArgs is set, the
// phases run on the nodes. Include and Setup always do. A failed phase is not kept. The ten latest images
// stay. To free the disk space, and to get newer versions:
//
//	docker image rm $(docker image ls -q localhost/gputrain/phases)
//
// [gputrain.Bake] keeps a whole node, with its files and Setup commands, as localhost/gputrain/baked
// under a tag of the content, of the image that nodes start from, and of [Config].User; Docker and podman
// can, and only without RunArgs. An image has no label of the node that it was made of, except as
// gputrain.baked. Until it is finished it is localhost/gputrain/baking under its pool's ID, and ends with
// that pool. gputrain.DeleteBaked removes the tag; the engine keeps the layers that nodes use.
//
// The default is [DefaultImage]. If the engine neither has that nor can pull it, the default is
// [HomeMadeImage], which the repository's scripts/container-image makes from Debian's packages.
// The image's entry point, user and health check have no effect: a node runs sshd, and tasks
// run as root, or as [Config].User, in the image's environment. That user owns the Python
// environment. System packages are root's: if they are not installed in the kept image, as with
// RunArgs, such a node cannot install them itself.
//
// # What a node is
//
// Process 1 is the engine's init, with sshd below it. The only secret, the node's host key,
// enters by the container's standard input at its start, so that no argument, label or variable
// shows it. SSH is published on 127.0.0.1 only, on a port that the engine picks. An engine on
// another machine (DOCKER_HOST, a context) has no such port: the pool's connections then run
// through "docker exec", and nothing is published.
//
// A node gets exactly the vCPUs and the memory of the spec, without swap. Spec.DiskGiB makes a
// disk of that size on btrfs and zfs. Elsewhere it is only checked, as engines cannot limit it.
// A mount's source is an absolute path on the engine's machine, or the name of a volume.
//
// Every node has a name on the pool's network, and an alias by its rank: node-0, node-1. With
// [Config].Network nodes join a network of the user's, which other pools and containers may
// share, and have no alias by rank. With [Config].NamePrefix only the engine shows another name:
// the node's is an alias.
//
// Containers and the network carry the labels gputrain.pool, gputrain.owner, gputrain.created,
// gputrain.lease (in seconds) and gputrain.expires, by which another program finds those of
// every pool. The engine removes a node that ends, or that ends itself because its program is
// gone. A restarted node ends: its tasks are lost. The network of a killed program remains, as
// no node may touch the engine. To remove unused ones:
//
//	docker network prune --filter label=gputrain.pool
//
// # GPUs
//
// [Config].GPUs gives all nodes the same GPUs. With [Config].OwnGPUs each node has its own:
//
//	engine := container.Config{OwnGPUs: []string{"0", "1", "2", "3"}}
//	pool, err := gputrain.Open(ctx, engine, gputrain.Spec{Nodes: 2, Accelerator: accelerators.A100(accelerators.Count(2))})
//
// A node's GPUs are noted in the label gputrain.gpus of its container, so that no node of
// another pool or program on that engine gets them until the container is gone. Containers that
// another tool starts are not known.
//
// # What is verified
//
// Docker is tested for real, locally and as a remote engine over TCP, and so is podman if it is
// installed, with an image made from Debian's packages. OwnGPUs are tested on an engine that is a
// script, as no tested one has GPUs. Alpine's apk is tested against a
// stand-in in a busybox image. The commands for dnf, microdnf and yum, and the answers of
// nerdctl and of Apple's container, follow their documentation. nerdctl has no aliases. Apple's
// engine has neither aliases nor a size for shared memory; its nodes reach each other by
// address.
package container

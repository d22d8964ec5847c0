// Package slurm runs the nodes of a pool as jobs of a Slurm cluster: that of a lab, a university or
// a company. It needs a login on the cluster by SSH, and nothing in the cluster: no daemon, no
// installed program, no file on a shared home.
//
//	lab := slurm.Config{Login: ssh.Host{Addr: "login.lab"}, Partitions: []string{"gpu"}}
//	pool, err := gputrain.Open(ctx, lab, gputrain.Spec{
//		Nodes: 2, Accelerator: accelerators.A100(accelerators.Count(4)), TTL: 8 * time.Hour,
//	})
//
// # At a glance
//
//   - GPUs: those of the cluster's nodes, by their GRES types; [Config].GPUNames names others.
//   - Spot: yes, in partitions that are preempted for others: [Config].PreemptiblePartitions.
//   - Regions: the partitions: [Config].Partitions.
//   - Credentials: a login by SSH: a key file, or the agent (SSH_AUTH_SOCK).
//   - Billing: free, or as [Config].HourlyUSD says, while a job runs; "scancel" ends it.
//   - Private network: yes: compute nodes reach each other, unless the site forbids high ports.
//   - Ends itself: yes, by its lease; the cluster ends it at its time limit.
//   - Host key pinned by: the cloud's word: the job makes the key and puts it into its comment.
//   - Tags: yes: the comments of jobs, also for Spec.Tags.
//   - Tried against: Slurm 22.05 with two nodes whose GPUs have no driver, and a fake.
//
// # What a node is
//
// A node is a job of its own, on one compute node, named "gputrain-" and the node's name. Its batch
// script runs an SSH server of the user's own, with a host key that is made there and never leaves
// the node. The job's comment has the pool, the owner, the lease, and the server's address and key,
// by which any program of the user finds it:
//
//	squeue --me --format='%i %j %T %r %k'
//
// Tasks run in the job: they see its GPUs, processors and memory alone, and end with it. Their HOME
// is a folder of the job, local to the node (WorkDir), which is removed with the job: nothing is
// written to the shared home. Compute nodes need bash, OpenSSH 7.8 or later and Slurm's commands.
//
// Only sbatch, squeue, sinfo, scontrol, scancel, sacct and srun are used. If the login's PATH lacks
// sinfo, they are looked for once where a login shell of the user finds it, with its LD_LIBRARY_PATH
// and SLURM_CONF; [Config].Path names their folder else. They run over one SSH connection to
// the login node, which is reopened when it is cut. It carries the connections to nodes too. While
// it cannot be reached, nothing is believed about jobs. A step of srun takes a session of that
// connection each: a server that allows few (MaxSessions) gets more connections then. One answer of squeue serves all nodes.
//
// # Queue
//
// There is an offer for each partition, type of GPU and number of them on a node. If there is room
// for fewer nodes than the pool wants, jobs wait in the queue, for [Config].QueueTimeout at most.
// That is the pool's wait for capacity: events have Slurm's reason, and its estimate of the start.
// In a group (gputrain.FirstOf), the next provider is tried at once after that, for the nodes that have no room; and
// nothing waits in the queue a second time:
//
//	gputrain.FirstOf(slurm.Config{Login: login, QueueTimeout: 10 * time.Minute}, runpod.Config{})
//
// A job whose reason never passes is cancelled at once: with [driver.ErrQuota] for limits of a QOS or an
// association, if a second look finds the same, and with [driver.ErrInvalid] for the limits of a
// partition, or an account that may not use it. Whether an account may have a job shows only when
// it is submitted.
//
// # Time
//
// Each job has a time limit: [Config].TimeLimit, or the pool's TTL, or that of its partition. So the
// cluster ends it whatever happens to the program. A node that ends by it is replaced if the pool's
// spec allows. A job also has a deadline by which it must have waited and run. One that starts after its program was killed ends
// after one lease, unless gputrain.Reap cancels it before.
//
// A preempted node has notice: its job's end, which Slurm sets when it selects the job, comes as
// the time of its preemption. With preempt_send_user_signal in SlurmctldParameters the job also hears of it by a signal.
//
// # Ways to a node
//
// The login node's SSH server connects to the job's (AllowTcpForwarding). If it forbids that, a step
// of the job (srun --overlap, Slurm 20.11 or later) carries the bytes from then on: [Config].Reach.
// On the login node itself ([Config].Local) nodes are reached by TCP.
//
// # Files and images
//
// Spec.Mounts name paths of the site's shared file systems, as compute nodes see them. With a Target
// that is the Source, the job checks that the path exists. Another Target is a symbolic link, which
// a job can make only below /tmp, /var/tmp, /dev/shm and a WorkDir without variables. ReadOnly needs a Container.
//
// Image.Apt and Image.Docker are refused, as a job is not root and has no Docker. [Config].Setup has lines such
// as "module load cuda", whose variables reach the tasks. [Config].Container is an image for pyxis
// or apptainer, in which the SSH server and all tasks run. The commands for both follow their
// documentation and were tested with stand-ins, not with the real ones.
//
// # What can go wrong
//
//   - A cluster with ProctrackType linuxproc does not end processes that left their job. The job's
//     script ends those with the job's number in their environment. If it is killed by KILL, they stay until the
//     user's next job on the node, which ends them and removes its folder.
//   - A site that lets no job change its comment cannot be used: the node has no address.
//   - A site that puts its own text into comments loses owner, lease and tags until the job starts; the pool is
//     known by the job's name.
//   - Without accounting, a job that was forgotten (MinJobAge) is reported as ended, for no reason
//     but the last one seen.
//   - GPUs without a type in sinfo are taken to be what the spec asks for, and checked once the node
//     runs.
//
// All nodes of a job that must start together (one sbatch for several nodes) are not supported:
// each node is a job, and a gang starts when all are there.
package slurm

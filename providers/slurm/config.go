package slurm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Config rents nodes of a cluster as jobs of its queue. Open refuses the zero value: it needs
// Login or Local.
type Config struct {
	// Login is the login node, on which sbatch works. Without a KeyFile it is the SSH agent of
	// SSH_AUTH_SOCK, or a key of ~/.ssh: its fields mean what they mean in
	// [ssh.Host]; Labels have no effect.
	Login ssh.Host
	// Jump are the hosts on the way to the login node, in this order. Empty means those of a
	// ProxyJump for it in ~/.ssh/config, if there are any.
	Jump []ssh.Host
	// Local is true if this program runs on the login node: commands run here, and nodes are
	// reached over TCP. Login and Jump are then empty.
	Local bool
	// Path are the folders of Slurm's commands on the login node, in the form of PATH, whose
	// own come after them: "/opt/slurm/bin". Empty means those of PATH, and if sinfo is not in
	// them, those of the login shell's, which reads /etc/profile and ~/.bash_profile.
	Path string

	// Partitions are the partitions that are offered, each as a region. Empty means the
	// cluster's default.
	Partitions []string
	// Account, QOS, Constraint and Reservation are sbatch's options of these names. Empty means
	// that the option is not given.
	Account, QOS, Constraint, Reservation string
	// Clusters is the cluster's name for --clusters, if the login node serves several. Empty
	// means its own.
	Clusters string

	// GPUNames maps types of GPUs, as sinfo shows them, to names of accelerators:
	// {"nvidia_h100_80gb_hbm3": "H100"}. If a partition's GPUs have no type, the key is
	// "partition:" and its name. Types that are missing are read as names.
	GPUNames map[string]string
	// CPUsPerGPU and MemoryPerGPUGiB come with each GPU if the spec asks for no VCPUs, or no
	// MemoryGiB. Zero means what the site gives by default.
	CPUsPerGPU      int
	MemoryPerGPUGiB float64
	// Exclusive is true if a node is not shared with other jobs: --exclusive, and all of its
	// memory unless the spec or MemoryPerGPUGiB says how much.
	Exclusive bool

	// TimeLimit bounds a job's life, in whole minutes, rounded up; so does the spec's TTL, and
	// the smaller one counts. If both are zero, it is the partition's MaxTime; if that is
	// unlimited, its DefaultTime; and else 24 hours.
	TimeLimit time.Duration
	// QueueTimeout bounds the time for which a job waits in the queue: it is then cancelled, and
	// counts as one for which there was no capacity. The pool then asks the other places of its
	// group, and fails if there are none, unless it waits (Spec.WaitForCapacity). Zero means 30 minutes.
	QueueTimeout time.Duration

	// Container is the image in which tasks run: a path that ends in .sif is one for apptainer,
	// anything else is a name for pyxis. It must have an SSH server. Empty means that tasks run
	// on the node itself.
	Container string
	// Setup are lines for bash that run before the SSH server starts: "module load cuda".
	// Variables that they export reach the tasks.
	Setup []string
	// WorkDir is the folder of the node in which the job makes its own, with the tasks' home. It
	// may have variables of the job: "/scratch/$USER". It must be local to the node. Who
	// may rename what is in it, its owner and its group if that may write, can act as you on the node: it may be a project's, but
	// not another user's in a folder that everybody may write to. Empty means ${TMPDIR:-/tmp}, if it is yours or root's.
	WorkDir string
	// SSHD is the path of OpenSSH's server, 7.8 or later, on compute nodes. Empty means
	// /usr/sbin/sshd.
	SSHD string
	// Ports are the first and the last port at which the SSH servers of jobs may listen. The
	// zero value means 20000 to 31999.
	Ports [2]int
	// Reach is the way to a node. Empty means [ReachAuto].
	Reach Reach

	// PreemptiblePartitions are offered as spot. Nil means those that the cluster preempts for
	// others: with a PreemptMode of CANCEL or REQUEUE, and the lowest PriorityTier.
	PreemptiblePartitions []string
	// HourlyUSD are prices by partition, in US dollars for an hour of a GPU. The key "cpu" has
	// the price of an hour of a CPU, for jobs without GPUs. Empty means that the cluster is
	// free; in another map, a missing partition has no known price.
	HourlyUSD map[string]float64
	// SbatchArgs are further options of sbatch, each as one text: "--mail-type=FAIL". Those that
	// the driver itself gives are refused.
	SbatchArgs []string

	// CommandTimeout bounds each command on the login node. Zero means 30 seconds.
	CommandTimeout time.Duration
	// PollInterval is the time for which an answer of squeue, which is about all jobs, serves
	// for all nodes. Zero means 5 seconds while one waits in the queue, or comes up, and 15 else;
	// and less for a job that was just submitted.
	PollInterval time.Duration
}

// Reach is the way in which a node is reached.
type Reach string

const (
	// ReachAuto is ReachForward and, if the login node forbids that, ReachStep from then on.
	ReachAuto Reach = "auto"
	// ReachForward is a TCP connection that the login node's SSH server makes to the node.
	ReachForward Reach = "forward"
	// ReachStep is a step of the job: srun on the login node carries the bytes. It is slower,
	// and needs no port that the login node can reach.
	ReachStep Reach = "step"
)

const (
	providerName          = "slurm"
	defaultQueueTimeout   = 30 * time.Minute
	defaultTimeLimit      = 24 * time.Hour
	defaultCommandTimeout = 30 * time.Second
	defaultWorkDir        = "${TMPDIR:-/tmp}"
	defaultSSHD           = "/usr/sbin/sshd"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "slurm".
func (Config) Name() string { return providerName }

// Open checks the configuration, logs in, and reads what the cluster is. It submits nothing.
// One error names all faults of the configuration.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.complete()
	sh, user, err := c.shell()
	if err != nil {
		return nil, fail("open", err)
	}
	d := newDriver(c, sh, user)
	if d.partitions, err = d.learn(ctx); err != nil {
		d.Close()
		return nil, fail("open", err)
	}
	return d, nil
}

// complete returns a copy with the defaults filled in, which shares nothing with c.
func (c Config) complete() Config {
	c.Jump, c.Partitions, c.Setup = slices.Clone(c.Jump), slices.Clone(c.Partitions), slices.Clone(c.Setup)
	c.PreemptiblePartitions, c.SbatchArgs = slices.Clone(c.PreemptiblePartitions), slices.Clone(c.SbatchArgs)
	c.GPUNames, c.HourlyUSD = maps.Clone(c.GPUNames), maps.Clone(c.HourlyUSD)
	c.QueueTimeout = cmp.Or(c.QueueTimeout, defaultQueueTimeout)
	c.CommandTimeout = cmp.Or(c.CommandTimeout, defaultCommandTimeout)
	c.WorkDir = cmp.Or(c.WorkDir, defaultWorkDir)
	c.SSHD = cmp.Or(c.SSHD, defaultSSHD)
	c.Ports = cmp.Or(c.Ports, [2]int{20000, 31999})
	c.Reach = cmp.Or(c.Reach, ReachAuto)
	return c
}

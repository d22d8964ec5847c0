// Package launcher says how the processes of a gang are started: by which environment variables they find each other,
// and what a launcher such as mpirun needs on the nodes. Nothing here runs a process but [Relay], which hands on what
// mpirun asks for.
package launcher

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
)

// A Launcher is a program, or gputrain itself, that starts the processes of a gang.
type Launcher int

const (
	// Processes means that gputrain starts each process itself.
	Processes Launcher = iota
	// Torchrun means that the command is torchrun, or runs it, once per node.
	Torchrun
	// MPI means that mpirun of Open MPI starts all processes from the first node.
	MPI
)

// String returns the launcher as a user sets it: "Torchrun".
func (l Launcher) String() string {
	switch l {
	case Processes:
		return "Processes"
	case Torchrun:
		return "Torchrun"
	}
	return "MPI"
}

// A Gang is one attempt of a training.
type Gang struct {
	// Training is its name. Attempt counts from 1.
	Training string
	Attempt  int
	// Port is the port of the first node at which the processes meet. No other attempt beside this one has it.
	Port int
	// Processes is the number of processes on each node.
	Processes int
	// Addrs are the addresses of the nodes in the network that they share, by rank. They are never names.
	Addrs []string
	// Interfaces are the network interfaces that have those addresses, each empty if its node has no other
	// interface. They may be nil.
	Interfaces []string
}

// World returns the number of processes.
func (g *Gang) World() int { return len(g.Addrs) * g.Processes }

// Env returns the variables of one process or, with [Torchrun] and [MPI], of all processes of a node, for which local is
// 0. They do not include those that are known only on the node: see [Gang.Command]. A task's own variables replace them.
func (g *Gang) Env(l Launcher, node, local int) map[string]string {
	env := map[string]string{
		"GPUTRAIN_TRAINING":    g.Training,
		"GPUTRAIN_ATTEMPT":     strconv.Itoa(g.Attempt),
		"GPUTRAIN_MASTER_PORT": strconv.Itoa(g.Port),
		"GPUTRAIN_PROCESSES":   strconv.Itoa(g.Processes),
		"GPUTRAIN_WORLD_SIZE":  strconv.Itoa(g.World()),
		// A failed NCCL collective leaves a record of the last ones. The buffer's size has an older name.
		"TORCH_NCCL_DUMP_ON_TIMEOUT":   "1",
		"TORCH_FR_BUFFER_SIZE":         "2000",
		"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
	}
	if node < len(g.Interfaces) && g.Interfaces[node] != "" {
		env["NCCL_SOCKET_IFNAME"] = "=" + g.Interfaces[node] // without the = it would be a prefix
		env["GLOO_SOCKET_IFNAME"] = g.Interfaces[node]
	}
	switch l {
	case Processes:
		maps.Copy(env, g.processEnv(node, local))
	case Torchrun:
		maps.Copy(env, g.torchrunEnv(node))
	case MPI:
		maps.Copy(env, g.mpiEnv(node))
	}
	return env
}

// processEnv returns what libraries look for in a process that no launcher has started.
func (g *Gang) processEnv(node, local int) map[string]string {
	rank := strconv.Itoa(node*g.Processes + local)
	return map[string]string{
		"RANK":             rank,
		"WORLD_SIZE":       strconv.Itoa(g.World()),
		"LOCAL_RANK":       strconv.Itoa(local),
		"LOCAL_WORLD_SIZE": strconv.Itoa(g.Processes),
		"NODE_RANK":        strconv.Itoa(node),
		"MASTER_ADDR":      g.Addrs[0],
		"MASTER_PORT":      strconv.Itoa(g.Port),

		"JAX_COORDINATOR_ADDRESS": hostPort(g.Addrs[0], g.Port),
		"JAX_NUM_PROCESSES":       strconv.Itoa(g.World()),
		"JAX_PROCESS_ID":          rank,

		"TF_CONFIG": g.tensorflow(node, local),
	}
}

// tensorflow returns TensorFlow's description of the gang, in which each process is a worker with a port of its own.
func (g *Gang) tensorflow(node, local int) string {
	var b strings.Builder
	b.WriteString(`{"cluster":{"worker":[`)
	for rank := range g.World() {
		if rank > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(hostPort(g.Addrs[rank/g.Processes], g.Port+rank%g.Processes)))
	}
	fmt.Fprintf(&b, `]},"task":{"type":"worker","index":%d}}`, node*g.Processes+local)
	return b.String()
}

// torchrunEnv returns torchrun's flags as variables, so that the command stays as it is. Its rendezvous is static: the
// others wait for minutes if a node is gone. It restarts nothing: its restarts count per node.
func (g *Gang) torchrunEnv(node int) map[string]string {
	env := map[string]string{
		"PET_NNODES":           strconv.Itoa(len(g.Addrs)),
		"PET_NPROC_PER_NODE":   strconv.Itoa(g.Processes),
		"PET_NODE_RANK":        strconv.Itoa(node),
		"PET_MASTER_ADDR":      g.Addrs[0],
		"PET_MASTER_PORT":      strconv.Itoa(g.Port),
		"PET_RDZV_BACKEND":     "static",
		"PET_RDZV_ID":          fmt.Sprintf("%s-%d", g.Training, g.Attempt),
		"PET_MAX_RESTARTS":     "0",
		"PET_MONITOR_INTERVAL": "0.1", // older ones look at their processes every 5 s
	}
	if g.Processes <= 9 {
		// Python 3.11 breaks the default, 0, of torch 1.13. So local rank 9, which does not exist, has another value than
		// the default. These values can name no greater rank.
		env["PET_REDIRECTS"] = "9:1"
		env["PET_TEE"] = "9:1"
	}
	return env
}

// mpiEnv returns Open MPI's parameters. Release 5 has new names for some, and ignores the old ones.
func (g *Gang) mpiEnv(node int) map[string]string {
	env := map[string]string{
		"NODE_RANK":   strconv.Itoa(node),
		"MASTER_ADDR": g.Addrs[0],
		"MASTER_PORT": strconv.Itoa(g.Port),

		"OMPI_ALLOW_RUN_AS_ROOT":         "1",
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
		"PRTE_ALLOW_RUN_AS_ROOT":         "1",
		"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
	}
	set := func(value string, names ...string) {
		for _, name := range names {
			env[name] = value
		}
	}
	// The first node starts each daemon, and all of them at once: each agent stays for as long as its daemon.
	set("1", "OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn")
	set(strconv.Itoa(max(128, len(g.Addrs))), "OMPI_MCA_plm_rsh_num_concurrent", "PRTE_MCA_plm_ssh_num_concurrent")
	set("1", "OMPI_MCA_orte_leave_session_attached", "PRTE_MCA_prte_leave_session_attached")
	// Ranks fill the nodes in order, and a process may use all of its node's cores, as with other launchers.
	set("slot", "OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy")
	set("none", "OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
	if network := commonNetwork(g.Addrs); network != "" {
		set(network, "OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include")
	}
	return env
}

// commonNetwork returns the smallest IPv4 network that has all of the addresses, or "" if it is larger than any
// network that machines share.
func commonNetwork(addrs []string) string {
	var network netip.Prefix
	for _, text := range addrs {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() {
			return ""
		}
		bits := 32
		if network.IsValid() {
			bits = network.Bits()
		}
		for network = cmp.Or(network, netip.PrefixFrom(addr, 32)); bits >= 8; bits-- {
			network, _ = network.Addr().Prefix(bits)
			if network.Contains(addr) {
				break
			}
		}
		if bits < 8 {
			return ""
		}
	}
	return network.String()
}

// Hostfile returns the nodes in the form that mpirun and deepspeed read.
func (g *Gang) Hostfile() string {
	var b strings.Builder
	for _, addr := range g.Addrs {
		fmt.Fprintf(&b, "%s slots=%d\n", addr, g.Processes)
	}
	return b.String()
}

func hostPort(addr string, port int) string {
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + strconv.Itoa(port)
}

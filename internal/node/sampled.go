package node

// Sampled returns what runs commands where a node's accelerators can be sampled, and their names, as their vendor's variable has
// them. The machine is preferred to a container there: it has the vendor's tools mostly, and its kernel's log. A node without
// accelerators has no names.
func Sampled(n *Node) (Commands, []string) {
	devices := n.Devices()
	if facts := n.onMachine().Facts(); !n.container.runs() || facts.Tools["nvidia-smi"] || facts.AMD > 0 {
		return n.Client(), devices.ids
	}
	return n.Commands(), devices.ids
}

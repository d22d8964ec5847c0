// Package accelerators names GPUs and other devices.
package accelerators

// An Accelerator is a kind of device and how many of it. The zero value asks for none.
type Accelerator struct {
	// Name is the canonical name: "A100". Empty means none.
	Name string
	// Count is how many devices a node has. A fraction is a share of one device.
	Count float64
	// MemoryGiB is the memory of one device. Zero means whatever the name implies, or any.
	MemoryGiB float64
	// FormFactor is "PCIe", "SXM", "NVL", "OAM", or "" for any.
	FormFactor string
}

package cloud

import "github.com/gputrain/gputrain/accelerators"

// Accelerator returns the accelerator that a cloud means by a name, a number of devices and the
// memory of one, which may be 0 if unknown. It keeps a name that no table has, and one that was
// asked for exactly.
func Accelerator(provider, name string, count int, memoryGiB float64, asked accelerators.Accelerator) accelerators.Accelerator {
	if name == "" || count <= 0 {
		return accelerators.Accelerator{}
	}
	a, err := accelerators.ParseFrom(provider, name)
	if err != nil || a.IsZero() || asked.Exact && asked.Name == name {
		a = accelerators.Exact(name)
	}
	if a.Count > 0 && a.Count < 1 {
		return a // a share of one device: its name determines its memory
	}
	a.Count = float64(count)
	if memoryGiB > 0 {
		a.MemoryGiB = memoryGiB
	}
	return a
}

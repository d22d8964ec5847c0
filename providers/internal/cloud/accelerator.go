package cloud

import "github.com/gputrain/gputrain/accelerators"

// Accelerator is what a cloud means by a name, a number of devices and the memory of one,
// which may be 0 where that is not told. A name that no table knows, or that was asked for
// as it is, goes through.
func Accelerator(provider, name string, count int, memoryGiB float64, asked accelerators.Accelerator) accelerators.Accelerator {
	if name == "" || count <= 0 {
		return accelerators.Accelerator{}
	}
	a, err := accelerators.ParseFrom(provider, name)
	if err != nil || a.IsZero() || asked.Exact && asked.Name == name {
		a = accelerators.Exact(name)
	}
	if a.Count > 0 && a.Count < 1 {
		return a // a share of one device, whose memory is its name's to tell
	}
	a.Count = float64(count)
	if memoryGiB > 0 {
		a.MemoryGiB = memoryGiB
	}
	return a
}

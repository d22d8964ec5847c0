package accelerators

// An Option says more about an accelerator.
type Option func(*Accelerator)

// Count sets the number of devices per node: exactly so many. A fraction is a
// share of one device, or a larger one, if the cloud sells shares.
func Count(n float64) Option { return CountBetween(n, 0) }

// AtLeast sets the minimum number of devices per node.
func AtLeast(n float64) Option { return CountBetween(n, Unlimited) }

// CountBetween sets the minimum and the maximum number of devices per node.
func CountBetween(least, most float64) Option {
	return func(a *Accelerator) { a.Count, a.MaxCount = least, most }
}

// Memory sets the minimum memory of one device, or of the share of one, in GiB:
// 40 or 80 for an A100.
func Memory(gib float64) Option { return MemoryBetween(gib, 0) }

// MemoryBetween sets the minimum and the maximum memory of one device, in GiB.
// A maximum of 0 is none.
func MemoryBetween(least, most float64) Option {
	return func(a *Accelerator) { a.MemoryGiB, a.MaxMemoryGiB = least, most }
}

// TotalMemory sets the minimum memory of all of a node's devices together, in
// GiB.
func TotalMemory(gib float64) Option { return TotalMemoryBetween(gib, 0) }

// TotalMemoryBetween sets the minimum and the maximum memory of all of a node's
// devices together, in GiB. A maximum of 0 is none.
func TotalMemoryBetween(least, most float64) Option {
	return func(a *Accelerator) { a.TotalMemoryGiB, a.MaxTotalMemoryGiB = least, most }
}

// Vendor sets the maker: "NVIDIA", "AMD", "Intel", "AWS" or "Google".
func Vendor(name string) Option { return func(a *Accelerator) { a.Vendor = name } }

// Capability sets the minimum of CUDA's compute capability: 8.9.
func Capability(least float64) Option { return CapabilityBetween(least, 0) }

// CapabilityBetween sets the minimum and the maximum of CUDA's compute
// capability. A maximum of 0 is none.
func CapabilityBetween(least, most float64) Option {
	return func(a *Accelerator) { a.Capability, a.MaxCapability = least, most }
}

// Form sets the form factor: [PCIe], [SXM], [NVL] or [OAM].
func Form(factor string) Option {
	return func(a *Accelerator) {
		a.FormFactor = factor
		if f := canonicalForm(factor); f != "" {
			a.FormFactor = f
		}
	}
}

// Exact asks for a device by the provider's own identifier, if this package
// does not know it: accelerators.Exact("Tesla V100-FHHL-16GB"). It means
// nothing to other providers.
func Exact(id string, opts ...Option) Accelerator {
	a := of(id, opts)
	a.Exact = true
	return a
}

// Any asks for any device that satisfies the options, whatever it is called:
// accelerators.Any(accelerators.Memory(48), accelerators.Capability(8.9)).
func Any(opts ...Option) Accelerator { return of("", opts) }

func of(name string, opts []Option) Accelerator {
	a := Accelerator{Name: name, Count: 1}
	for _, opt := range opts {
		opt(&a)
	}
	return a
}

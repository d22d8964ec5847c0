package accelerators

// An Option says more about an accelerator.
type Option func(*Accelerator)

// Count sets the number of devices per node. A fraction is a share of one
// device, if the cloud sells shares.
func Count(n float64) Option { return func(a *Accelerator) { a.Count = n } }

// Memory sets the minimum memory of one device, or of the share of one, in GiB:
// 40 or 80 for an A100.
func Memory(gib float64) Option { return func(a *Accelerator) { a.MemoryGiB = gib } }

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

func of(name string, opts []Option) Accelerator {
	a := Accelerator{Name: name, Count: 1}
	for _, opt := range opts {
		opt(&a)
	}
	return a
}

package accelerators

// Every device that at least two clouds have has a function, so that the
// compiler checks its name. [Parse] knows the rest of the catalogue.

// NVIDIA, for data centres.

// K80 asks for a K80.
func K80(opts ...Option) Accelerator { return of("K80", opts) }

// M40 asks for an M40.
func M40(opts ...Option) Accelerator { return of("M40", opts) }

// P4 asks for a P4.
func P4(opts ...Option) Accelerator { return of("P4", opts) }

// P100 asks for a P100.
func P100(opts ...Option) Accelerator { return of("P100", opts) }

// V100 asks for a V100.
func V100(opts ...Option) Accelerator { return of("V100", opts) }

// T4 asks for a T4.
func T4(opts ...Option) Accelerator { return of("T4", opts) }

// A2 asks for an A2.
func A2(opts ...Option) Accelerator { return of("A2", opts) }

// A10 asks for an A10.
func A10(opts ...Option) Accelerator { return of("A10", opts) }

// A10G asks for an A10G.
func A10G(opts ...Option) Accelerator { return of("A10G", opts) }

// A16 asks for an A16.
func A16(opts ...Option) Accelerator { return of("A16", opts) }

// A30 asks for an A30.
func A30(opts ...Option) Accelerator { return of("A30", opts) }

// A40 asks for an A40.
func A40(opts ...Option) Accelerator { return of("A40", opts) }

// A100 asks for an A100.
func A100(opts ...Option) Accelerator { return of("A100", opts) }

// L4 asks for an L4.
func L4(opts ...Option) Accelerator { return of("L4", opts) }

// L40 asks for an L40.
func L40(opts ...Option) Accelerator { return of("L40", opts) }

// L40S asks for an L40S.
func L40S(opts ...Option) Accelerator { return of("L40S", opts) }

// H100 asks for an H100.
func H100(opts ...Option) Accelerator { return of("H100", opts) }

// H200 asks for an H200.
func H200(opts ...Option) Accelerator { return of("H200", opts) }

// GH200 asks for a GH200.
func GH200(opts ...Option) Accelerator { return of("GH200", opts) }

// B200 asks for a B200.
func B200(opts ...Option) Accelerator { return of("B200", opts) }

// B300 asks for a B300.
func B300(opts ...Option) Accelerator { return of("B300", opts) }

// GB200 asks for a GB200.
func GB200(opts ...Option) Accelerator { return of("GB200", opts) }

// GB300 asks for a GB300.
func GB300(opts ...Option) Accelerator { return of("GB300", opts) }

// AMD.

// MI250X asks for an MI250X.
func MI250X(opts ...Option) Accelerator { return of("MI250X", opts) }

// MI300X asks for an MI300X.
func MI300X(opts ...Option) Accelerator { return of("MI300X", opts) }

// MI325X asks for an MI325X.
func MI325X(opts ...Option) Accelerator { return of("MI325X", opts) }

// MI350X asks for an MI350X.
func MI350X(opts ...Option) Accelerator { return of("MI350X", opts) }

// MI355X asks for an MI355X.
func MI355X(opts ...Option) Accelerator { return of("MI355X", opts) }

// RX7900XTX asks for an RX7900XTX.
func RX7900XTX(opts ...Option) Accelerator { return of("RX7900XTX", opts) }

// Intel, AWS and Google.

// Gaudi2 asks for a Gaudi2.
func Gaudi2(opts ...Option) Accelerator { return of("Gaudi2", opts) }

// Gaudi3 asks for a Gaudi3.
func Gaudi3(opts ...Option) Accelerator { return of("Gaudi3", opts) }

// Inferentia2 asks for an Inferentia2.
func Inferentia2(opts ...Option) Accelerator { return of("Inferentia2", opts) }

// Trainium asks for a Trainium.
func Trainium(opts ...Option) Accelerator { return of("Trainium", opts) }

// Trainium2 asks for a Trainium2.
func Trainium2(opts ...Option) Accelerator { return of("Trainium2", opts) }

// TPUv5e asks for a TPUv5e.
func TPUv5e(opts ...Option) Accelerator { return of("TPUv5e", opts) }

// TPUv5p asks for a TPUv5p.
func TPUv5p(opts ...Option) Accelerator { return of("TPUv5p", opts) }

// TPUv6e asks for a TPUv6e.
func TPUv6e(opts ...Option) Accelerator { return of("TPUv6e", opts) }

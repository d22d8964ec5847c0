package accelerators

// NVIDIA, for workstations.

// QuadroRTX5000 asks for a QuadroRTX5000.
func QuadroRTX5000(opts ...Option) Accelerator { return of("QuadroRTX5000", opts) }

// QuadroRTX6000 asks for a QuadroRTX6000.
func QuadroRTX6000(opts ...Option) Accelerator { return of("QuadroRTX6000", opts) }

// QuadroRTX8000 asks for a QuadroRTX8000.
func QuadroRTX8000(opts ...Option) Accelerator { return of("QuadroRTX8000", opts) }

// A2000 asks for an A2000.
func A2000(opts ...Option) Accelerator { return of("A2000", opts) }

// A4000 asks for an A4000.
func A4000(opts ...Option) Accelerator { return of("A4000", opts) }

// A4500 asks for an A4500.
func A4500(opts ...Option) Accelerator { return of("A4500", opts) }

// A5000 asks for an A5000.
func A5000(opts ...Option) Accelerator { return of("A5000", opts) }

// A6000 asks for an A6000.
func A6000(opts ...Option) Accelerator { return of("A6000", opts) }

// RTX2000Ada asks for an RTX2000Ada.
func RTX2000Ada(opts ...Option) Accelerator { return of("RTX2000Ada", opts) }

// RTX4000Ada asks for an RTX4000Ada.
func RTX4000Ada(opts ...Option) Accelerator { return of("RTX4000Ada", opts) }

// RTX4000SFFAda asks for an RTX4000SFFAda.
func RTX4000SFFAda(opts ...Option) Accelerator { return of("RTX4000SFFAda", opts) }

// RTX4500Ada asks for an RTX4500Ada.
func RTX4500Ada(opts ...Option) Accelerator { return of("RTX4500Ada", opts) }

// RTX5000Ada asks for an RTX5000Ada.
func RTX5000Ada(opts ...Option) Accelerator { return of("RTX5000Ada", opts) }

// RTX6000Ada asks for an RTX6000Ada.
func RTX6000Ada(opts ...Option) Accelerator { return of("RTX6000Ada", opts) }

// RTXPRO4500 asks for an RTXPRO4500.
func RTXPRO4500(opts ...Option) Accelerator { return of("RTXPRO4500", opts) }

// RTXPRO6000 asks for an RTXPRO6000.
func RTXPRO6000(opts ...Option) Accelerator { return of("RTXPRO6000", opts) }

// RTXPRO6000MaxQ asks for an RTXPRO6000MaxQ.
func RTXPRO6000MaxQ(opts ...Option) Accelerator { return of("RTXPRO6000MaxQ", opts) }

// NVIDIA, for games.

// GTX1060 asks for a GTX1060.
func GTX1060(opts ...Option) Accelerator { return of("GTX1060", opts) }

// GTX1070 asks for a GTX1070.
func GTX1070(opts ...Option) Accelerator { return of("GTX1070", opts) }

// GTX1650 asks for a GTX1650.
func GTX1650(opts ...Option) Accelerator { return of("GTX1650", opts) }

// GTX1660Super asks for a GTX1660Super.
func GTX1660Super(opts ...Option) Accelerator { return of("GTX1660Super", opts) }

// RTX2060Super asks for an RTX2060Super.
func RTX2060Super(opts ...Option) Accelerator { return of("RTX2060Super", opts) }

// RTX2080Super asks for an RTX2080Super.
func RTX2080Super(opts ...Option) Accelerator { return of("RTX2080Super", opts) }

// RTX2080Ti asks for an RTX2080Ti.
func RTX2080Ti(opts ...Option) Accelerator { return of("RTX2080Ti", opts) }

// RTX3050 asks for an RTX3050.
func RTX3050(opts ...Option) Accelerator { return of("RTX3050", opts) }

// RTX3060 asks for an RTX3060.
func RTX3060(opts ...Option) Accelerator { return of("RTX3060", opts) }

// RTX3060Ti asks for an RTX3060Ti.
func RTX3060Ti(opts ...Option) Accelerator { return of("RTX3060Ti", opts) }

// RTX3070 asks for an RTX3070.
func RTX3070(opts ...Option) Accelerator { return of("RTX3070", opts) }

// RTX3070Ti asks for an RTX3070Ti.
func RTX3070Ti(opts ...Option) Accelerator { return of("RTX3070Ti", opts) }

// RTX3080 asks for an RTX3080.
func RTX3080(opts ...Option) Accelerator { return of("RTX3080", opts) }

// RTX3080Ti asks for an RTX3080Ti.
func RTX3080Ti(opts ...Option) Accelerator { return of("RTX3080Ti", opts) }

// RTX3090 asks for an RTX3090.
func RTX3090(opts ...Option) Accelerator { return of("RTX3090", opts) }

// RTX3090Ti asks for an RTX3090Ti.
func RTX3090Ti(opts ...Option) Accelerator { return of("RTX3090Ti", opts) }

// RTX4070Ti asks for an RTX4070Ti.
func RTX4070Ti(opts ...Option) Accelerator { return of("RTX4070Ti", opts) }

// RTX4070TiSuper asks for an RTX4070TiSuper.
func RTX4070TiSuper(opts ...Option) Accelerator { return of("RTX4070TiSuper", opts) }

// RTX4080 asks for an RTX4080.
func RTX4080(opts ...Option) Accelerator { return of("RTX4080", opts) }

// RTX4080Super asks for an RTX4080Super.
func RTX4080Super(opts ...Option) Accelerator { return of("RTX4080Super", opts) }

// RTX4090 asks for an RTX4090.
func RTX4090(opts ...Option) Accelerator { return of("RTX4090", opts) }

// RTX5080 asks for an RTX5080.
func RTX5080(opts ...Option) Accelerator { return of("RTX5080", opts) }

// RTX5090 asks for an RTX5090.
func RTX5090(opts ...Option) Accelerator { return of("RTX5090", opts) }

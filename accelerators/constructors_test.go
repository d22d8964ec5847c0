package accelerators

import "testing"

var constructors = []func(...Option) Accelerator{
	K80, M40, P4, P100, V100, T4, A2, A10, A10G, A16, A30, A40, A100, L4, L40, L40S, H100, H200, GH200, B200, B300, GB200, GB300,
	QuadroRTX5000, QuadroRTX6000, QuadroRTX8000, A2000, A4000, A4500, A5000, A6000, RTX2000Ada, RTX4000Ada, RTX4000SFFAda,
	RTX4500Ada, RTX5000Ada, RTX6000Ada, RTXPRO4500, RTXPRO6000, RTXPRO6000MaxQ,
	GTX1060, GTX1070, GTX1650, GTX1660Super, RTX2060Super, RTX2080Super, RTX2080Ti, RTX3050, RTX3060, RTX3060Ti, RTX3070, RTX3070Ti,
	RTX3080, RTX3080Ti, RTX3090, RTX3090Ti, RTX4070Ti, RTX4070TiSuper, RTX4080, RTX4080Super, RTX4090, RTX5080, RTX5090,
	MI250X, MI300X, MI325X, MI350X, MI355X, RX7900XTX,
	Gaudi2, Gaudi3, Inferentia2, Trainium, Trainium2, TPUv5e, TPUv5p, TPUv6e,
}

// Every constructor's device is in the catalogue.
func TestConstructors(t *testing.T) {
	for _, f := range constructors {
		a := f(Count(2))
		if m, ok := Lookup(a.Name); !ok || m.Name != a.Name || a.Count != 2 {
			t.Errorf("odd %+v", a)
		}
		if err := a.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// A device that several clouds have has a constructor.
func TestEveryCommonDeviceHasAConstructor(t *testing.T) {
	has := map[string]bool{}
	for _, f := range constructors {
		has[f().Name] = true
	}
	clouds := map[string]map[string]bool{}
	for _, n := range listed(t) {
		if n.refused != "" {
			continue
		}
		a := mustParse(t, n.is)
		if clouds[a.Name] == nil {
			clouds[a.Name] = map[string]bool{}
		}
		clouds[a.Name][n.cloud] = true
	}
	for name, at := range clouds {
		if name != "" && len(at) > 1 && !has[name] {
			t.Errorf("%d clouds have %s, and it has no function", len(at), name)
		}
	}
}

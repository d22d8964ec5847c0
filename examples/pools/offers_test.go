package main

import (
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	newPlace(t)
	pools(t, "plan", "local").wants(t, 0, `^PROVIDER +TYPE +REGION +GPU +VCPUS +MEMORY +PRICE +HOW +NOTE\nlocal .*\$0\.00/h`, "^$")
	views := decode[[]offerView](t, pools(t, "plan", "sim", "-json", "-gpu", "A100"))
	if len(views) == 0 || views[0].GPU != "A100" || views[0].Hourly == nil {
		t.Errorf("%+v", views)
	}
	for i := 1; i < len(views); i++ {
		if orLast(views[i].Hourly) < orLast(views[i-1].Hourly) {
			t.Errorf("%v comes after %v", *views[i].Hourly, *views[i-1].Hourly)
		}
	}
	pools(t, "plan", "sim", "-gpu", "A100", "-max", "0.0001").wants(t, 0, "^nothing fits, of .*offers?: -rejected shows why", "^$")
	pools(t, "plan", "sim", "-gpu", "A100", "-max", "0.0001", "-rejected", "-n", "1").wants(t, 0, "^PROVIDER.*\nsim .*", "")
}

func TestGPUs(t *testing.T) {
	newPlace(t)
	s := pools(t, "gpus", "sim")
	s.wants(t, 0, `^GPU +MEMORY +PER GPU +HOW +PROVIDER +TYPE +GPUS +PRICE +REGION\n(.* sim .*\$\d.*/h.*\n)+$`, "^$")
	views := decode[[]offerView](t, pools(t, "gpus", "sim", "-json", "-n", "0"))
	seen := map[string]bool{}
	for _, v := range views {
		key := strings.Join([]string{v.GPU, gib(v.GPUMem), v.how()}, " ")
		if v.GPU == "" || v.PerGPU == nil || seen[key] {
			t.Errorf("%s: %+v", key, v)
		}
		seen[key] = true
	}
	for _, v := range decode[[]offerView](t, pools(t, "gpus", "sim", "-json", "-gpu", "A100", "-on-demand")) {
		if v.GPU != "A100" || v.Spot {
			t.Errorf("%+v", v)
		}
	}
}

// A provider that cannot be asked is noted; it is an error if there is no other.
func TestProvidersThatCannotBeAsked(t *testing.T) {
	newPlace(t)
	lambda := `lambda={"endpoint": "http://127.0.0.1:1", "api_key": "env://POOLS_TEST_NO_SUCH_KEY"}`
	pools(t, "gpus", "sim", lambda).wants(t, 0, "sim", "^lambda was not asked: ")
	pools(t, "gpus", lambda).wants(t, 1, "^$", "no provider could be asked(.*\n)*.*POOLS_TEST_NO_SUCH_KEY")
	pools(t, "list", lambda).wants(t, 1, "^no pools on this computer", "what lambda holds is not known: .*POOLS_TEST_NO_SUCH_KEY")
}

package vastai

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/internal/test/usagetest"
)

// The program choose, which does not know of fakes, compares offers by the price of the work, in some countries, and rents
// the best one. Its other clouds have no keys and are left out.
func TestUsageChoose(t *testing.T) {
	t.Parallel()
	h100 := row{"gpu_name": "H100 SXM", "num_gpus": 1, "gpu_ram": 81559, "dph_base": 2.0, "machine_id": 7, "geolocation": "Texas, US"}
	second := row{"gpu_name": "H100 SXM", "num_gpus": 1, "gpu_ram": 81559, "dph_base": 2.1, "machine_id": 8, "geolocation": "Quebec, CA"}
	a100 := row{"gpu_name": "A100 SXM4", "num_gpus": 2, "gpu_ram": 81920, "dph_base": 1.9, "machine_id": 9, "geolocation": "Germany, DE"}
	far := row{"gpu_name": "H100 SXM", "num_gpus": 1, "gpu_ram": 81559, "dph_base": 1.0, "machine_id": 10, "geolocation": "Japan, JP"}
	other := row{"gpu_name": "L40S", "num_gpus": 1, "gpu_ram": 46068, "dph_base": 0.6, "machine_id": 11, "geolocation": "Oregon, US"}
	f := startFake(t, h100, second, a100, far, other)
	f.programs = map[string]string{
		"nvidia-smi": `case $1 in
-L) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)" ;;
*) echo "NVIDIA H100 80GB HBM3, 81559" ;;
esac`,
		"df": `echo "Filesystem 1024-blocks Used Available Capacity Mounted on"; echo "/dev/sda 300000000 1 299999999 1% /"`,
	}
	f.address, f.logsAt = fakecloud.OwnAddress(t), "https://logs.vast.test" // a program at Vast's real address accepts no other address for logs
	program := usagetest.Build(t, "choose")
	env := append(fakecloud.Front(t, map[string]*fakecloud.Server{"console.vast.ai": f.Server, "logs.vast.test": f.logs}),
		"VAST_API_KEY="+testKey, "RUNPOD_API_KEY=", "LAMBDA_API_KEY=", "HOME="+program.Dir,
	)
	out, errOut, err := program.Run(t, env)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"H100-79.6GB-SXM US $2.02 $0.84", "H100-79.6GB-SXM CA $2.12 $0.88", "A100-80GB-SXM:2 DE $1.92 $0.96", "L40S-45GB US $0.62 unknown"} { // the last is the price of the work
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %s", i, lines[i], want)
		}
	}
	if strings.Contains(out, " JP ") {
		t.Errorf("the plan has a machine in Japan:\n%s", out)
	}
	for _, want := range []string{"RUNPOD_API_KEY", "LAMBDA_API_KEY", "the host's contract ends"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan has not %q:\n%s", want, out)
		}
	}
	if n := len(f.Records(opCreate)); n != 2 {
		t.Errorf("%d instances were created", n)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
	if strings.Contains(out+errOut, testKey) {
		t.Errorf("it prints its key:\n%s%s", out, errOut)
	}
}

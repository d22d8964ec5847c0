package vastai

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/internal/test/usagetest"
)

// The program cheapest, which does not know of fakes, rents here. Its other clouds have
// no keys and are left out.
func TestUsageCheapest(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: the program choose runs in each run")
	}
	t.Parallel()
	a100 := row{"gpu_name": "A100 SXM4", "num_gpus": 4, "gpu_ram": 81920, "dph_base": 5.0, "min_bid": 2.0, "reliability2": 0.99, "machine_id": 7}
	dear := row{"gpu_name": "A100 SXM4", "num_gpus": 4, "gpu_ram": 81920, "dph_base": 12.0, "min_bid": 11.0, "reliability2": 0.99}
	other := row{"gpu_name": "A100 SXM4", "num_gpus": 4, "gpu_ram": 81920, "dph_base": 6.0, "min_bid": 3.0, "reliability2": 0.99}
	f := startFake(t, a100, dear, other, nil)
	f.programs = map[string]string{
		"nvidia-smi": `case $1 in
-L) for i in 0 1 2 3; do echo "GPU $i: NVIDIA A100-SXM4-80GB (UUID: GPU-$i)"; done ;;
*) for i in 0 1 2 3; do echo "NVIDIA A100-SXM4-80GB, 81920"; done ;;
esac`,
		"df": `echo "Filesystem 1024-blocks Used Available Capacity Mounted on"; echo "/dev/sda 300000000 1 299999999 1% /"`,
	}
	f.address, f.logsAt = fakecloud.OwnAddress(t), "https://logs.vast.test" // a program at Vast's real address accepts no other address for logs
	program := usagetest.Build(t, "cheapest")
	env := append(fakecloud.Front(t, map[string]*fakecloud.Server{"console.vast.ai": f.Server, "logs.vast.test": f.logs}),
		"VAST_API_KEY="+testKey, "RUNPOD_API_KEY=", "HOME="+program.Dir,
		"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_PROFILE=", "AWS_EC2_METADATA_DISABLED=true",
	)
	out, errOut, err := program.Run(t, env)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"4x A100 SXM4 Washington, US $2.4", "4x A100 SXM4 Washington, US $3.6"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	for _, want := range []string{"MaxHourlyUSD is $8.00", "RUNPOD_API_KEY", "AWS_ACCESS_KEY_ID"} {
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
	for _, secret := range []string{testKey} {
		if strings.Contains(out+errOut, secret) {
			t.Errorf("it prints its key:\n%s%s", out, errOut)
		}
	}
}

//go:build unix

package slurm

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/usagetest"
)

// The usage program cluster runs on the user's own cluster, whose nodes have two GPUs each, and needs neither of the other
// places, for which there are no credentials here.
func TestUsageCluster(t *testing.T) {
	b := common(t)
	program := usagetest.Build(t, "cluster", "Count(4)", "Count(2)",
		`Addr: "login.lab"`, `Addr: "`+b.addr+`", User: "alice", KeyFile: "`+b.keyFile+`", HostKey: "`+b.hostKey+`"`)
	const smi = `#!/bin/sh
for i in 0 1; do
	case $1 in
	-L) echo "GPU $i: NVIDIA A100-SXM4-80GB (UUID: GPU-$i)" ;;
	*) echo "NVIDIA A100-SXM4-80GB, 81920" ;;
	esac
done
`
	for _, host := range []string{"c1", "c2"} {
		run(t, smi, "docker", "exec", "-i", b.name+"-"+host, "install", "-m", "755", "/dev/stdin", "/usr/local/bin/nvidia-smi")
		t.Cleanup(func() { b.on(t, host, "rm /usr/local/bin/nvidia-smi") })
	}
	out, errOut, err := program.Run(t, []string{"HOME=" + t.TempDir(), "KUBECONFIG=", "RUNPOD_API_KEY="})
	if err != nil || errOut != "" || out != "0 slurm gpu $0.00\n1 slurm gpu $0.00\n" {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
	b.wantNothing(t)
}

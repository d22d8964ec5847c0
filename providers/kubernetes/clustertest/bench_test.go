package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// BenchmarkPackage runs the benchmarks of package kubernetes on the cluster, whose pods' addresses
// this computer is given routes to, for the comparison with plain SSH. Only root may do that.
func BenchmarkPackage(b *testing.B) {
	c := start(b)
	for i := range 2 {
		address, err := output(exec.Command("docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", fmt.Sprintf("%s-n%d", c.name, i+1)))
		if err != nil {
			b.Fatal(err)
		}
		pods := fmt.Sprintf("10.244.%d.0/24", i+1)
		if _, err := output(exec.Command("ip", "route", "replace", pods, "via", strings.TrimSpace(address))); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { exec.Command("ip", "route", "del", pods).Run() })
	}
	cmd := exec.Command("go", "test", "-run", "-", "-bench", ".", "-benchtime", "2s", "..")
	cmd.Env = append(os.Environ(), "GPUTRAIN_KUBERNETES_BENCH="+c.config)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		b.Error(err)
	}
}

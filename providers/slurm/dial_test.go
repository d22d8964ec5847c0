package slurm

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
)

// The address in a job's comment leads neither to a cloud's metadata nor to another address that no machine has.
func TestAddressOfAJobIsAMachines(t *testing.T) {
	for _, addr := range []string{
		"169.254.169.254:22", "168.63.129.16:80", "100.100.100.200:80", "[fd00:ec2::254]:80", "[64:ff9b::169.254.169.254]:80", "2852039166:80", "224.0.0.1:22", "0.0.0.0:22", "255.255.255.255:22",
	} {
		conn, err := new(slurmDriver).dial(t.Context(), job{id: "31", comment: comment{addr: addr}})
		if conn != nil || !errors.Is(err, localnet.ErrLocal) || !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %v, %v", addr, conn, err)
		}
	}
}

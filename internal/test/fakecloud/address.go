package fakecloud

import (
	"net"
	"testing"

	"github.com/gputrain/gputrain/internal/localnet"
)

// OwnAddress returns an address of this computer outside the loopback range, for MachineConfig.Address. A provider that
// reaches an API by the vendor's own address does not accept a machine at an address of this computer, so this one counts as
// another's in the test's process. If this computer has no such address, the test is skipped.
func OwnAddress(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			localnet.CountElsewhere(n.IP.String())
			return n.IP.String()
		}
	}
	t.Skip("this computer has no address but 127.0.0.1, which providers refuse as the address of a rented machine")
	return ""
}

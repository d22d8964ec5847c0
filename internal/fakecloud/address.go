package fakecloud

import (
	"net"
	"testing"
)

// OwnAddress returns an address of this computer that machines elsewhere can have too, for
// MachineConfig.Address: what reaches an API by the vendor's own address takes no machine
// for one that is at 127.0.0.1. Where this computer has none the test is skipped.
func OwnAddress(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this computer has no address but 127.0.0.1, where no rented machine is believed to be")
	return ""
}

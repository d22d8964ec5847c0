package node

import (
	"strings"
	"testing"
)

// What a node says of its traffic, and again after it has said something else, is never below zero, and its sum never falls.
func FuzzTraffic(f *testing.F) {
	f.Add("eth0: 9223372036854775807 0 0 0 0 0 0 0 9223372036854775807\neth1: 9223372036854775807 0 0 0 0 0 0 0 1\n")
	f.Add("eth0: 2305843009213693952 0 0 0 0 0 0 0 2305843009213693952\n")
	f.Add("lo: 1 0 0 0 0 0 0 0 1\neth0: -1 0 0 0 0 0 0 0 x\n")
	f.Fuzz(func(t *testing.T, text string) {
		received, sent, ok := parseTraffic(text)
		if received < 0 || sent < 0 || !ok && received+sent != 0 {
			t.Fatalf("%d, %d, %v", received, sent, ok)
		}
		var m meter
		var before [2]int64
		for range 8 {
			for _, now := range [][2]int64{{received, sent}, {0, 0}} {
				r, s := m.read(now[0], now[1])
				if r < before[0] || s < before[1] {
					t.Fatalf("%d, %d after %v", r, s, before)
				}
				before = [2]int64{r, s}
			}
		}
	})
}

// However many devices a node lists, as many as there can be are used, by names that CUDA_VISIBLE_DEVICES can have.
func FuzzDevices(f *testing.F) {
	f.Add("GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: MIG-1)\n")
	f.Add("  MIG x (UUID: MIG-1)\nGPU 0: (UUID: a b)\nGPU x (UUID: \x1b[2J)\n")
	f.Fuzz(func(t *testing.T, text string) {
		if ids := parseNvidia(strings.Split(text, "\n")); len(ids) > maxDevices {
			t.Errorf("%d devices", len(ids))
		}
	})
}

package node

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestParseTraffic(t *testing.T) {
	const header = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
	for name, tt := range map[string]struct {
		text           string
		received, sent int64
		ok             bool
	}{
		"a machine": {header + "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n  eth0: 2048 12 0 0 0 0 0 0 1024 9 0 0 0 0 0 0\n", 2048, 1024, true},
		"two devices, and what is inside": {
			header + "eth0:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\nens5: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\ndocker0: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\nveth1a: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n",
			11, 22, true,
		},
		"nothing":         {"", 0, 0, false},
		"the header":      {header, 0, 0, false},
		"no numbers":      {header + "eth0: many 1 0 0 0 0 0 0 more 1 0 0 0 0 0 0\n", 0, 0, false},
		"a lying machine": {header + "eth0: -5 1 0 0 0 0 0 0 -7 1 0 0 0 0 0 0\n", 0, 0, false},
		"too few columns": {header + "eth0: 5 1 0\n", 0, 0, false},
	} {
		received, sent, ok := parseTraffic(tt.text)
		if received != tt.received || sent != tt.sent || ok != tt.ok {
			t.Errorf("%s: %d, %d, %v", name, received, sent, ok)
		}
	}
	if runtime.GOOS == "linux" {
		text, err := os.ReadFile("/proc/net/dev")
		if err != nil {
			t.Fatal(err)
		}
		if received, sent, _ := parseTraffic(string(text)); received < 0 || sent < 0 {
			t.Errorf("this machine: %d, %d", received, sent)
		}
	}
}

// Counters that begin anew are added to the earlier ones.
func TestMeter(t *testing.T) {
	var m meter
	for _, tt := range [][4]int64{{100, 10, 100, 10}, {150, 20, 150, 20}, {5, 1, 155, 21}, {6, 2, 156, 22}} {
		if received, sent := m.read(tt[0], tt[1]); received != tt[2] || sent != tt[3] {
			t.Errorf("%v: %d, %d", tt, received, sent)
		}
	}
}

// A node whose traffic is billed counts it; others are not asked.
func TestTrafficIsCounted(t *testing.T) {
	for name, egressUSD := range map[string]float64{"billed": 0.01, "free": 0} {
		bubble.Test(t, func(t *testing.T) {
			l := newLab(t, simnode.Config{})
			l.cloud.inst.Offer.EgressUSD = egressUSD
			l.answers[countTraffic] = "eth0: 300 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n"
			l.ready()
			time.Sleep(2 * trafficInterval)
			l.mu.Lock()
			moved := l.moved
			l.mu.Unlock()
			if want := (map[string][2]int64{"billed": {300, 200}}[name]); moved != want {
				t.Errorf("%s: %v were counted, want %v", name, moved, want)
			}
		})
	}
}

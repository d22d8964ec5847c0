package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// socket returns a line of /proc/net/tcp.
func socket(port int, state string) string {
	return fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n", port, state)
}

func TestPort(t *testing.T) {
	const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	six := "   0: 00000000000000000000000001000000:733C 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n"
	for _, tt := range []struct {
		name            string
		sockets         string
		attempt, before int
		want            int
	}{
		{"nothing is known", "", 1, 0, 29500},
		{"third attempt", header, 3, 29501, 29502},
		{"listening", header + socket(29500, "0A") + socket(29501, "0A"), 1, 0, 29502},
		{"listening with IPv6", header + six, 1, 0, 29501},
		{"connected", header + socket(29500, "01"), 1, 0, 29501},
		{"over", header + socket(29500, "06"), 1, 0, 29500},
		{"the last attempt's", header, 1, 29500, 29501},
		{"begins anew", header + socket(29899, "0A"), 400, 0, 29500},
		{"many attempts", header, 401, 0, 29500},
		{"no attempt", header, 0, 0, 29500},
		{"no table", "cat: /proc/net/tcp: No such file\n 1 2 3\nx y:zz z 0A\n", 1, 0, 29500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Port(tt.sockets, tt.attempt, tt.before); got != tt.want || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestNoPort(t *testing.T) {
	var all strings.Builder
	for p := firstPort; p < firstPort+ports; p++ {
		all.WriteString(socket(p, "0A"))
	}
	if _, err := Port(all.String(), 7, 0); !errors.Is(err, ErrNoPort) {
		t.Errorf("got %v", err)
	}
}

// Trainings that start at the same time on one machine meet at different ports, though the same are free.
func TestFreePortOfTrainings(t *testing.T) {
	seen := map[int]bool{}
	for _, training := range []string{"pool-a.g1.", "pool-a.g2.", "pool-b.g1."} {
		port, err := FreePort(t.Context(), nothingListens{}, training, 1, 0)
		if err != nil || port < firstPort || port >= firstPort+ports || seen[port] {
			t.Errorf("%s meets at %d, %v; before: %v", training, port, err, seen)
		}
		seen[port] = true
		if again, err := FreePort(t.Context(), nothingListens{}, training, 1, port); err != nil || again == port {
			t.Errorf("%s meets again at %d, %v", training, again, err)
		}
	}
}

type nothingListens struct{}

func (nothingListens) ExecMoving(context.Context, string, io.Reader, io.Writer, io.Writer) error {
	return nil
}

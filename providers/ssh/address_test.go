package ssh

import (
	"cmp"
	"net"
	"strconv"
	"testing"
)

// whole is address as host:port.
func whole(s string) (string, error) {
	host, port, err := address(s)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, cmp.Or(port, "22")), nil
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"gpu1":            "gpu1:22",
		"gpu1.lab:2222":   "gpu1.lab:2222",
		"192.0.2.1":       "192.0.2.1:22",
		"2001:db8::1":     "[2001:db8::1]:22",
		"[2001:db8::1]":   "[2001:db8::1]:22",
		"[2001:db8::1]:1": "[2001:db8::1]:1",
		"[fe80::1%eth0]":  "[fe80::1%eth0]:22",
	} {
		if got, err := whole(in); got != want || err != nil {
			t.Errorf("address(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// Every accepted address is a host and a port, and is accepted unchanged.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"gpu1", "gpu1:22", "::1", "[::1]:22", "a:b:c", "[", "]:1", ":", "-x", "h:65536", "[::1", "é:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := whole(s)
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(got)
		if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || host == "" || n < 1 || n > 65535 {
			t.Errorf("address(%q) = %q: %v", s, got, err)
		}
		if again, err := whole(got); again != got || err != nil {
			t.Errorf("address(%q) = %q, but address of that is %q, %v", s, got, again, err)
		}
	})
}

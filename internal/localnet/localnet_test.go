package localnet

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestKind(t *testing.T) {
	for kind, addrs := range map[string]string{
		"of this computer":        "127.0.0.1 127.8.8.8 ::1 0.0.0.0 0.1.2.3 :: ::ffff:127.0.0.1 ::ffff:0.0.0.0",
		"of this computer's link": "169.254.169.254 169.254.1.2 fe80::1 fe80::1%eth0 ::ffff:169.254.169.254",
		"of a cloud's metadata":   "100.100.100.200 ::ffff:100.100.100.200 fd00:ec2::254",
		"for multicast":           "224.0.0.1 239.1.1.1 ff02::1 ff05::2",
		"for broadcasts":          "255.255.255.255",
		"":                        "203.0.113.7 10.1.2.3 192.168.1.1 172.16.0.9 100.64.0.1 2001:db8::1 fd12:3456::1",
	} {
		for _, s := range strings.Fields(addrs) {
			if got := Kind(netip.MustParseAddr(s)); !strings.HasPrefix(got, kind) || kind == "" && got != "" {
				t.Errorf("%s is %q, want %q", s, got, kind)
			}
		}
	}
	if Kind(netip.Addr{}) == "" {
		t.Error("the zero Addr is not taken for a local address")
	}
}

func TestIsURL(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://[::1]:8080/v1": true, "https://localhost": true, "http://LOCALHOST.:1": true, "http://api.localhost": true,
		"http://169.254.169.254": true, "https://api.example.com": false, "https://10.0.0.1": false, "https://localhost.example.com": false, "": false, "localhost": false, "http://%zz": false,
	} {
		if IsURL(address) != want {
			t.Errorf("IsURL(%q) is %v", address, !want)
		}
	}
}

// Dial does not connect to a local address, whatever its name.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- c
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0", "::"} {
		nc, err := Dial(t.Context(), net.Dialer{}, net.JoinHostPort(host, port))
		if !errors.Is(err, ErrLocal) || !strings.Contains(err.Error(), "of this computer") {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			nc.Close()
		}
	}
	nc, err := net.Dial("tcp", l.Addr().String()) // connections before this one have been accepted after it
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	(<-came).Close()
	select {
	case <-came:
		t.Error("Dial has connected to a local address")
	default:
	}
}

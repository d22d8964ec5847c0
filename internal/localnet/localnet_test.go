package localnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestKind(t *testing.T) {
	for kind, addrs := range map[string]string{
		"of this computer":        "127.0.0.1 127.8.8.8 ::1 ::1%lo 0.0.0.0 0.1.2.3 :: ::5 ::ffff:127.0.0.1 ::ffff:0.0.0.0 64:ff9b:: 64:ff9b:1::",
		"of this computer's link": "169.254.169.254 169.254.1.2 fe80::1 fe80::1%eth0 ::ffff:169.254.169.254",
		"of a cloud's metadata":   "100.100.100.200 ::ffff:100.100.100.200 fd00:ec2::254 fd00:ec2::254%eth0 168.63.129.16 ::ffff:168.63.129.16 192.0.0.192 100.96.0.96 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42",
		"of a protocol":           "192.0.0.1 192.0.0.170",
		"for multicast":           "224.0.0.1 239.1.1.1 ff02::1 ff05::2",
		"for broadcasts":          "255.255.255.255",
		"": "203.0.113.7 10.1.2.3 192.168.1.1 172.16.0.9 100.64.0.1 100.100.100.201 168.63.129.17 2001:db8::1 fd12:3456::1 240.1.2.3" +
			" 64:ff9b::8.8.8.8 64:ff9b:1::8.8.8.8 2002:808:808::1 ::8.8.8.8 2001:4860:4860::7f00:1 2001:0:808:808::f7f7:f7f7",
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

// An IPv6 address that leads to an IPv4 address is what that one is.
func TestKindOfEmbedded(t *testing.T) {
	mine := netip.MustParseAddr("198.51.100.9")
	for v4, want := range map[string]string{
		"127.0.0.1": "of this computer", "198.51.100.9": "of this computer", "169.254.169.254": "of this computer's link", "168.63.129.16": "of a cloud's metadata",
		"192.0.0.192": "of a cloud's metadata", "100.100.100.200": "of a cloud's metadata", "224.0.0.1": "for multicast", "255.255.255.255": "for broadcasts", "8.8.4.4": "",
	} {
		b := netip.MustParseAddr(v4).As4()
		hi, lo := uint16(b[0])<<8|uint16(b[1]), uint16(b[2])<<8|uint16(b[3])
		for _, s := range []string{
			"::ffff:" + v4, "::" + v4, "::ffff:0:" + v4, "64:ff9b::" + v4, "64:ff9b::" + v4 + "%eth0", "64:ff9b:1::" + v4,
			fmt.Sprintf("64:ff9b:1:%x:%x:%x::", hi, lo>>8, lo<<8),                                                 // a prefix of 48 bits
			fmt.Sprintf("64:ff9b:1:%x:%x:%x::", 0xab00|uint16(b[0]), uint16(b[1]), lo),                            // of 56
			fmt.Sprintf("64:ff9b:1:abcd:%x:%x:%x:0", uint16(b[0]), uint16(b[1])<<8|uint16(b[2]), uint16(b[3])<<8), // of 64
			fmt.Sprintf("64:ff9b:1:abcd:0:1234:%x:%x", hi, lo),                                                    // of 96
			fmt.Sprintf("2002:%x:%x::1", hi, lo), fmt.Sprintf("2001:0:%x:%x:0:0:808:808", hi, lo),                 // 6to4, and Teredo's server
			fmt.Sprintf("2001:0:808:808:0:0:%x:%x", ^hi, ^lo), fmt.Sprintf("2001:db8::5efe:%s", v4), "2001:db8::200:5efe:" + v4, // its client, and ISATAP
		} {
			a := netip.MustParseAddr(s)
			if got := kind(a, []netip.Addr{mine}); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s, which leads to %s, is %q; want %q", s, v4, got, want)
			}
			if got := Reserved(a); want != "of this computer" && !strings.HasPrefix(got, want) || want == "of this computer" && got != "" {
				t.Errorf("%s, which leads to %s, is reserved as %q; want %q", s, v4, got, want)
			}
		}
	}
}

// The addresses of this computer's interfaces are local.
func TestKindOfThisComputer(t *testing.T) {
	all := own()
	if len(all) == 0 {
		t.Fatal("this computer has no address, not even the loopback's")
	}
	for _, a := range all {
		if Kind(a) == "" {
			t.Errorf("%v is an address of this computer, and is not local", a)
		}
	}
	mine := netip.MustParseAddr("10.9.8.7")
	if kind(mine, []netip.Addr{mine}) != ofThisComputer || kind(mine, nil) != "" {
		t.Errorf("%v is %q among this computer's, and %q else", mine, kind(mine, []netip.Addr{mine}), kind(mine, nil))
	}
}

func TestHostKind(t *testing.T) {
	for want, hosts := range map[string]string{
		"of this computer":        "0177.0.0.1 0x7f.1 0x7f000001 2130706433 127.1 017700000001 127.0.0.1. 0 0x0 localhost LOCALHOST. a.localhost ::1 0x7F.0x0.0x0.0x1 0xb",
		"of this computer's link": "0xa9fea9fe 2852039166 169.254.43518 0251.0376.0251.0376",
		"of a cloud's metadata":   "168.63.33040 0xa83f8110",
		"for broadcasts":          "4294967295",
		"":                        "example.com 10.0.0.1 0b1 0o17.0.0.1 127.0.0.1.1 1.2.3.4.5 4294967296 08.1.1.1 256.1 127..1 0x7f_1 -1 abc 12.example.com",
	} {
		for _, host := range strings.Fields(hosts) {
			if got := HostKind(host); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s is %q, want %q", host, got, want)
			}
		}
	}
}

func TestPublic(t *testing.T) {
	for want, addrs := range map[bool]string{
		true:  "8.8.8.8 203.0.113.7 172.32.0.1 100.128.0.1 11.0.0.1 2001:db8::1 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1",
		false: "10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 100.127.9.9 198.18.0.1 240.0.0.1 127.0.0.1 169.254.1.1 0.0.0.0 224.0.0.1 255.255.255.255 168.63.129.16 ::1 :: fe80::1%eth0 fd00::1 fc00::1 fec0::1 ff02::1 ::ffff:10.0.0.1",
	} {
		for _, s := range strings.Fields(addrs) {
			if Public(netip.MustParseAddr(s)) != want {
				t.Errorf("Public(%s) is %v", s, !want)
			}
		}
	}
}

func TestIsURL(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://[::1]:8080/v1": true, "https://localhost": true, "http://LOCALHOST.:1": true, "http://api.localhost": true,
		"http://169.254.169.254": true, "https://0177.0.0.1/x": true, "https://2130706433": true, "https://[64:ff9b::169.254.169.254]": true, "http://168.63.129.16": true, "https://api.example.com": false, "https://10.0.0.1": false, "https://localhost.example.com": false, "": false, "localhost": false, "http://%zz": false,
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
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0", "::", "0177.0.0.1", "2130706433", "0x7f.1", "127.1", "::ffff:0:7f00:1", "64:ff9b::127.0.0.1"} {
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

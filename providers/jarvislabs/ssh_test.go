package jarvislabs

import (
	"net"
	"strings"
	"testing"
)

func TestParseSSH(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"ssh -o StrictHostKeyChecking=no -p 11014 root@sshn.example.net": "root sshn.example.net:11014",
		"ssh root@sshn.example.net -p 11014":                             "root sshn.example.net:11014",
		"ssh -p11014 -l root sshn.example.net":                           "root sshn.example.net:11014",
		"ssh -v ubuntu@203.0.113.9":                                      "ubuntu 203.0.113.9:22",
		"ssh 2001:db8::1":                                                " [2001:db8::1]:22",
		"ssh -i key -p 22 a@b ls":                                        "a b:22",
		"":                                                               "",
		"ssh":                                                            "",
		"None":                                                           "",
		"ssh -p":                                                         "",
		"ssh -p 0 root@host":                                             "",
		"ssh -p 70000 root@host":                                         "",
		"ssh -p 22 root@":                                                "",
		"ssh -p 22":                                                      "",
		"ssh root@host/path":                                             "",
	} {
		got := ""
		if user, addr, ok := parseSSH(command); ok {
			got = user + " " + addr
		}
		if got != want {
			t.Errorf("%q is %q; want %q", command, got, want)
		}
	}
}

func FuzzParseSSH(f *testing.F) {
	for _, command := range []string{"ssh -o A=b -p 11014 root@sshn.example.net", "ssh root@h -p 1", "ssh -p1 -l u h", "ssh ::1", "ssh -p", "ssh @"} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		user, addr, ok := parseSSH(command)
		if !ok {
			return
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || port == "" || strings.ContainsAny(host+port, " /@") {
			t.Errorf("%q is %q, %q: %v", command, user, addr, err)
		}
	})
}

package ssh

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A known_hosts file with any text accepts no key that it does not contain.
func FuzzKnownHosts(f *testing.F) {
	known1, err := NewKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	unknown, err := NewKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range []string{
		"host.lab " + known1.Public + "\n", "[host.lab]:2222,10.0.0.1 " + known1.Public, "|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= " + known1.Public,
		"@cert-authority *.lab " + known1.Public, "@revoked * " + known1.Public, "* " + known1.Public, "!host.lab,* " + known1.Public, "# a comment\n\n", "host.lab ssh-ed25519 AAAA",
		"host.lab", "@", "\x00", "host.lab " + known1.Public + "\nhost.lab ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB", "?ost.* " + known1.Public + "\r\n",
	} {
		f.Add(line, "host.lab:22")
	}
	f.Add("[::1]:22 "+known1.Public, "::1")
	f.Fuzz(func(t *testing.T, text, addr string) {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check, algorithms, err := known(file, addr)
		if (check == nil) == (err == nil) {
			t.Fatalf("%v, %v", algorithms, err)
		}
		if err != nil {
			return
		}
		for _, a := range algorithms {
			if strings.TrimSpace(a) == "" {
				t.Errorf("an algorithm without a name among %q", algorithms)
			}
		}
		if err := check("", &net.TCPAddr{}, unknown.Signer.PublicKey()); err == nil {
			t.Errorf("%q accepts a key that it does not have", text)
		} else if err.Error() == "" {
			t.Error("the error has no text")
		}
	})
}

// An error about a file that is named as a key reveals only what kind of file it is.
func FuzzLoadKey(f *testing.F) {
	k, err := NewKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.Private)
	f.Add(k.Private[:len(k.Private)/2])
	f.Add([]byte(k.Public))
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		signer, err := LoadKey(file)
		if (signer == nil) == (err == nil) {
			t.Fatalf("%v, %v", signer, err)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

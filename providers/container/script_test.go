package container

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestNodeInputKeepsToOneFunction(t *testing.T) {
	node := driver.NodeRequest{HostKey: driver.HostKey{Private: "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"}}
	text := nodeInput(node, "ssh-ed25519 AAAA pool\n", "root", []string{"PATH=/bin"})
	if !strings.HasPrefix(text, "main() {\n") || !strings.HasSuffix(text, "}\nmain\n") {
		t.Errorf("a shell that gets half of this would run it:\n%s", text)
	}
	for _, want := range []string{"\n-----BEGIN KEY-----\nabc\n-----END KEY-----\n", "\nenvironment=\"PATH=/bin\" ssh-ed25519 AAAA pool\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestKeyOptions(t *testing.T) {
	got := keyOptions([]string{"PATH=/a:/b", `Q=say "hi"`, "HOME=/x", "N=a\nb", `B=c:\`, "1X=y", "EMPTY=", "E=a=b"})
	want := `environment="PATH=/a:/b",environment="Q=say \"hi\"",environment="EMPTY=",environment="E=a=b" `
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := keyOptions([]string{"HOME=/x"}); got != "" {
		t.Errorf("options of nothing: %q", got)
	}
}

// For any environment of an image, the line stays one line with the pool's key.
func FuzzKeyOptions(f *testing.F) {
	f.Add("PATH", "/bin")
	f.Add("Q", `"`)
	f.Add("B", `\`)
	f.Add("B", `\"`)
	f.Add("N", "\n")
	f.Add(`X="`, "y")
	signer, _ := newKey(f)
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	f.Fuzz(func(t *testing.T, name, value string) {
		line := keyOptions([]string{name + "=" + value, "LAST=1"}) + key
		if strings.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("more than a line: %q", line)
		}
		got, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || string(got.Marshal()) != string(signer.PublicKey().Marshal()) {
			t.Fatalf("%q: %v", line, err)
		}
		if len(options) == 0 || options[len(options)-1] != `environment="LAST=1"` {
			t.Errorf("the options of %q are %q", line, options)
		}
	})
}

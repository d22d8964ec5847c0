package vastai

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// The API does not report a node's overlay address: the node finds it, with the tools
// it has. A node with only one interface is on no overlay.
func TestOverlayAddressIsOnTheNodeAlone(t *testing.T) {
	t.Parallel()
	d := startFake(t).open(overlayed)
	for _, tool := range []string{"ip", "perl", "python3", ""} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			for _, name := range []string{"sh", "sed", "head"} {
				found, err := exec.LookPath(name)
				if err != nil || os.Symlink(found, filepath.Join(bin, name)) != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			want := ""
			if tool != "" {
				path, err := exec.LookPath(tool)
				if err == nil && tool == "python3" { // python3 may be a script that looks for the real one
					var out []byte
					out, err = exec.Command(tool, "-c", "import sys; print(sys.executable)").Output()
					path = strings.TrimSpace(string(out))
				}
				if err != nil || path == "" {
					t.Skipf("%s is not installed: %v", tool, err)
				}
				if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\nexec "+path+" \"$@\"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				want = "127.0.0.1\n"
			}
			run := func(text string) string {
				cmd := exec.Command("sh", "-c", strings.ReplaceAll(text, ":/usr/sbin:/sbin", "")) // these directories may have another tool
				cmd.Env = []string{"PATH=" + bin}
				out, err := cmd.Output()
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
				return string(out)
			}
			text := d.Scripts(driver.Instance{}).FindAddress
			if got := run(strings.NewReplacer("eth0", "lo", "eth1", "lo").Replace(text)); got != want {
				t.Errorf("it says %q; want %q", got, want)
			}
			if got := run(strings.NewReplacer("eth0", "lo", "eth1", "no-such0").Replace(text)); got != "" {
				t.Errorf("with one interface it says %q", got)
			}
		})
	}
	if text := startFake(t).open().Scripts(driver.Instance{}).FindAddress; text != "" {
		t.Errorf("without networks: %q", text)
	}
}

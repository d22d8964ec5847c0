//go:build unix

package bootstrap

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// These fake the package managers, as far as packages.sh calls them: an installed package is a file
// of its name.
const (
	fakeInstall = `for a; do case $a in -* | install | add | update | 1200 | D[Pp]kg* | Acquire*) ;; *) : >"$state/$a" ;; esac; done`
	fakeAptGet  = `case "$*" in *update*) : >"$state/.lists"; exit ;; esac
[ -e "$state/.lists" ] || { echo 'E: Unable to locate package'; exit 100; }
[ "$DEBIAN_FRONTEND" = noninteractive ] || { echo 'E: asks a question'; exit 100; }
` + fakeInstall
	fakeDpkgQuery = `case $# in 2) exit 0 ;; esac
[ -e "$state/$3" ] && echo 'installed 1.2-3'`
	fakeApk = `if [ "$1" = info ]; then [ -e "$state/$3" ]; exit; fi
` + fakeInstall
	fakeRPM = `for a; do :; done
[ -e "$state/$a" ]`
)

func TestPackagesByEveryManager(t *testing.T) {
	for _, tt := range []struct {
		name     string
		programs map[string]string
		want     []string // calls that change the node
	}{
		{"apt", map[string]string{"apt-get": fakeAptGet, "dpkg-query": fakeDpkgQuery}, []string{
			"apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=1200 -o Acquire::Retries=3 update",
			"apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=1200 -o Acquire::Retries=3 install -y --no-install-recommends g++ python3",
		}},
		{"apk", map[string]string{"apk": fakeApk}, []string{"apk add --no-cache --wait 1200 g++ python3"}},
		{"dnf", map[string]string{"dnf": fakeInstall, "rpm": fakeRPM, "yum": "exit 1"}, []string{"dnf install -y g++ python3"}},
		{"microdnf", map[string]string{"microdnf": fakeInstall, "rpm": fakeRPM}, []string{"microdnf install -y g++ python3"}},
		{"yum", map[string]string{"yum": fakeInstall, "rpm": fakeRPM}, []string{"yum install -y g++ python3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.program("id", "echo 0")
			for name, text := range tt.programs {
				n.program(name, text)
			}
			changes := func() []string {
				return slices.DeleteFunc(n.calls(), func(c string) bool {
					return strings.HasPrefix(c, "apk info") || strings.HasPrefix(c, "rpm ") ||
						strings.HasPrefix(c, "dpkg-query ") || strings.HasPrefix(c, "id ") || c == "id" || c == ""
				})
			}
			img := Image{Apt: []string{"g++", "python3"}}
			boot(t, n, img, "packages done")
			if got := changes(); !slices.Equal(got, tt.want) {
				t.Errorf("calls %q, want %q", got, tt.want)
			}
			boot(t, n, img, "packages cached")
			if got := changes(); len(got) > 0 {
				t.Errorf("what is installed was installed again: %q", got)
			}
			boot(t, n, Image{Apt: []string{"g++", "rsync"}}, "packages done")
		})
	}
}

func TestPackagesAsAnotherUser(t *testing.T) {
	img := Image{Apt: []string{"rsync"}}
	start := func(t *testing.T) *localNode {
		n := newNode(t)
		n.program("apk", fakeApk)
		n.program("id", `case $1 in -u) echo 1000 ;; *) echo ubuntu ;; esac`)
		return n
	}
	t.Run("sudo", func(t *testing.T) {
		n := start(t)
		n.program("sudo", `shift; [ "$1" = -E ] && shift; "$@"`)
		boot(t, n, img, "packages done")
		want := "sudo -n -E env DEBIAN_FRONTEND=noninteractive LC_ALL=C apk add --no-cache --wait 1200 rsync"
		if calls := n.calls(); !slices.Contains(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
	t.Run("sudo that keeps no environment", func(t *testing.T) {
		n := start(t)
		n.program("sudo", `shift; [ "$1" = -E ] && exit 1; "$@"`)
		boot(t, n, img, "packages done")
	})
	t.Run("doas", func(t *testing.T) {
		n := start(t)
		n.program("doas", `shift; "$@"`)
		boot(t, n, img, "packages done")
	})
	t.Run("sudo with a password", func(t *testing.T) {
		n := start(t)
		n.program("sudo", `echo 'sudo: a password is required' >&2; exit 1`)
		err := bootFails(t, n, img)
		for _, want := range []string{"rsync needs root", "ubuntu is not root"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
	})
	t.Run("already there", func(t *testing.T) {
		n := start(t)
		n.program("sudo", `exit 1`)
		n.sh("touch '" + n.state() + "/rsync'")
		boot(t, n, img, "packages cached")
	})
}

// Another apt may hold the lock: a cloud machine reads package lists in its first boot.
func TestPackagesWaitForAnotherApt(t *testing.T) {
	n := newNode(t)
	n.program("id", "echo 0")
	n.program("sleep", "")
	n.program("dpkg-query", fakeDpkgQuery)
	n.program("apt-get", `case "$*" in *update*) if [ ! -e "$state/.waited" ]; then
	: >"$state/.waited"
	echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)' >&2
	exit 100
fi ;; esac
`+fakeAptGet)
	out := boot(t, n, Image{Apt: []string{"rsync"}}, "packages done")
	if !strings.Contains(out, "held by process 7") {
		t.Errorf("output %q does not say what is waited for", out)
	}
}

func TestPackagesFailure(t *testing.T) {
	t.Run("unknown package", func(t *testing.T) {
		n := newNode(t)
		n.program("id", "echo 0")
		n.program("dpkg-query", fakeDpkgQuery)
		n.program("apt-get", `case "$*" in *update*) echo 'Reading package lists...'; exit ;; esac
echo 'E: Unable to locate package pyhton3' >&2; exit 100`)
		err := bootFails(t, n, Image{Apt: []string{"pyhton3"}})
		if err.ExitCode != 100 || !strings.HasSuffix(err.Error(), "Reading package lists...\n  E: Unable to locate package pyhton3") {
			t.Errorf("exit code %d, error %q", err.ExitCode, err)
		}
	})
	t.Run("no mirror", func(t *testing.T) {
		n := newNode(t)
		n.program("id", "echo 0")
		n.program("dpkg-query", fakeDpkgQuery)
		n.program("apt-get", `echo 'E: Failed to fetch' >&2; exit 100`)
		if err := bootFails(t, n, Image{Apt: []string{"rsync"}}); err.ExitCode != 100 {
			t.Errorf("exit code %d, want 100: %v", err.ExitCode, err)
		}
	})
	t.Run("no manager", func(t *testing.T) {
		err := bootFails(t, newNode(t), Image{Apt: []string{"rsync"}})
		if !strings.Contains(err.Error(), "none of apt-get") {
			t.Errorf("error %q", err)
		}
	})
}

// This uses the real package database, if this machine has one.
func TestPackagesInDpkg(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("this machine has no dpkg")
	}
	n := newNode(t)
	n.link("dpkg-query")
	n.program("apt-get", `echo "asked for: $*"; exit 100`)
	n.program("id", "echo 0")
	for _, name := range []string{"coreutils", "sed=4*", "awk"} { // awk is provided by other packages
		boot(t, n, Image{Apt: []string{name}}, "packages cached")
	}
	for _, name := range []string{"no-such-package", "sed=3*", "wk"} {
		if err := bootFails(t, n, Image{Apt: []string{name}}); !strings.Contains(err.Error(), "not installed yet: "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

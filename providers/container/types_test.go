package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var dialects = []dialect{docker, podman, nerdctl, apple}

// file returns the name of the file in testdata with a dialect's answer.
func (d dialect) file(answer string) string {
	if d == apple {
		return "apple-" + answer + ".json"
	}
	return d.String() + "-" + answer + ".json"
}

func TestParseReports(t *testing.T) {
	published := map[dialect]string{docker: "127.0.0.1:32793", podman: "127.0.0.1:44669", nerdctl: "127.0.0.1:49153", apple: ""}
	addr := map[dialect]string{docker: "192.168.144.2", podman: "10.89.0.2", nerdctl: "10.4.1.2", apple: "192.168.65.2"}
	for _, d := range dialects {
		reports, err := d.parseReports(sample(t, d.file("inspect")))
		if err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		r := reports[0]
		if r.name != "sample-0" || r.status != "running" || r.labels[labelPool] != "sample" || r.published != published[d] || r.addr != addr[d] {
			t.Errorf("%s: %+v", d, r)
		}
		in := (&containerDriver{engine: &engine{dialect: d}}).instance(r)
		if in.State != driver.InstanceRunning || in.PrivateAddr != addr[d] || in.SSH.Addr == "" || in.SSH.HostKeys[0] != "ssh-ed25519 AAAAC3Nz" {
			t.Errorf("%s: %+v", d, in)
		}
	}
}

func TestParseImage(t *testing.T) {
	for _, d := range dialects {
		r, err := d.parseImage(sample(t, d.file("image")), "")
		if err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		if !strings.HasSuffix(r.id, "77a9aa45b31d6b519ace1ab8fc09316ff4ddfc4b85c554a7b7decb756a2ef4b1") || r.arch != "amd64" ||
			len(r.env) == 0 || !strings.HasPrefix(r.env[0], "PATH=/usr/local/sbin:") {
			t.Errorf("%s: %+v", d, r)
		}
	}
	if r, err := apple.parseImage(sample(t, "apple-image.json"), "arm64"); err != nil || r.arch != "arm64" || r.env[0] != "PATH=/arm:/bin" {
		t.Errorf("another variant: %+v %v", r, err)
	}
}

func TestParseFacts(t *testing.T) {
	t.Setenv("CONTAINERD_NAMESPACE", "")
	account := map[dialect]string{docker: "7TRN:IPZB:QYBB:VPBQ:UMPP:KARE:6ZNR:XE6T:7EWV:PKF4:ZOJD:TPYS", podman: "vm:/var/lib/containers/storage",
		nerdctl: "4e9a7f2c/default"}
	for _, d := range []dialect{docker, podman, nerdctl} {
		f, err := d.parseFacts(sample(t, d.file("info")))
		if err != nil || f.account != account[d] || f.vcpus != 2 || f.memoryGiB < 23 || f.memoryGiB > 24 || f.remote || f.sizedDisk {
			t.Errorf("%s: %+v %v", d, f, err)
		}
	}
	if f, err := podman.parseFacts([]byte(`{"host":{"cpus":4,"memTotal":1073741824,"serviceIsRemote":true}}`)); err != nil || !f.remote || f.memoryGiB != 1 {
		t.Errorf("a podman machine: %+v %v", f, err)
	}
	if f, err := docker.parseFacts([]byte(`{"NCPU":1,"Driver":"zfs"}`)); err != nil || !f.sizedDisk {
		t.Errorf("zfs: %+v %v", f, err)
	}
	asDocker := `{"NCPU":1,"ID":"made up","ProductLicense":"Apache-2.0","Name":"vm","DockerRootDir":"/var/lib/containers/storage"}`
	if f, err := docker.parseFacts([]byte(asDocker)); err != nil || f.account != account[podman] {
		t.Errorf("podman that answers docker's command: %+v %v", f, err)
	}
	for _, odd := range []string{"", "[]", "{}", `{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x"]}`} {
		if f, err := docker.parseFacts([]byte(odd)); err == nil {
			t.Errorf("%q is %+v", odd, f)
		}
	}
}

func TestRemoteContext(t *testing.T) {
	for host, want := range map[string]bool{
		"unix:///var/run/docker.sock":      false,
		"npipe:////./pipe/docker_engine":   false,
		"":                                 false,
		"ssh://user@host":                  true,
		"tcp://127.0.0.1:2375":             true,
		"http://build.example.invalid:443": true,
	} {
		got, err := remoteContext([]byte(`[{"Name":"x","Endpoints":{"docker":{"Host":"` + host + `"}}}]`))
		if err != nil || got != want {
			t.Errorf("%q: %v %v", host, got, err)
		}
	}
	for _, odd := range []string{"", "{}", "[]"} {
		if _, err := remoteContext([]byte(odd)); err == nil {
			t.Errorf("%q is understood", odd)
		}
	}
}

func TestParseAppleNetworks(t *testing.T) {
	got, err := parseAppleNetworks(sample(t, "apple-networks.json"), "sample")
	if err != nil || len(got) != 1 || got[0].Name != "gputrain-sample" || got[0].Labels[labelPool] != "sample" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := parseAppleNetworks(sample(t, "apple-networks.json"), "other"); err != nil || got != nil {
		t.Errorf("%q %v", got, err)
	}
	if got, err := parseAppleNetworks(sample(t, "apple-networks.json"), ""); err != nil || len(got) != 1 || got[0].Name != "gputrain-sample" {
		t.Errorf("every pool's: %q %v", got, err)
	}
}

func TestStates(t *testing.T) {
	for status, want := range map[string]driver.InstanceState{
		"created": driver.InstancePending, "restarting": driver.InstancePending, "running": driver.InstanceRunning,
		"paused": driver.InstanceStopped, "removing": driver.InstanceStopped, "exited": driver.InstanceFailed,
		"dead": driver.InstanceFailed, "new in a later release": driver.InstanceUnknown,
	} {
		if got, _ := stateOf(report{status: status}); got != want {
			t.Errorf("%s is %v", status, got)
		}
	}
	if _, reason := stateOf(report{status: "exited", exitCode: 137, oomKilled: true}); reason != "out of memory, exited with code 137" {
		t.Errorf("the reason is %q", reason)
	}
}

func TestDialects(t *testing.T) {
	for version, want := range map[string]dialect{
		"Docker version 28.2.2, build e6534b4\n":                          docker,
		"podman version 4.3.1\n":                                          podman,
		"nerdctl version 1.7.2\n":                                         nerdctl,
		"container CLI version 0.4.1 (build: release, commit: 4ac18b5)\n": apple,
	} {
		if got, err := dialectOf(version); err != nil || got != want {
			t.Errorf("%q: %v %v", version, got, err)
		}
	}
}

// Every answer of an engine is understood or an error, never a panic or a machine without an
// ID.
func FuzzAnswers(f *testing.F) {
	for _, d := range dialects {
		for _, answer := range []string{"inspect", "image"} {
			f.Add(int(d), sample(f, d.file(answer)))
		}
	}
	f.Add(0, sample(f, "docker-info.json"))
	f.Add(1, sample(f, "podman-info.json"))
	f.Add(0, sample(f, "docker-network.json"))
	f.Add(1, sample(f, "podman-network.json"))
	f.Add(3, sample(f, "apple-networks.json"))
	f.Add(0, []byte(`[{"Id":"x","State":{"Status":"y"},"NetworkSettings":{"Ports":{"22/tcp":null}}}]`))
	f.Add(0, []byte(`[null]`))
	f.Fuzz(func(t *testing.T, n int, answer []byte) {
		d := dialects[uint(n)%uint(len(dialects))]
		reports, err := d.parseReports(answer)
		for _, r := range reports {
			if r.id == "" || r.status == "" || err != nil {
				t.Errorf("%+v %v", r, err)
			}
		}
		if r, err := d.parseImage(answer, "arm64"); err == nil && r.id == "" {
			t.Error("an image without an ID")
		}
		_, _ = d.parseFacts(answer)
		_, _ = remoteContext(answer)
		_, _ = parseAppleNetworks(answer, "sample")
		networks, err := d.parseNetworks(answer)
		for _, n := range networks {
			if n.Name == "" || err != nil {
				t.Errorf("%+v %v", n, err)
			}
		}
		_, _ = dialectOf(string(answer))
	})
}

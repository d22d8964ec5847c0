package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// A layout is the root folder of an image that a test makes.
type layout struct {
	t   testing.TB
	buf bytes.Buffer
	tar *tar.Writer

	libraries map[string]bool
}

func newLayout(t testing.TB) *layout {
	l := &layout{t: t, libraries: map[string]bool{}}
	l.tar = tar.NewWriter(&l.buf)
	return l
}

func (l *layout) add(h *tar.Header, content []byte) {
	l.t.Helper()
	h.Size = int64(len(content))
	if err := l.tar.WriteHeader(h); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.tar.Write(content); err != nil {
		l.t.Fatal(err)
	}
}

func (l *layout) file(path, text string) {
	l.add(&tar.Header{Name: path, Mode: 0o755, Typeflag: tar.TypeReg}, []byte(text))
}

func (l *layout) link(path, to string) {
	l.add(&tar.Header{Name: path, Linkname: to, Typeflag: tar.TypeSymlink}, nil)
}

// program adds a program of this machine at another path, with its libraries at the paths
// where it looks for them.
func (l *layout) program(path, command string) {
	l.t.Helper()
	found, err := exec.LookPath(command)
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			l.t.Fatalf("no %s here: install it", command)
		}
		l.t.Skipf("no %s here: install it", command)
	}
	text, err := os.ReadFile(found)
	if err != nil {
		l.t.Fatal(err)
	}
	l.file(path, string(text))
	libraries, _ := exec.Command("ldd", found).Output() // fails for a static one, which needs none
	for _, word := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(word, "/") && !l.libraries[word] {
			text, err := os.ReadFile(word)
			if err != nil {
				l.t.Fatal(err)
			}
			l.libraries[word] = true
			l.file(strings.TrimPrefix(word, "/"), string(text))
		}
	}
}

// build imports the layout as an image. The image, and images made from it, are removed at the
// end of the test.
func (l *layout) build(name string, changes ...string) string {
	l.t.Helper()
	if err := l.tar.Close(); err != nil {
		l.t.Fatal(err)
	}
	args := []string{"import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	cmd := exec.Command("docker", append(args, "-", name)...)
	cmd.Stdin = &l.buf
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("docker import: %v\n%s", err, out)
	}
	l.t.Cleanup(func() {
		ctx := context.Background()
		d, err := Config{Image: name}.Open(ctx)
		if err == nil {
			if ready, _, err := d.(*containerDriver).images.readyName(ctx); err == nil {
				_ = exec.Command("docker", "image", "rm", ready).Run()
			}
		}
		do(l.t, "docker", "image", "rm", name)
	})
	return name
}

// alpineLike builds an image of busybox without an SSH server, with a locked root account, and
// with a fake apk that unpacks a prepared server.
func alpineLike(t testing.TB, name string) string {
	t.Helper()
	l := newLayout(t)
	l.program("bin/busybox", "busybox")
	applets, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range strings.Fields(string(applets)) {
		if a != "busybox" {
			l.link("bin/"+a, "/bin/busybox")
		}
	}
	l.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsshd:x:22:22::/run/sshd:/bin/false\n")
	l.file("etc/group", "root:x:0:\n")
	l.file("etc/shadow", "root:!:20000:0:::::\n")
	l.file("etc/ssh/ssh_host_ed25519_key", "a key that came with the package\n")
	l.program("opt/package/sshd", "/usr/sbin/sshd") // where only the fake apk finds it
	const session = "/usr/lib/openssh/sshd-session" // the other half of sshd, since OpenSSH 9.8
	if _, err := os.Stat(session); err == nil {
		l.program(strings.TrimPrefix(session, "/"), session)
	}
	l.file("sbin/apk", `#!/bin/sh
case "$1 $2 $3 $4" in
"info -e "*) [ -e "/installed/$3" ]; exit ;;
esac
echo "$*" >>/apk-calls
case "$*" in
"add --no-cache --wait 1200 absent") echo "there is no such package" >&2; exit 1 ;;
"add --no-cache --wait 1200 "*) mkdir -p /installed && : >"/installed/$5"; exit ;;
esac
[ "$*" = "add --no-cache openssh-server" ] || exit 1
mkdir -p /usr/sbin /root && cp /opt/package/sshd /usr/sbin/sshd
`)
	return l.build(name, "ENV PATH=/opt/tools/bin:/sbin:/bin", `ENV GREETING='say "hi" to $HOME'`, "ENTRYPOINT [\"/bin/false\"]", "USER nobody")
}

func TestImageIsMadeReadyOnce(t *testing.T) {
	long(t)
	requireDocker(t)
	image := alpineLike(t, "gputrain-test/alpine-like:once")
	r := newRig(t, Config{Image: image})

	// Many pools that need the same image at once make it once.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			d, err := Config{Image: image}.Open(t.Context())
			if err == nil {
				_, _, err = d.(*containerDriver).images.readyImage(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ready, env, err := r.driver.images.readyImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := do(t, "docker", "image", "inspect", "--format", "{{.Id}}", ready)
	if len(env) != 2 {
		t.Errorf("the environment is %q", env)
	}
	nodes := r.up(1, gputrain.Spec{})
	if again := do(t, "docker", "image", "inspect", "--format", "{{.Id}}", ready); again != id {
		t.Error("the ready image was made again")
	}
	c := r.connect(nodes[0])
	if got := r.sh(c, "cat /apk-calls"); got != "add --no-cache openssh-server" {
		t.Errorf("apk was called with %q", got)
	}
	if got := r.sh(c, "ls /etc/ssh"); got != "" {
		t.Errorf("the image has a host key that every node shares: %s", got)
	}
	if got := r.sh(c, `echo "$PATH|$GREETING|$HOME"`); got != `/opt/tools/bin:/sbin:/bin|say "hi" to $HOME|/root` {
		t.Errorf("a session has the environment %q", got)
	}
	// The one container is the node, which has the label from its image.
	if got := do(t, "docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", "ancestor="+ready); got != nodes[0].ID {
		t.Errorf("a container that made the image is left: %s", got)
	}
}

func TestImageWithSSHServerIsUsedAsItIs(t *testing.T) {
	onEngines(t, func(t *testing.T, binary string) {
		image := imageWithSSHServer(t, binary)
		r := newRig(t, Config{Binary: binary, Image: image})
		ready, _, err := r.driver.images.readyImage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := func(name string) string { return r.do("image", "inspect", "--format", "{{.Id}}", name) }
		if id(ready) != id(image) {
			t.Error("another image was made")
		}
	})
}

// imageWithSSHServer returns one of the default images that has an SSH server: Debian's own
// has none.
func imageWithSSHServer(t *testing.T, binary string) string {
	t.Helper()
	for _, image := range []string{HomeMadeImage, DefaultImage} {
		if exec.Command(binary, "run", "--rm", "--pull", "never", "--entrypoint", "test", image, "-x", "/usr/sbin/sshd").Run() == nil {
			return image
		}
	}
	t.Skip("no image with an SSH server here: CONTAINER_BINARY=" + binary + " scripts/container-image --force makes one")
	return ""
}

func TestImageThatCannotBeMadeReady(t *testing.T) {
	long(t)
	requireDocker(t)
	empty := newLayout(t)
	empty.file("nothing", "")
	bare := newLayout(t)
	bare.program("bin/sh", "sh")
	broken := newLayout(t)
	broken.program("bin/sh", "sh")
	broken.file("usr/bin/apt-get", "#!/bin/sh\necho mirror is out of reach >&2\nexit 100\n")

	for _, tt := range []struct {
		name, image string
		kind        error
		text        string
	}{
		{"no shell", empty.build("gputrain-test/empty:1"), driver.ErrUnsupported, "has no shell"},
		{"no package manager", bare.build("gputrain-test/bare:1"), driver.ErrUnsupported, "none of apt-get, apk, dnf"},
		{"no mirror", broken.build("gputrain-test/broken:1"), driver.ErrBootstrap, "mirror is out of reach"},
		{"no image", "registry.invalid/nothing:1", driver.ErrNotFound, "cannot pull it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{Image: tt.image})
			err := r.driver.Prepare(t.Context(), r.pool)
			var e *driver.Error
			if !errors.As(err, &e) || !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || e.Hint == "" {
				t.Errorf("Prepare: %v", err)
			}
			if errors.As(err, &e) && (e.Provider != "container" || e.Op != "prepare") {
				t.Errorf("provider %q, operation %q", e.Provider, e.Op)
			}
		})
	}
	if left := do(t, "docker", "ps", "--all", "--quiet", "--filter", "label="+labelReady); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// If a program gives up while an image is made ready, no container and no image is left.
func TestCancellingWhileMadeReady(t *testing.T) {
	long(t)
	requireDocker(t)
	l := newLayout(t)
	l.program("bin/sh", "sh")
	l.program("bin/sleep", "sleep")
	l.file("usr/bin/apt-get", "#!/bin/sh\nexec sleep 1000\n")
	r := newRig(t, Config{Image: l.build("gputrain-test/slow:1")})
	ready, _, err := r.driver.images.readyName(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, hash, _ := strings.Cut(ready, ":")
	builders := func() string {
		return do(t, "docker", "ps", "--quiet", "--filter", "label="+labelReady+"="+hash)
	}
	ctx, cancel := context.WithCancel(t.Context())
	prepared := make(chan error, 1)
	go func() { prepared <- r.driver.Prepare(ctx, r.pool) }()
	for builders() == "" {
		retry.Sleep(t.Context(), settleInterval)
	}
	cancel()
	if err := <-prepared; !errors.Is(err, context.Canceled) {
		t.Errorf("Prepare: %v", err)
	}
	if left := builders(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if exec.Command("docker", "image", "inspect", ready).Run() == nil {
		t.Error("half an image was kept")
	}
}

// Debian's own apt-get installs the SSH server that an image lacks. This needs a package
// mirror; the test is skipped if containers do not reach one.
func TestDebianIsMadeReady(t *testing.T) {
	long(t)
	requireDocker(t)
	const name = "gputrain-test/debian-without-sshd:1"
	box := do(t, "docker", "run", "--detach", "--pull", "never", defaultOf("docker"), "sh", "-c",
		"dpkg --purge openssh-server openssh-sftp-server >/dev/null 2>&1; timeout 20 apt-get -qq update; echo $? >/reached; rm -rf /var/lib/apt/lists/*")
	t.Cleanup(func() { do(t, "docker", "rm", "--force", box) })
	do(t, "docker", "wait", box)
	do(t, "docker", "commit", box, name)
	t.Cleanup(func() { do(t, "docker", "image", "rm", name) })
	if do(t, "docker", "run", "--rm", "--pull", "never", name, "cat", "/reached") != "0" {
		t.Skip("containers do not reach a package mirror here")
	}
	r := newRig(t, Config{Image: name})
	nodes := r.up(1, gputrain.Spec{})
	t.Cleanup(func() {
		ready := do(t, "docker", "inspect", "--format", "{{.Config.Image}}", nodes[0].ID)
		r.end(context.Background())
		do(t, "docker", "image", "rm", ready)
	})
	if got := r.sh(r.connect(nodes[0]), "ls /etc/ssh/ssh_host_* 2>/dev/null; ls -A /var/lib/apt/lists; dpkg-query -W -f '${Status}' openssh-server"); got != "install ok installed" {
		t.Errorf("on the node: %s", got)
	}
}

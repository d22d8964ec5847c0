// Package registrytest runs a private registry of container images for tests: Debian's docker-registry, on a free port of
// 127.0.0.1, from which Docker pulls without TLS.
package registrytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// A Registry is a registry that only its user can pull from and push to.
type Registry struct {
	// Addr is its host and port, with which the names of its images begin.
	Addr           string
	User, Password string
}

// Start starts a registry, which ends with the test. If docker-registry or a container engine is missing, the test is
// skipped, or fails if GPUTRAIN_REQUIRE_DOCKER is set.
func Start(t testing.TB) *Registry {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatalf("%v, and GPUTRAIN_REQUIRE_DOCKER is set: install docker-registry", err)
		}
		t.Skipf("%v: install docker-registry", err)
	}
	r := &Registry{Addr: freeAddr(t), User: "robot", Password: "pw-" + strings.ReplaceAll(t.Name(), "/", "-") + "-9f2c"}
	hash, err := bcrypt.GenerateFromPassword([]byte(r.Password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "htpasswd"), r.User+":"+string(hash)+"\n")
	write(t, filepath.Join(dir, "config.yml"), fmt.Sprintf(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: %q}
auth: {htpasswd: {realm: test, path: %q}}
`, filepath.Join(dir, "data"), r.Addr, filepath.Join(dir, "htpasswd")))
	var said bytes.Buffer
	cmd := exec.Command(program, "serve", filepath.Join(dir, "config.yml"))
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := client.Get("http://" + r.Addr + "/v2/")
		if err == nil {
			answer.Body.Close()
			return r
		}
		select {
		case <-ended:
			t.Fatalf("the registry has ended:\n%s", said.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Name returns the name of an image of the registry.
func (r *Registry) Name(image string) string { return r.Addr + "/" + image }

// Push pushes a small image for a platform: "linux/amd64". env are its variables, as "NAME=value", and user is its user,
// or "". No engine has it after that.
func (r *Registry) Push(t testing.TB, image, platform string, content Content, user string, env ...string) {
	t.Helper()
	name, tag, _ := strings.Cut(image, ":")
	layer := content.archive(t)
	system, arch, _ := strings.Cut(platform, "/")
	config := toJSON(t, map[string]any{
		"os": system, "architecture": arch, "config": map[string]any{"Env": append([]string{"PATH=/bin"}, env...), "User": user},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	blob := func(kind string, content []byte) map[string]any {
		r.upload(t, name, content)
		return map[string]any{"mediaType": kind, "size": len(content), "digest": digest(content)}
	}
	manifest := toJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": kind,
		"config": blob("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{blob("application/vnd.docker.image.rootfs.diff.tar", layer)},
	})
	if tag == "" {
		tag = "latest"
	}
	r.call(t, "PUT", "http://"+r.Addr+"/v2/"+name+"/manifests/"+tag, kind, manifest)
}

// upload makes a blob.
func (r *Registry) upload(t testing.TB, name string, content []byte) {
	t.Helper()
	to := r.call(t, "POST", "http://"+r.Addr+"/v2/"+name+"/blobs/uploads/", "", nil).Get("Location")
	r.call(t, "PUT", to+"&digest="+digest(content), "application/octet-stream", content)
}

func (r *Registry) call(t testing.TB, method, address, kind string, body []byte) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(r.User, r.Password)
	req.Header.Set("Content-Type", kind)
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s: %s: %s", method, address, answer.Status, text)
	}
	return answer.Header
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func toJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

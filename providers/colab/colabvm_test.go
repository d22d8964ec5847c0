//go:build linux

package colab_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	ngrokToken = "2abcDEFtoken_ofNgrok"
	sshd       = "/usr/sbin/sshd"
)

// A colabVM simulates the parts of a runtime that the cell needs: the notebook's secrets,
// ngrok with its API, nvidia-smi, and the system's files. Its SSH server is real.
type colabVM struct {
	t     *testing.T
	home  string
	bin   string // first in PATH
	said  string // folder of ngrok's tokens and arguments, one file per process
	lib   string // first in PYTHONPATH
	key   string // the private key; the cell gets its public half
	stdin string
	calls string            // file of the commands that would change the system
	edits map[string]string // replacements in the cell's text

	tunnels map[string]*opensshtest.Link // by ngrok's process id
}

func newColabVM(t *testing.T) *colabVM {
	t.Helper()
	dir := t.TempDir()
	v := &colabVM{
		t: t, home: filepath.Join(dir, "root"), bin: filepath.Join(dir, "bin"), said: filepath.Join(dir, "ngrok"), lib: filepath.Join(dir, "lib"),
		key: filepath.Join(dir, "id_ed25519"), calls: filepath.Join(dir, "calls"), tunnels: map[string]*opensshtest.Link{},
	}
	for _, d := range []string{v.home, v.bin, v.said, filepath.Join(v.lib, "google", "colab")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", v.key).Run())
	must(t, os.WriteFile(filepath.Join(v.lib, "google", "colab", "userdata.py"), fmt.Appendf(nil, "def get(name):\n    return {'NGROK_AUTHTOKEN': %q}[name]\n", ngrokToken), 0o600))
	script(t, filepath.Join(v.bin, "nvidia-smi"), `case $1 in *driver_version) echo Tesla T4, 15360, 550.54.15;; --query-gpu=*) echo Tesla T4, 15360;; esac`)
	v.ngrok(`i=0; while [ $i -lt 6000 ]; do sleep 0.1; i=$((i+1)); done`)
	for _, name := range []string{"apt-get", "service", "usermod"} { // which must not change the machine of this test
		script(t, filepath.Join(v.bin, name), fmt.Sprintf(`echo %s "$@" >>'%s'`, name, v.calls))
	}
	if _, err := os.Stat(sshd); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}

	t.Cleanup(func() { // after those of its runs
		for _, pid := range processesOf(dir) {
			t.Errorf("process %d is left", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})

	shadow := filepath.Join(dir, "shadow")
	must(t, os.WriteFile(shadow, []byte("root:*:19000:0:99999:7:::\n"), 0o600))
	agent := fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")}})
	agent.Handle("GET /api/tunnels", func(*fakecloud.Call) fakecloud.Answer {
		return fakecloud.Reply(200, map[string]any{"tunnels": v.open(), "uri": "/api/tunnels"})
	})
	v.edits = map[string]string{
		"I_MAY_AUTOMATE_THIS_RUNTIME = False": "I_MAY_AUTOMATE_THIS_RUNTIME = True",
		`"/etc/shadow"`:                       strconv.Quote(shadow),
		"http://127.0.0.1:4040":               agent.URL,
		"PAUSE = 5":                           "PAUSE = 0",
	}
	return v
}

// ngrok installs a fake ngrok that records its token and arguments, and then runs a shell
// script.
func (v *colabVM) ngrok(does string) {
	script(v.t, filepath.Join(v.bin, "ngrok"), fmt.Sprintf(`f='%s'/$$; printf '%%s\n' "$NGROK_AUTHTOKEN" "$@" >"$f.new"; mv "$f.new" "$f"; `, v.said)+does)
}

// agents returns the recorded token and arguments of ngrok's processes.
func (v *colabVM) agents() map[string][]string {
	found := map[string][]string{}
	files, _ := filepath.Glob(filepath.Join(v.said, "*[0-9]"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(v.t, err)
		found[filepath.Base(file)] = strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	return found
}

// open answers like ngrok's agent: with a tunnel to the running ngrok's address, and another
// tunnel of the notebook's own.
func (v *colabVM) open() []any {
	answer := []any{tunnelTo("tcp://another.invalid:1", "localhost:7860")}
	for pid, said := range v.agents() {
		if !runs(pid) {
			continue
		}
		if v.tunnels[pid] == nil {
			v.tunnels[pid] = opensshtest.Proxy(v.t, said[len(said)-1])
		}
		answer = append(answer, tunnelTo("tcp://"+v.tunnels[pid].Addr, said[len(said)-1]))
	}
	return answer
}

func tunnelTo(url, addr string) map[string]any {
	return map[string]any{"name": "command_line", "proto": "tcp", "public_url": url, "config": map[string]any{"addr": addr}}
}

// runs reports whether a process exists and has not ended.
func runs(pid string) bool {
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && len(line) > 0
}

// wantEnded waits until an ngrok, and the SSH server at an address, have ended.
func (v *colabVM) wantEnded(pid, addr string) {
	v.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		if !runs(pid) && err != nil {
			return
		}
		if time.Now().After(deadline) {
			v.t.Errorf("ngrok (process %s) or the SSH server at %s runs on: %t, %t", pid, addr, runs(pid), err == nil)
			return
		}
	}
}

// isClosed checks that no process of the cell runs, and that no file has the token.
func (v *colabVM) isClosed() {
	v.t.Helper()
	for pid, said := range v.agents() {
		v.wantEnded(pid, said[len(said)-1])
	}
	for _, name := range tree(v.home) {
		if b, _ := os.ReadFile(filepath.Join(v.home, name)); bytes.Contains(b, []byte(ngrokToken)) {
			v.t.Errorf("%s has the token", name)
		}
	}
}

// processesOf returns the processes whose command line has a path below the folder.
func processesOf(dir string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && bytes.Contains(line, []byte(dir+"/")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A cellRun is a running cell.
type cellRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	text *bufio.Scanner

	wait func() error
	out  bytes.Buffer // its output so far
}

func (v *colabVM) run() *cellRun {
	v.t.Helper()
	public, err := os.ReadFile(v.key + ".pub")
	must(v.t, err)
	text, err := colab.BootstrapCell(string(public))
	must(v.t, err)
	for old, changed := range v.edits {
		if strings.Count(text, old) != 1 {
			v.t.Fatalf("the cell has %q %d times", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, changed, 1)
	}
	file := filepath.Join(v.t.TempDir(), "cell.py")
	must(v.t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.Command(interpreter(v.t), "-u", file)
	cmd.Env = []string{
		"HOME=" + v.home, "PATH=" + v.bin + ":" + os.Getenv("PATH"), "PYTHONPATH=" + v.lib,
		"COLAB_RELEASE_TAG=release-1", "COLAB_AUTH_TOKEN=not for sessions", "OTHER=not for sessions",
	}
	cmd.Stdin = strings.NewReader(v.stdin)
	r, w, err := os.Pipe()
	must(v.t, err)
	cmd.Stdout, cmd.Stderr = w, w
	must(v.t, cmd.Start())
	w.Close()
	c := &cellRun{t: v.t, cmd: cmd, wait: sync.OnceValue(cmd.Wait)}
	c.text = bufio.NewScanner(io.TeeReader(r, &c.out))
	v.t.Cleanup(func() {
		deadline := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
		cmd.Process.Signal(os.Interrupt)
		c.wait()
		deadline.Stop()
		r.Close()
		if v.t.Failed() {
			v.t.Logf("the cell says:\n%s", c.out.String())
		}
	})
	return c
}

// until reads the cell's output up to a line with this beginning, and returns the line.
func (c *cellRun) until(start string) string {
	c.t.Helper()
	for c.text.Scan() {
		if strings.HasPrefix(c.text.Text(), start) {
			return c.text.Text()
		}
	}
	c.t.Fatalf("the cell ended, and never said %q:\n%s", start, c.out.String())
	return ""
}

// endpoint reads an announcement: the JSON, which must match its contract, and the equal Go.
func (c *cellRun) endpoint() colab.Endpoint {
	c.t.Helper()
	document := []byte(c.until("{"))
	schema, err := jsonschema.NewCompiler().Compile("testdata/endpoint.schema.json")
	must(c.t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	must(c.t, err)
	if err := schema.Validate(value); err != nil {
		c.t.Errorf("the contract does not allow %s: %v", document, err)
	}
	e, err := colab.ParseEndpoint(document)
	must(c.t, err)
	if got := fromGo(c.t, c.snippet()); got != e {
		c.t.Errorf("in Go it is %+v, and in JSON %+v", got, e)
	}
	if known := c.until("["); known != fmt.Sprintf("[%s]:%d %s", e.Host, e.Port, e.HostKey) {
		c.t.Errorf("for known_hosts it is %q, and in JSON %+v", known, e)
	}
	c.until("Leave this cell running.")
	return e
}

// snippet reads the Go in an announcement.
func (c *cellRun) snippet() string {
	text := c.until("endpoint := ") + "\n"
	for c.text.Scan() {
		text += c.text.Text() + "\n"
		if c.text.Text() == "}" {
			break
		}
	}
	return text
}

// fromGo parses a composite literal of an Endpoint, which must be formatted.
func fromGo(t *testing.T, text string) (e colab.Endpoint) {
	t.Helper()
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("gofmt makes %s of %s: %v", formatted, text, err)
	}
	expr, err := parser.ParseExpr(strings.TrimPrefix(text, "endpoint := "))
	must(t, err)
	for _, field := range expr.(*ast.CompositeLit).Elts {
		pair := field.(*ast.KeyValueExpr)
		value := pair.Value.(*ast.BasicLit).Value
		text, _ := strconv.Unquote(value)
		switch name := pair.Key.(*ast.Ident).Name; name {
		case "Host":
			e.Host = text
		case "Port":
			e.Port, err = strconv.Atoi(value)
			must(t, err)
		case "User":
			e.User = text
		case "HostKey":
			e.HostKey = text
		default:
			t.Errorf("an Endpoint has no %s", name)
		}
	}
	return e
}

// ends waits for the cell's end, and returns all of its output.
func (c *cellRun) ends(code int) string {
	c.t.Helper()
	for c.text.Scan() {
	}
	err := c.wait()
	exit, _ := errors.AsType[*exec.ExitError](err)
	if code == 0 && err != nil || code != 0 && (exit == nil || exit.ExitCode() != code) {
		c.t.Errorf("the cell ended with %v; want exit status %d", err, code)
	}
	return c.out.String()
}

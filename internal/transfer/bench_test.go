package transfer

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

// Each benchmark has what others reach beside it, over the same server.

const bulkBytes = 256 << 20

func BenchmarkUpload256MiB(b *testing.B) {
	s := opensshtest.Start(b)
	local := bigFile(b)
	bench := func(name string, run func(r *Remote, to string) error) {
		b.Run(name, func(b *testing.B) {
			r := reach(b, s, s.Addr)
			b.SetBytes(bulkBytes)
			for b.Loop() {
				must(b, run(r, filepath.Join(r.Dir, "big")))
			}
		})
	}
	bench("ours", func(r *Remote, to string) error { return r.Upload(b.Context(), local, to, Options{}) })
	bench("ours-openssl", func(r *Remote, to string) error {
		r.Tools.SHA256 = "openssl dgst -sha256 -r"
		return r.Upload(b.Context(), local, to, Options{})
	})
	bench("ours-unchecked", func(r *Remote, to string) error {
		r.Tools.SHA256 = ""
		return r.Upload(b.Context(), local, to, Options{})
	})
	raw := rawClient(b, s)
	bench("raw-cat", func(r *Remote, to string) error { return rawCat(raw, local, to) })
	others(b, "scp", func(to string) *exec.Cmd {
		return exec.Command("scp", append(sshOptions(b, s, "-P"), "-q", local, s.User+"@127.0.0.1:"+to)...)
	}, s)
}

func Benchmark2000SmallFiles(b *testing.B) {
	s := opensshtest.Start(b)
	local := smallFiles(b, 2000)
	b.Run("ours", func(b *testing.B) {
		r := reach(b, s, s.Addr)
		for n := 0; b.Loop(); n++ {
			must(b, r.Upload(b.Context(), local, fmt.Sprint(n), Options{}))
		}
	})
	b.Run("ours-again", func(b *testing.B) {
		r := reach(b, s, s.Addr)
		for b.Loop() {
			must(b, r.Upload(b.Context(), local, "same", Options{}))
		}
	})
	b.Run("ours-sftp", func(b *testing.B) {
		r := reach(b, s, s.Addr)
		r.Tools.Tar = false
		for n := 0; b.Loop(); n++ {
			must(b, r.Upload(b.Context(), local, fmt.Sprint(n), Options{}))
		}
	})
	b.Run("ours-sync-unchanged", func(b *testing.B) {
		r := reach(b, s, s.Addr)
		for b.Loop() {
			_, err := r.Sync(b.Context(), []Entry{{Local: local, Remote: "x"}})
			must(b, err)
		}
	})
	others(b, "scp", func(to string) *exec.Cmd {
		return exec.Command("scp", append(sshOptions(b, s, "-P"), "-q", "-r", local, s.User+"@127.0.0.1:"+to)...)
	}, s)
	others(b, "rsync", func(to string) *exec.Cmd {
		shell := "ssh"
		for _, o := range sshOptions(b, s, "-p") {
			shell += " " + o
		}
		return exec.Command("rsync", "-a", "-e", shell, local+"/", s.User+"@127.0.0.1:"+to)
	}, s)
}

// BenchmarkUploadFarAway is over a network with 20 ms from end to end.
func BenchmarkUploadFarAway(b *testing.B) {
	s := opensshtest.Start(b)
	l := opensshtest.Proxy(b, s.Addr)
	l.Delay(10 * time.Millisecond)
	local := bigFile(b)
	b.Run("256MiB", func(b *testing.B) {
		r := reach(b, s, l.Addr)
		b.SetBytes(bulkBytes)
		for b.Loop() {
			must(b, r.Upload(b.Context(), local, "big", Options{}))
		}
	})
	small := smallFiles(b, 200)
	b.Run("200SmallFiles", func(b *testing.B) {
		r := reach(b, s, l.Addr)
		for n := 0; b.Loop(); n++ {
			must(b, r.Upload(b.Context(), small, fmt.Sprint(n), Options{}))
		}
	})
}

func bigFile(b *testing.B) string {
	name := filepath.Join(b.TempDir(), "big")
	f, err := os.Create(name)
	must(b, err)
	defer f.Close()
	_, err = io.CopyN(f, rand.Reader, bulkBytes)
	must(b, err)
	return name
}

func smallFiles(b *testing.B, n int) string {
	dir := b.TempDir()
	content := make([]byte, 4<<10)
	for i := range n {
		rand.Read(content)
		write(b, filepath.Join(dir, fmt.Sprintf("%02d", i%20), fmt.Sprint(i)), string(content))
	}
	return dir
}

// others runs a program that must be installed.
func others(b *testing.B, name string, command func(string) *exec.Cmd, s *opensshtest.Server) {
	b.Run(name, func(b *testing.B) {
		if _, err := exec.LookPath(name); err != nil {
			b.Skip("no " + name + " on this machine")
		}
		dir := b.TempDir()
		for n := 0; b.Loop(); n++ {
			if out, err := command(filepath.Join(dir, fmt.Sprint(n))).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}

// sshOptions make OpenSSH's programs log in as the tests do, and nothing else.
func sshOptions(b *testing.B, s *opensshtest.Server, portFlag string) []string {
	host, port, err := net.SplitHostPort(s.Addr)
	must(b, err)
	known := filepath.Join(b.TempDir(), "known_hosts")
	must(b, os.WriteFile(known, []byte("["+host+"]:"+port+" "+string(xssh.MarshalAuthorizedKey(s.HostKey))), 0o600))
	return []string{"-F", "none", "-o", "UserKnownHostsFile=" + known, "-o", "IdentitiesOnly=yes", "-i", s.KeyFile, portFlag, port}
}

func rawClient(b *testing.B, s *opensshtest.Server) *xssh.Client {
	c, err := xssh.Dial("tcp", s.Addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
	})
	must(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

func rawCat(c *xssh.Client, local, to string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	in, err := s.StdinPipe()
	if err != nil {
		return err
	}
	if err := s.Start("cat >" + quote(to)); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(onlyWriter{in}, struct{ io.Reader }{f}, make([]byte, chunk)); err != nil {
		return err
	}
	in.Close()
	return s.Wait()
}

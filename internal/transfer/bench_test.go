package transfer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

// Figures are ratios. In each benchmark all contenders do the same work with the same server in turn: this package,
// golang.org/x/crypto/ssh alone, and common programs, which share an open connection.

const bulkBytes = 256 << 20

// A contender does the work once. to is a path without a file, on the node or here.
type contender struct {
	name string
	run  func(to string) error
}

// turns runs each contender once a round, and reports the median time of each, and its ratio to the first.
func turns(b *testing.B, contenders ...contender) {
	b.Helper()
	times := make([][]float64, len(contenders))
	dir := b.TempDir()
	for round := range b.N + 1 {
		for i, c := range contenders {
			to := filepath.Join(dir, fmt.Sprintf("%s-%d", c.name, round))
			start := time.Now()
			if err := c.run(to); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
			if took := time.Since(start); round > 0 { // the first round is a warm-up
				times[i] = append(times[i], took.Seconds())
			}
			must(b, os.RemoveAll(to))
		}
	}
	for i, c := range contenders {
		ratios := make([]float64, len(times[i]))
		for round, took := range times[i] {
			ratios[round] = took / times[0][round]
		}
		b.ReportMetric(1000*median(times[i]), c.name+"-ms")
		b.ReportMetric(median(ratios), c.name+"-x")
	}
	b.ReportMetric(0, "ns/op")
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// far returns the address of a link to the server with a round trip of 20 ms.
func far(b *testing.B, s *opensshtest.Server) string {
	l := opensshtest.Proxy(b, s.Addr)
	l.Delay(10 * time.Millisecond)
	return l.Addr
}

// everywhere runs a benchmark beside the server and 20 ms away. The server's home folder is empty: the cost of a login
// script is not measured.
func everywhere(b *testing.B, run func(b *testing.B, s *opensshtest.Server, addr string)) {
	s := opensshtest.Start(b, opensshtest.DefaultLimits, opensshtest.Config("SetEnv HOME="+b.TempDir()))
	b.Run("near", func(b *testing.B) { run(b, s, s.Addr) })
	b.Run("20ms", func(b *testing.B) { run(b, s, far(b, s)) })
}

func BenchmarkUpload256MiB(b *testing.B) {
	local := bigFile(b)
	everywhere(b, func(b *testing.B, s *opensshtest.Server, addr string) {
		raw, r := rawClient(b, s, addr), reach(b, s, addr)
		turns(b, append([]contender{{"raw", func(to string) error {
			f, err := os.Open(local)
			if err != nil {
				return err
			}
			defer f.Close()
			return rawRun(raw, "cat >"+quote(to), f, nil)
		}}, {"ours", func(to string) error { return r.Upload(b.Context(), local, to, Options{}) }}},
			installed(b, s, addr, "scp", "-q", local)...)...)
	})
}

func BenchmarkDownload256MiB(b *testing.B) {
	there := bigFile(b)
	everywhere(b, func(b *testing.B, s *opensshtest.Server, addr string) {
		raw, r := rawClient(b, s, addr), reach(b, s, addr)
		r.Dir = filepath.Dir(there)
		turns(b, contender{"raw", func(to string) error {
			f, err := os.Create(to)
			if err != nil {
				return err
			}
			defer f.Close()
			return rawRun(raw, "cat "+quote(there), nil, f)
		}}, contender{"ours", func(to string) error { return r.Download(b.Context(), there, to, DownloadOptions{}) }},
			contender{"fetch", func(to string) error {
				_, err := r.Fetch(b.Context(), []string{filepath.Base(there)}, to, FetchOptions{})
				return err
			}})
	})
}

func BenchmarkUpload2000Files(b *testing.B) {
	local := smallFiles(b, 2000)
	everywhere(b, func(b *testing.B, s *opensshtest.Server, addr string) {
		raw, r := rawClient(b, s, addr), reach(b, s, addr)
		all := []contender{{"raw", func(to string) error { return rawTar(raw, local, to) }},
			{"ours", func(to string) error { return r.Upload(b.Context(), local, to, Options{}) }}}
		all = append(all, installed(b, s, addr, "rsync", "-a", local+"/")...)
		turns(b, append(all, installed(b, s, addr, "scp", "-q", "-r", local)...)...)
	})
}

func BenchmarkUpload2000UnchangedFiles(b *testing.B) {
	local := smallFiles(b, 2000)
	everywhere(b, func(b *testing.B, s *opensshtest.Server, addr string) {
		r := reach(b, s, addr)
		there := b.TempDir()
		var all []contender
		for _, c := range installed(b, s, addr, "rsync", "-a", local+"/") {
			all = append(all, contender{c.name, func(string) error { return c.run(filepath.Join(there, "rsync")) }})
		}
		turns(b, append(all,
			contender{"ours", func(string) error { return r.Upload(b.Context(), local, filepath.Join(there, "ours"), Options{}) }},
			contender{"sync", func(string) error {
				_, err := r.Sync(b.Context(), []Entry{{Local: local, Remote: "sync"}}, nil)
				return err
			}})...)
	})
}

func BenchmarkDownload2000Files(b *testing.B) {
	there := smallFiles(b, 2000)
	everywhere(b, func(b *testing.B, s *opensshtest.Server, addr string) {
		raw, r := rawClient(b, s, addr), reach(b, s, addr)
		r.Dir = there
		turns(b, contender{"raw", func(to string) error { return rawUntar(raw, there, to) }},
			contender{"ours", func(to string) error { return r.Download(b.Context(), there, to, DownloadOptions{}) }},
			contender{"fetch", func(to string) error {
				_, err := r.Fetch(b.Context(), []string{"**"}, to, FetchOptions{})
				return err
			}})
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
	dir := filepath.Join(b.TempDir(), "small")
	content := make([]byte, 4<<10)
	then := time.Now().Add(-time.Hour)
	for i := range n {
		rand.Read(content)
		name := filepath.Join(dir, fmt.Sprintf("%02d", i%20), fmt.Sprint(i))
		write(b, name, string(content))
		must(b, os.Chtimes(name, then, then))
	}
	return dir
}

// installed returns a contender for a program that copies to the server, if this machine has it. It uses an open
// connection.
func installed(b *testing.B, s *opensshtest.Server, addr, name string, args ...string) []contender {
	if _, err := exec.LookPath(name); err != nil {
		b.Log("no " + name + " on this machine")
		return nil
	}
	ssh := master(b, s, addr)
	if name == "rsync" {
		args = append([]string{"-e", ssh}, args...)
	} else {
		args = append([]string{"-S", ssh}, args...)
	}
	return []contender{{name, func(to string) error {
		if out, err := exec.Command(name, append(args, s.User+"@127.0.0.1:"+to)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}}}
}

// master opens a connection with OpenSSH's client, and returns an ssh program that uses it.
func master(b *testing.B, s *opensshtest.Server, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	must(b, err)
	dir, err := os.MkdirTemp("", "ssh") // a socket's name must be short
	must(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	known := "[" + host + "]:" + port + " " + string(xssh.MarshalAuthorizedKey(s.HostKey))
	must(b, os.WriteFile(filepath.Join(dir, "known"), []byte(known), 0o600))
	must(b, os.WriteFile(filepath.Join(dir, "config"), []byte(fmt.Sprintf(
		"Port %s\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s/known\nControlPath %s/s\nControlMaster auto\n", port, s.KeyFile, dir, dir)), 0o600))
	ssh := filepath.Join(dir, "ssh")
	must(b, os.WriteFile(ssh, []byte(fmt.Sprintf("#!/bin/sh\nexec ssh -F %s/config \"$@\"\n", dir)), 0o700))
	cmd := exec.Command(ssh, "-N", s.User+"@"+host)
	must(b, cmd.Start())
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 1000 {
		if exec.Command(ssh, "-O", "check", host).Run() == nil {
			return ssh
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("ssh does not connect")
	return ""
}

func rawClient(b *testing.B, s *opensshtest.Server, addr string) *xssh.Client {
	c, err := xssh.Dial("tcp", addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
		Config: xssh.Config{Ciphers: []string{"aes128-gcm@openssh.com"}},
	})
	must(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

// rawRun runs a command over a plain session, with big buffers.
func rawRun(c *xssh.Client, command string, in io.Reader, out io.Writer) error {
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.Start(command); err != nil {
		return err
	}
	if in != nil {
		if _, err := io.CopyBuffer(onlyWriter{stdin}, struct{ io.Reader }{in}, make([]byte, chunk)); err != nil {
			return err
		}
	}
	stdin.Close()
	if out != nil {
		if _, err := io.CopyBuffer(onlyWriter{out}, stdout, make([]byte, chunk)); err != nil {
			return err
		}
	}
	return s.Wait()
}

// rawTar is what a program would do without this package.
func rawTar(c *xssh.Client, local, to string) error {
	pr, pw := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(pw, packet)
		w := tar.NewWriter(buffered)
		err := w.AddFS(os.DirFS(local))
		if err == nil {
			err = errors.Join(w.Close(), buffered.Flush())
		}
		pw.CloseWithError(err)
	}()
	return rawRun(c, "mkdir "+quote(to)+" && exec tar -xf - -C "+quote(to), pr, nil)
}

func rawUntar(c *xssh.Client, there, to string) error {
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		tr := tar.NewReader(pr)
		for {
			h, err := tr.Next()
			if err != nil {
				io.Copy(io.Discard, pr)
				done <- nil
				return
			}
			at := filepath.Join(to, h.Name)
			if h.Typeflag == tar.TypeDir {
				os.MkdirAll(at, 0o755)
				continue
			}
			var content bytes.Buffer
			io.Copy(&content, tr)
			if err := os.WriteFile(at, content.Bytes(), fs.FileMode(h.Mode)); err != nil {
				pr.CloseWithError(err)
				done <- err
				return
			}
		}
	}()
	err := rawRun(c, "tar -cf - -C "+quote(there)+" .", nil, pw)
	pw.Close()
	if taken := <-done; taken != nil {
		return taken
	}
	return err
}

package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

// hiddenSlurm makes a home with Slurm's commands in a folder that no PATH has, and returns both.
func hiddenSlurm(t *testing.T) (home, bin string) {
	t.Helper()
	home = t.TempDir()
	bin = filepath.Join(home, "it's slurm", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, does := range map[string]string{
		"sinfo":    "echo slurm 22.05.8",
		"scontrol": `[ "$*" = "show config" ] && echo "ClusterName=hidden$SLURM_CONF" && echo SLURM_VERSION=22.05.8 || echo PartitionName=gpu`,
		"srun":     "echo srun is found",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home, bin
}

// opened opens a driver, and returns the name of its cluster.
func opened(t *testing.T, c Config) (*slurmDriver, string) {
	t.Helper()
	d, err := c.Open(t.Context())
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	t.Cleanup(func() { d.Close() })
	return d.(*slurmDriver), strings.Split(d.Capabilities().Account, "/")[0]
}

// TestCommandsOfALoginShell has Slurm's commands where a start file of the login shell puts them, which says it on the way.
func TestCommandsOfALoginShell(t *testing.T) {
	for _, s := range []struct{ name, shell, file, text string }{
		{"bash", "bash", ".bash_profile", "export PATH=$PATH:%s SLURM_CONF=-by-conf\nread -r answer; echo Welcome; PATH=$PATH:/more"},
		{"bash for terminals", "bash", ".bash_profile", "case $- in *i*) ;; *) return ;; esac\nexport PATH=$PATH:%s SLURM_CONF=-by-conf"},
		{"sh", "sh", ".profile", "set -eu\nexport PATH=\"$PATH\":%s SLURM_CONF=-by-conf; printf Welcome"},
		{"zsh", "zsh", ".zprofile", "setopt rcquotes\nexport PATH=$PATH:%s SLURM_CONF=-by-conf; echo Welcome"},
		{"csh", "tcsh", ".login", "setenv PATH ${PATH}:%s\nsetenv SLURM_CONF -by-conf; echo Welcome"},
		{"fish", "fish", ".config/fish/config.fish", "status is-login; and set -x PATH $PATH %s; and set -x SLURM_CONF -by-conf\necho Welcome"},
	} {
		t.Run(s.name, func(t *testing.T) {
			shell := opensshtest.Program(t, s.shell, s.shell)
			home, bin := hiddenSlurm(t)
			file := filepath.Join(home, s.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(fmt.Sprintf(s.text, `"`+bin+`"`)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", home)
			t.Setenv("SHELL", shell)
			t.Setenv("PATH", "/usr/bin:/bin")
			d, cluster := opened(t, Config{Local: true})
			if cluster != "hidden-by-conf" {
				t.Fatalf("cluster %q, without SLURM_CONF", cluster)
			}
			if answers, _, err := d.do(t.Context(), command{words: []string{"srun"}}); err != nil || !strings.Contains(answers[0].out, "srun is found") {
				t.Errorf("later: %v %v", answers, err)
			}
		})
	}
}

// TestCommandsOfALoginBySSH has them found for commands, and for the steps that carry bytes.
func TestCommandsOfALoginBySSH(t *testing.T) {
	home, bin := hiddenSlurm(t)
	if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte("PATH=$PATH:\""+bin+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := opensshtest.Start(t, opensshtest.Config(fmt.Sprintf(`SetEnv "HOME=%s" "SHELL=/bin/bash"`, home)))
	host := ssh.Host{Addr: srv.Addr, User: srv.User, KeyFile: srv.KeyFile, HostKey: xssh.FingerprintSHA256(srv.HostKey)}
	d, cluster := opened(t, Config{Login: host})
	if cluster != "hidden" {
		t.Fatalf("cluster %q", cluster)
	}
	var out, stderr output
	client, err := d.shell.(*login).Client(t.Context())
	if err == nil {
		err = client.Exec(t.Context(), d.stepCommand(job{id: "7"}), nil, &out, &stderr)
	}
	if err != nil || out.text.String() != "srun is found\n" {
		t.Errorf("a step: %v, %q, %q", err, out.text.String(), stderr.text.String())
	}
}

// TestPath has commands found by Path, before those of PATH, and says where to name them if nothing finds them.
func TestPath(t *testing.T) {
	home, bin := hiddenSlurm(t)
	other, fails := hiddenSlurm(t)
	if err := os.WriteFile(filepath.Join(fails, "sinfo"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("PATH", "/usr/bin:/bin")
	_, err := Config{Local: true}.Open(t.Context())
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "Path names its folder") {
		t.Errorf("nowhere: %v", err)
	}
	t.Setenv("PATH", fails+":/usr/bin:/bin")
	if _, cluster := opened(t, Config{Local: true, Path: filepath.Join(other, "none") + ":" + bin}); cluster != "hidden" {
		t.Errorf("cluster %q", cluster)
	}
}

package slurm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/ssh"
)

// Each mistake is refused by Open, before anything is contacted, and all of them at once.
func TestMistakes(t *testing.T) {
	_, key, _ := testKey(t)
	login := ssh.Host{Addr: "login.lab", User: "me", KeyFile: key, HostKey: "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"}
	for want, c := range map[string]Config{
		"Login names no host":                        {},
		"Local is true, and Login":                   {Local: true, Login: login},
		"Login, \"me@login\"":                        {Login: ssh.Host{Addr: "me@login", KeyFile: key, HostKey: login.HostKey}},
		"Jump[1], \"\"":                              {Login: login, Jump: []ssh.Host{login, {}}},
		`Partitions has "gpu*"`:                      {Local: true, Partitions: []string{"gpu*"}},
		`Partitions has "gpu" twice`:                 {Local: true, Partitions: []string{"gpu", "gpu"}},
		`PreemptiblePartitions has "a b"`:            {Local: true, PreemptiblePartitions: []string{"a b"}},
		`Account is "-x"`:                            {Local: true, Account: "-x"},
		`QOS is "a,b"`:                               {Local: true, QOS: "a,b"},
		`Clusters is "all"`:                          {Local: true, Clusters: "all"},
		`Constraint is "a\nb"`:                       {Local: true, Constraint: "a\nb"},
		`GPUNames["x"] is "no such device"`:          {Local: true, GPUNames: map[string]string{"x": "no such device"}},
		`GPUNames["x"] is "A100:2"`:                  {Local: true, GPUNames: map[string]string{"x": "A100:2"}},
		"CPUsPerGPU is -1":                           {Local: true, CPUsPerGPU: -1},
		"MemoryPerGPUGiB is NaN":                     {Local: true, MemoryPerGPUGiB: math.NaN()},
		"TimeLimit is -1s":                           {Local: true, TimeLimit: -time.Second},
		"PollInterval is -1s":                        {Local: true, PollInterval: -time.Second},
		`HourlyUSD["gpu"] is 0`:                      {Local: true, HourlyUSD: map[string]float64{"gpu": 0}},
		"Ports are 80 to 90":                         {Local: true, Ports: [2]int{80, 90}},
		`Path is "bin:/usr/bin", in which "bin" is`:  {Local: true, Path: "bin:/usr/bin"},
		`in which "" is not absolute`:                {Local: true, Path: "/opt/slurm/bin:"},
		`Path is "/opt\nslurm", which has a control`: {Local: true, Path: "/opt\nslurm"},
		`Path is "/opt\x00", which has a control`:    {Local: true, Path: "/opt\x00"},
		`WorkDir is "/tmp/$(id)"`:                    {Local: true, WorkDir: "/tmp/$(id)"},
		`WorkDir is "scratch"`:                       {Local: true, WorkDir: "scratch"},
		`SSHD is "sshd"`:                             {Local: true, SSHD: "sshd"},
		"line 0 of Setup has a NUL":                  {Local: true, Setup: []string{"a\x00"}},
		`Container is "-x"`:                          {Local: true, Container: "-x"},
		`Reach is "fly"`:                             {Local: true, Reach: "fly"},
		"Reach is step, and Local":                   {Local: true, Reach: ReachStep},
		"a step does not run in the":                 {Login: login, Reach: ReachStep, Container: "pytorch"},
		`SbatchArgs: "--job-name=x" is an`:           {Local: true, SbatchArgs: []string{"--job-name=x"}},
		`SbatchArgs: "--comm=x" is an`:               {Local: true, SbatchArgs: []string{"--comm=x"}},
		`SbatchArgs: "-J" is an`:                     {Local: true, SbatchArgs: []string{"-J"}},
		`SbatchArgs: "script.sh" is no`:              {Local: true, SbatchArgs: []string{"script.sh"}},
		`SbatchArgs: "--a=\n" has a control`:         {Local: true, SbatchArgs: []string{"--a=\n"}},
	} {
		_, err := c.Open(t.Context())
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := Config{CPUsPerGPU: -1, Ports: [2]int{1, 2}, SSHD: "x"}.Open(t.Context())
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d of 4 mistakes are named: %v", n, err)
	}
	good := Config{
		Login: login, Jump: []ssh.Host{login}, Partitions: []string{"gpu", "gpu_long-2"}, Constraint: "[rack1|rack2]&a100*2", WorkDir: "/scratch/${USER}/$SLURM_JOB_ID",
		Container: "nvcr.io#nvidia/pytorch:24.01-py3", SbatchArgs: []string{"--mail-type=FAIL", "--exclude=c1", "-x c2", "--time-min=5", "--nice"},
		GPUNames: map[string]string{"nvidia_h100_80gb_hbm3": "H100", "partition:old": "V100"},
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
}

// A Config is a value: a driver has copies.
func TestComplete(t *testing.T) {
	c := Config{Partitions: []string{"a"}, HourlyUSD: map[string]float64{"a": 1}}
	d := c.complete()
	d.Partitions[0], d.HourlyUSD["a"] = "b", 2
	if c.Partitions[0] != "a" || c.HourlyUSD["a"] != 1 {
		t.Errorf("the config was changed: %+v", c)
	}
	if d.QueueTimeout != 30*time.Minute || d.CommandTimeout != 30*time.Second || d.WorkDir != "${TMPDIR:-/tmp}" || d.SSHD != "/usr/sbin/sshd" || d.Ports != [2]int{20000, 31999} || d.Reach != ReachAuto {
		t.Errorf("%+v", d)
	}
}

// With Jump, ~/.ssh/config need not know the way to the login node: neither its ProxyCommand nor its ProxyJump counts. Without, they do.
func TestJumpInsteadOfTheConfiguredWay(t *testing.T) {
	opensshtest.Client(t, "ssh")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".ssh"), 0o700), os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte("Host login.lab\n ProxyCommand nc %h %p\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, key, _ := testKey(t)
	login := ssh.Host{Addr: "login.lab", User: "me", KeyFile: key, HostKey: "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"}
	door := login
	door.Addr = "door.lab"
	if err := (Config{Login: login, Jump: []ssh.Host{door}}).check(); err != nil {
		t.Error(err)
	}
	if err := (Config{Login: login}).check(); err == nil || !strings.Contains(err.Error(), "ProxyCommand") {
		t.Errorf("without Jump: %v", err)
	}
	if err := (Config{Login: login, Jump: []ssh.Host{{}}}).check(); err == nil || strings.Count(err.Error(), "Addr is empty") != 1 {
		t.Errorf("a mistake in Jump: %v", err)
	}
}

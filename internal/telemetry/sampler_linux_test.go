package telemetry

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/faketools"
	"github.com/gputrain/gputrain/providers/driver"
)

// shells are those that the sampler must run in.
func shells(t *testing.T) map[string][]string {
	found := map[string][]string{}
	for name, command := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		if _, err := exec.LookPath(command[0]); err == nil {
			found[name] = command
		}
	}
	if len(found) == 0 {
		t.Fatal("there is no shell")
	}
	return found
}

// A sampling is a sampler that runs here.
type sampling struct {
	stdin    io.Closer
	out, log *printed
	cmd      *exec.Cmd
}

// sample runs the sampler, with some of its text replaced.
func sample(t *testing.T, shell []string, f *faketools.Tools, mode string, replace ...string) *sampling {
	t.Helper()
	text := strings.NewReplacer(replace...).Replace(sampler)
	cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), "-c", text, "gputrain-usage", mode)...)
	cmd.Env = []string{"PATH=" + f.Dir + ":" + os.Getenv("PATH")}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := cmd.StdoutPipe()
	log, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &sampling{stdin: stdin, cmd: cmd, out: linesOf(out), log: linesOf(log)}
	t.Cleanup(func() {
		stdin.Close()
		out.Close()
		log.Close()
		cmd.Wait()
	})
	return s
}

// A printed collects the lines of a stream.
type printed struct {
	mu    sync.Mutex
	all   []string
	ended bool
}

func linesOf(r io.Reader) *printed {
	p := &printed{}
	go func() {
		for scan := bufio.NewScanner(r); scan.Scan(); {
			p.mu.Lock()
			p.all = append(p.all, scan.Text())
			p.mu.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
	}()
	return p
}

// lines returns what has been printed, and whether more may come.
func (p *printed) lines() (all []string, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all), p.ended
}

// await returns the first line that has a text.
func await(t *testing.T, p *printed, text string) string {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all, ended := p.lines()
		if i := slices.IndexFunc(all, func(l string) bool { return strings.Contains(l, text) }); i >= 0 {
			return all[i]
		}
		if ended || time.Now().After(limit) {
			t.Fatalf("no line has %q: %q", text, all[max(len(all)-5, 0):])
		}
	}
}

// leavesNothing fails if processes with the tools are left some time later.
func leavesNothing(t *testing.T, f *faketools.Tools) {
	t.Helper()
	var left []string
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if left = f.Running(); len(left) == 0 {
			return
		}
	}
	t.Errorf("these are left: %q", left)
}

const aTesla = "0, GPU-0000, 00000000:01:00.0, NVIDIA A100-SXM4-80GB, 11, 81920, 0, 0, 33, 61.02, 210, 0, 0x0000000000000001"

// The sampler samples, follows the log, and leaves nothing when its stdin ends: in each shell.
func TestSampler(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			f := faketools.New(t, 2)
			s := sample(t, shell, f, "watch")
			await(t, s.out, "kernel dmesg [ 1.000000] booted")
			await(t, s.out, aTesla)
			await(t, s.out, "00000000:02:00.0, No, No")
			f.Kernel("usb 1-1: new device")
			f.Kernel("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.")
			if line := await(t, s.log, ""); !strings.Contains(line, "79") {
				t.Errorf("%q", line)
			}
			f.Set(0, map[string]string{"utilization.gpu": "97"})
			await(t, s.out, ", 97, ")
			s.stdin.Close()
			leavesNothing(t, f)
		})
	}
}

// Nothing is left either if nvidia-smi hangs, at whatever moment, or stdout ends.
func TestSamplerThatHangsLeavesNothing(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{true, false} {
				f := faketools.New(t, 1)
				if before {
					f.Hang()
				}
				s := sample(t, shell, f, "watch")
				await(t, s.out, "kernel dmesg")
				if !before {
					await(t, s.out, aTesla)
					f.Hang()
				}
				s.stdin.Close()
				leavesNothing(t, f)
			}
		})
	}
}

// Nothing is left either if the sampler is ended just as it begins: a shell that was forked a moment ago drops a signal that comes
// before its own trap.
func TestSamplerThatHasJustBegunLeavesNothing(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			f := faketools.New(t, 1)
			for i := range 150 {
				s := sample(t, shell, f, "watch")
				time.Sleep(time.Duration(i%15) * 200 * time.Microsecond)
				s.cmd.Process.Signal(syscall.SIGTERM)
				s.stdin.Close() // bash may drop the signal, too
			}
			leavesNothing(t, f)
		})
	}
}

// Fields that the driver does not know are left out, and the older name of one is used.
func TestFieldsOfOtherDrivers(t *testing.T) {
	older := map[string]string{"clocks_event_reasons.active": "", "clocks_throttle_reasons.active": "0x0000000000000080"}
	least := map[string]string{"clocks_event_reasons.active": "", "ecc.errors.uncorrected.volatile.total": "", "power.draw": ""}
	for name, tt := range map[string]struct {
		change map[string]string
		fields string
		row    string
	}{
		"older": {older, "ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active", "210, 0, 0x0000000000000080"},
		"least": {least, "memory.total,utilization.gpu,utilization.memory,temperature.gpu,clocks.sm", "81920, 0, 0, 33, 210"},
	} {
		f := faketools.New(t, 1)
		f.Set(0, tt.change)
		s := sample(t, []string{"sh"}, f, "watch")
		if tool := await(t, s.out, "tool nvidia-smi"); !strings.HasSuffix(tool, tt.fields) {
			t.Errorf("%s: %s", name, tool)
		}
		if row := await(t, s.out, "GPU-0000"); !strings.HasSuffix(row, tt.row) {
			t.Errorf("%s: %s", name, row)
		}
	}
}

// The kernel's log is read in the first way that works, and is unknown without one.
func TestWaysToTheKernelsLog(t *testing.T) {
	f := faketools.New(t, 1)
	f.Write("denied", "")
	f.Write("kmsg", "6,1,5000000,-;booted\n3,2,9000000,-;NVRM: Xid (PCI:0000:01:00): 79, x\n")
	s := sample(t, []string{"sh"}, f, "watch", "/dev/kmsg", f.Dir+"/kmsg")
	await(t, s.out, "kernel kmsg [")
	await(t, s.log, "3,2,9000000,-;NVRM: Xid (PCI:0000:01:00): 79, x")

	f.Write("journal", "1700000000.100000 host kernel: booted\n1700000001.100000 host kernel: NVRM: Xid (PCI:0000:01:00): 79, x\n")
	s = sample(t, []string{"sh"}, f, "watch", "/dev/kmsg", f.Dir+"/none")
	await(t, s.out, "kernel journalctl 1700000001.100000")
	await(t, s.log, "1700000001.100000 host kernel: NVRM")

	f.Remove("journal")
	s = sample(t, []string{"sh"}, f, "watch", "/dev/kmsg", f.Dir+"/none")
	await(t, s.out, "kernel unknown")
}

// Of AMD's tools the first that works samples, or else the kernel.
func TestSamplerOfAMD(t *testing.T) {
	f := faketools.New(t, 0)
	noNvidia := []string{"command -v nvidia-smi", "false", "/sys/class/drm", f.Dir + "/drm", "sleep 30", "sleep 0.1"}
	s := sample(t, []string{"sh"}, f, "watch", append(noNvidia, "command -v amd-smi", "false", "command -v rocm-smi", "false")...)
	await(t, s.out, "tool none")

	for _, file := range []string{"drm/card1/device/gpu_busy_percent 41", "drm/card1/device/mem_info_vram_used 1048576", "drm/card1/device/mem_info_vram_total 2097152"} {
		name, value, _ := strings.Cut(file, " ")
		path := f.Dir + "/" + name
		os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755)
		os.WriteFile(path, []byte(value+"\n"), 0o644)
	}
	s = sample(t, []string{"sh"}, f, "watch", append(noNvidia, "command -v amd-smi", "false", "command -v rocm-smi", "false")...)
	await(t, s.out, "drm 0 device 41 1048576 2097152")

	f.Script("rocm-smi", `[ ! -e "$d/broken" ] || exit 1; echo '{"card0": {"GPU use (%)": "97"}}'`)
	s = sample(t, []string{"sh"}, f, "watch", append(noNvidia, "command -v amd-smi", "false")...)
	await(t, s.out, "tool rocm-smi")
	await(t, s.out, `"97"`)
	f.Write("broken", "")
	await(t, s.out, "drm 0 ")

	f.Remove("broken")
	f.Script("amd-smi", `[ ! -e "$d/broken" ] || exit 1; case $1 in list) echo '[{"gpu": 0, "bdf": "0000:05:00.0"}]' ;; *) echo '[{"gpu": 0}]' ;; esac`)
	s = sample(t, []string{"sh"}, f, "once", noNvidia...)
	for ended := false; !ended; time.Sleep(10 * time.Millisecond) {
		_, ended = s.out.lines()
	}
	want := []string{"tool amd-smi", "json", `[{"gpu": 0, "bdf": "0000:05:00.0"}]`, "end 0", "json", `[{"gpu": 0}]`, "end 0"}
	if all, _ := s.out.lines(); !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

// machine returns a machine with the tools, on which commands run.
func machine(t *testing.T, f *faketools.Tools) *ssh.Client {
	t.Helper()
	server, c := connected(t, sshd.Config{Dir: t.TempDir(), Env: []string{"PATH=" + f.Dir + ":" + os.Getenv("PATH")}})
	t.Cleanup(func() { c.Close(); server.Close() })
	return c
}

// One sample has what a preflight looks at. A hanging tool does not keep its caller, and is not left.
func TestOnce(t *testing.T) {
	f := faketools.New(t, 2)
	f.Set(1, map[string]string{"memory.used": "70000", "remapped_rows.pending": "Yes"})
	c := machine(t, f)
	samples, err := Once(t.Context(), c)
	if err != nil || len(samples) != 2 || samples[0].MemoryMiB != 11 || samples[1].MemoryMiB != 70000 || samples[0].RemapPending || !samples[1].RemapPending || samples[1].RemapFailed {
		t.Errorf("%+v, %v", samples, err)
	}
	f.Write("broken", "Unable to determine the device handle for GPU0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU\n")
	if _, err := Once(t.Context(), c); !errors.Is(err, driver.ErrAccelerator) || !strings.Contains(err.Error(), "0000:02:00.0") {
		t.Errorf("%v", err)
	}
	f.Write("broken", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
	if _, err := Once(t.Context(), c); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "couldn't communicate") {
		t.Errorf("%v", err)
	}
	f.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Once(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	leavesNothing(t, f)
}

// What holds the memory of a device is in the error. The rest of MemoryFree is tested in virtual time.
func TestHoldersOfMemory(t *testing.T) {
	f := faketools.New(t, 2)
	f.Set(1, map[string]string{"memory.used": "70000"})
	f.Write("apps", "00000000:01:00.0, 1, idler, 5\n00000000:02:00.0, 4711, python3, 69000\n")
	c := machine(t, f)
	samples, err := Once(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := notFree(t.Context(), c, samples[1:], time.Minute); !errors.Is(err, driver.ErrAccelerator) || !strings.Contains(err.Error(), "0000:02:00.0 has 70000 MiB in use by process 4711 (python3)") || strings.Contains(err.Error(), "idler") {
		t.Errorf("%v", err)
	}
	leavesNothing(t, f)
}

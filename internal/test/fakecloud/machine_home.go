package fakecloud

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// powerScript replaces shutdown, poweroff, halt, reboot and systemctl. It notifies only its own machine.
const powerScript = `#!/bin/sh
echo "${0##*/} $*" >>"$FAKECLOUD_MACHINE/power"
`

// sudoScript runs its arguments, as every login may use sudo.
const sudoScript = `#!/bin/sh
while case "${1-}" in -u | -g) shift; true ;; -*) true ;; *) false ;; esac; do shift; done
exec env "$@"
`

// powerEvery is the interval at which a machine checks whether it was shut down from within.
const powerEvery = 20 * time.Millisecond

// furnish creates the machine's folders and programs, and returns its environment.
func (m *Machine) furnish(cfg MachineConfig) ([]string, error) {
	bin, tmp, system := filepath.Join(string(m.dir), "bin"), filepath.Join(string(m.dir), "tmp"), m.system()
	for _, dir := range []string{m.Home, bin, tmp, filepath.Join(system, "etc")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(system, "etc", "passwd"), nil, 0o600); err != nil {
		return nil, err
	}
	if cfg.Disk != "" {
		if err := os.CopyFS(m.Home, os.DirFS(cfg.Disk)); err != nil {
			return nil, err
		}
	}
	scripts := map[string]string{"sudo": sudoScript}
	for _, name := range []string{"shutdown", "poweroff", "halt", "reboot", "systemctl"} {
		scripts[name] = powerScript
	}
	for name, text := range cfg.Programs {
		scripts[name] = "#!/bin/sh\n" + text + "\n"
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			return nil, err
		}
	}
	env := []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"USER=" + m.User, "LOGNAME=" + m.User, "SHELL=/bin/sh", "TMPDIR=" + tmp,
		"GPUTRAIN_SYSTEM_ROOT=" + system, // what is cleaned before an image is made is not this computer
	}
	return append(env, cfg.Env...), nil
}

// mark is in the environment of every process of the machine, and identifies them.
func (m *Machine) mark() string { return "FAKECLOUD_MACHINE=" + string(m.dir) }

// system is the folder that stands for the machine's file system, beside its home.
func (m *Machine) system() string { return filepath.Join(string(m.dir), "system") }

// CopyDisk returns a copy of the machine's home, which is removed with the test, for MachineConfig.Disk of machines that
// are launched from an image of this one.
func (m *Machine) CopyDisk() (string, error) {
	dir := m.t.TempDir()
	return dir, os.CopyFS(dir, os.DirFS(m.Home))
}

// watchPower takes the machine down when one of its commands shuts it down.
func (m *Machine) watchPower() {
	tick := time.NewTicker(powerEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.down:
			return
		case <-tick.C:
		}
		text, _ := os.ReadFile(filepath.Join(string(m.dir), "power")) // no file: not shut down
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); takesDown(line) {
				m.end(line)
				return
			}
		}
	}
}

// takesDown reports whether a command shuts a machine down now. It is false for a delayed shutdown and a reboot.
func takesDown(command string) bool {
	words := strings.Fields(command)
	says := func(any ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	if words[0] == "shutdown" {
		return says("now", "+0") && !says("-c", "-r")
	}
	return says("poweroff", "halt")
}
